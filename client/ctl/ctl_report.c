#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_page.h"
#include "client/ctl/ctl_probe.h"
#include "client/ctl/ctl_sheet.h"
#include "proto/page/page.h"

#define PROGRAM "dataloadctl report"
#define PICTURES 9
#define PATIENCE_MS 10000 /* a page without pictures is better than none */
#define SHEET_WIDTH 1000  /* pixels; wider ones are halved */

/* Questions of whose answer the page can do without: what went wrong becomes its text. */
struct asking {
    struct ctl ctl;
    char *words;
    size_t size;
};

static void asking_begin(struct asking *asking, const struct ctl *ctl, const char *feed)
{
    *asking = (struct asking){.ctl = *ctl};
    asking->ctl.feed = feed;
    asking->ctl.err = ctl_must(open_memstream(&asking->words, &asking->size));
}

/* Ends the questions; where one had no answer, says why. */
static void asking_end(struct asking *asking, int code, json_t *json)
{
    static const char program[] = "dataloadctl: ";
    fclose(asking->ctl.err);
    char *why = asking->words;
    why[strcspn(why, "\n")] = 0;
    why += strncmp(why, program, strlen(program)) == 0 ? strlen(program) : 0;
    if (code)
        json_object_set_new(json, "why", ctl_json_text(*why ? why : "no answer"));
    free(asking->words);
}

static char *base64(const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = ctl_must(malloc((size + 2) / 3 * 4 + 1)), *to = text;
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= i + 2 < size ? bytes[i + 2] : 0;
        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = i + 1 < size ? digits[group >> 6 & 63] : '=';
        *to++ = i + 2 < size ? digits[group & 63] : '=';
    }
    *to = 0;
    return text;
}

static int add_png(const struct ctl *ctl, const struct sheet *sheet, json_t *json)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = ctl_must(open_memstream(&bytes, &size));
    int err = sheet_encode(sheet, file);
    fclose(file);
    if (!err) {
        char *text = base64((const unsigned char *)bytes, size);
        json_object_set_new(json, "png", ctl_json_text(text));
        free(text);
    }
    free(bytes);
    return err ? ctl_fail(ctl, CTL_UNAVAILABLE, "cannot write a PNG: %s", strerror(-err)) : CTL_OK;
}

static int add_sheet(const struct ctl *ctl, json_t *json)
{
    dataload *handle = NULL;
    dataload_batch *batch = NULL;
    struct sheet sheet = {0};
    struct probe probe = {.verb = "report", .world = 1, .batch = PICTURES};
    int code = ctl_probe_attach(ctl, &probe, 0, &handle);
    if (code == CTL_OK)
        code = ctl_probe_first(ctl, handle, PATIENCE_MS, &batch);
    if (code == CTL_OK)
        code = ctl_show_draw(ctl, batch, &sheet);
    while (code == CTL_OK && sheet.width > SHEET_WIDTH)
        sheet_halve(&sheet);
    if (code == CTL_OK)
        code = add_png(ctl, &sheet, json);
    sheet_free(&sheet);
    if (batch)
        dataload_release(handle, batch);
    dataload_detach(handle);
    return code;
}

static int ask_mix(const struct ctl *ctl, json_t **json)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__MixRequest request = DLP__MIX_REQUEST__INIT;
    Dlp__Question question = DLP__QUESTION__INIT;
    struct ctl_reply reply;
    question.feed = (char *)ctl->feed;
    request.question = &question;
    env.body_case = DLP__ENVELOPE__BODY_MIX_REQUEST;
    env.mix_request = &request;
    int code = ctl_ask_once(ctl, PROGRAM, &env, DLP__ENVELOPE__BODY_MIX_REPLY,
                            CTL_OPENING_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__MixReply *mix = ctl_reply_body(&reply);
    *json = ctl_json_message(&mix->base);
    ctl_reply_free(&reply);
    return CTL_OK;
}

static json_t *mix_of(const struct ctl *ctl, const char *feed)
{
    struct asking asking;
    json_t *json = NULL;
    asking_begin(&asking, ctl, feed);
    int code = ask_mix(&asking.ctl, &json);
    json = json ? json : ctl_must(json_object());
    asking_end(&asking, code, json);
    json_object_set_new(json, "feed", ctl_json_text(feed));
    return json;
}

static json_t *sheet_of(const struct ctl *ctl, const char *feed)
{
    struct asking asking;
    json_t *json = ctl_must(json_object());
    asking_begin(&asking, ctl, feed);
    asking_end(&asking, add_sheet(&asking.ctl, json), json);
    json_object_set_new(json, "feed", ctl_json_text(feed));
    return json;
}

/* What a port cannot know: of the feed named, else of those that are in use. */
static int add_private_parts(const struct ctl *ctl, json_t *report)
{
    json_t *mixes = ctl_must(json_array()), *sheets = ctl_must(json_array()), *feed;
    bool found = false;
    size_t i;
    json_array_foreach (json_object_get(report, "feeds"), i, feed) {
        const char *name = json_string_value(json_object_get(feed, "name"));
        bool named = ctl->feed && name && strcmp(name, ctl->feed) == 0;
        bool used = json_number_value(json_object_get(feed, "clients")) > 0;
        found = found || named;
        if (!name || (ctl->feed ? !named : !used))
            continue;
        ctl_progress(ctl, "mix and pictures of %s", name);
        json_array_append_new(mixes, mix_of(ctl, name));
        json_array_append_new(sheets, sheet_of(ctl, name));
    }
    ctl_progress(ctl, "%s", "");
    json_object_set_new(report, "mixes", mixes);
    json_object_set_new(report, "sheets", sheets);
    if (ctl->feed && !found)
        return ctl_fail(ctl, CTL_NOT_FOUND, "no feed %s; 'dataloadctl feeds' lists them",
                        ctl->feed);
    return CTL_OK;
}

static int cannot_write(const struct ctl *ctl)
{
    int code = errno == EACCES || errno == EPERM ? CTL_PERMISSION : CTL_UNAVAILABLE;
    return ctl_fail(ctl, code, "cannot write %s: %m", ctl->file);
}

static void print_summary(const struct ctl *ctl, const json_t *report, size_t bytes)
{
    size_t clients = json_array_size(json_object_get(report, "clients"));
    if (!ctl->json) {
        ctl_print(ctl, "%s: %zu bytes, %zu client%s", ctl->file, bytes, clients,
                  clients == 1 ? "" : "s");
        return;
    }
    json_t *json = ctl_must(json_object());
    json_object_set_new(json, "file", ctl_json_text(ctl->file));
    json_object_set_new(json, "bytes", json_integer((json_int_t)bytes));
    json_object_set_new(json, "clients", json_integer((json_int_t)clients));
    ctl_json_print(ctl->out, json, true);
}

static int write_page(const struct ctl *ctl, const json_t *report)
{
    char *html = ctl_must(page_html(report, false));
    FILE *file = fopen(ctl->file, "we");
    int code = file ? CTL_OK : cannot_write(ctl);
    if (file && fputs(html, file) == EOF)
        code = cannot_write(ctl);
    if (file && fclose(file) && code == CTL_OK)
        code = cannot_write(ctl);
    if (code == CTL_OK)
        print_summary(ctl, report, strlen(html));
    free(html);
    return code;
}

int ctl_write_report(const struct ctl *ctl)
{
    char *text = NULL;
    size_t size = 0;
    json_error_t wrong;
    int code = ctl_page_get(ctl, PROGRAM, "report.json", &text, &size);
    if (code)
        return code;
    json_t *report = json_loadb(text, size, 0, &wrong);
    free(text);
    if (!report)
        return ctl_fail(ctl, CTL_UNAVAILABLE, "the daemon's report is no JSON: %s", wrong.text);
    code = add_private_parts(ctl, report);
    if (code == CTL_OK)
        code = write_page(ctl, report);
    json_decref(report);
    return code;
}
