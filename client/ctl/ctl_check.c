#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl_admin.h"
#include "client/ctl/ctl_json.h"
#include "client/dataload.h"
#include "proto/frames.h"
#include "proto/socket_path.h"

#define SECONDS 10 /* for each answer */
#define SLOW_S 1.0 /* a round trip */
#define COUNT_MAX 512

enum level { FINE, WARNING, CRITICAL };

static const char *const words[] = {[FINE] = "OK", [WARNING] = "WARNING", [CRITICAL] = "CRITICAL"};

struct finding {
    enum level level;
    char check[DLP_NAME_MAX + 8];
    char *text, *remedy; /* remedy: "" = none is needed */
};

/* What was found, and the command line without a place for errors: they are findings. */
struct check {
    struct ctl ctl;
    char *said; /* the last error, as "dataloadctl: <text>\n" */
    size_t size;
    struct finding list[COUNT_MAX];
    size_t count;
};

static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    return ctl_must(text);
}

/* Behind a '|' a monitor expects figures. */
static void replace_bars(char *text)
{
    while ((text = strchr(text, '|')))
        *text = ':';
}

static void add(struct check *check, enum level level, const char *name, const char *remedy,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

static void add(struct check *check, enum level level, const char *name, const char *remedy,
                const char *format, ...)
{
    va_list args;
    if (check->count == COUNT_MAX)
        return;
    struct finding *found = &check->list[check->count++];
    found->level = level;
    snprintf(found->check, sizeof(found->check), "%s", name);
    va_start(args, format);
    found->text = format_text(format, args);
    va_end(args);
    found->remedy = ctl_must(strdup(remedy));
    if (check->ctl.nagios) {
        replace_bars(found->text);
        replace_bars(found->remedy);
    }
}

/* The last error's words. */
static const char *said(struct check *check)
{
    static const char prefix[] = "dataloadctl: ";
    fflush(check->ctl.err);
    char *text = check->said;
    text[check->size ? check->size - 1 : 0] = '\0'; /* the line's end */
    rewind(check->ctl.err);
    return strncmp(text, prefix, sizeof(prefix) - 1) ? text : text + sizeof(prefix) - 1;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int patience_ms(const struct check *check)
{
    return (int)((check->ctl.seconds > 0 ? check->ctl.seconds : SECONDS) * 1e3);
}

static void describe_socket(struct check *check, const char *path)
{
    struct stat st;
    if (stat(path, &st)) {
        add(check, WARNING, "socket", "", "%s answers, but: %s", path, strerror(errno));
        return;
    }
    const struct group *group = getgrgid(st.st_gid);
    add(check, FINE, "socket", "", "%s, mode %04o, group %s", path, st.st_mode & 07777,
        group ? group->gr_name : "without a name");
}

/* False: nobody can be asked anything. */
static bool look_at_socket(struct check *check)
{
    char text[512] = "";
    int fd = dlp_socket_connect(check->ctl.socket, text, sizeof(text));
    if (fd < 0) {
        add(check, CRITICAL, "socket",
            fd == -EACCES
                ? "join the group of the socket: usermod -aG GROUP USER, and log in anew"
                : "systemctl start dataloadd, or dataloadd --user; --socket names another",
            "%s", text);
        return false;
    }
    close(fd);
    describe_socket(check, text);
    return true;
}

static void look_at_version(struct check *check, const struct ctl_link *link)
{
    bool same = strcmp(link->peer, dataload_version()) == 0;
    add(check, same ? FINE : WARNING, "version",
        same ? "" : "systemctl restart dataloadd, for which trainers wait",
        same ? "%s, as this program" : "the daemon is %s, this program %s", link->peer,
        dataload_version());
}

/* Asks with a limit that reports of progress do not put off. */
static int ask(struct check *check, struct ctl_link *link, Dlp__Envelope *env,
               Dlp__Envelope__BodyCase wanted, struct ctl_reply *reply)
{
    link->fixed = true;
    return ctl_link_ask(link, env, wanted, patience_ms(check), reply);
}

static bool look_at_round_trip(struct check *check, struct ctl_link *link)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Ping ping = DLP__PING__INIT;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_PING;
    env.ping = &ping;
    double begun = now_s();
    if (ask(check, link, &env, DLP__ENVELOPE__BODY_PONG, &reply)) {
        add(check, CRITICAL, "answer",
            "see its log; systemctl restart dataloadd, for which "
            "trainers wait",
            "%s", said(check));
        return false;
    }
    double took = now_s() - begun;
    ctl_reply_free(&reply);
    add(check, took < SLOW_S ? FINE : WARNING, "answer",
        took < SLOW_S ? "" : "the node is overloaded: fewer workers, or fewer trainers",
        "after %.1f ms", took * 1e3);
    return true;
}

static void look_inside(struct check *check, struct ctl_link *link)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__CheckRequest request = DLP__CHECK_REQUEST__INIT;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_CHECK_REQUEST;
    env.check_request = &request;
    if (ask(check, link, &env, DLP__ENVELOPE__BODY_CHECK_REPLY, &reply)) {
        add(check, CRITICAL, "daemon", "is the file system of its cache directory hanging?",
            "its look at itself: %s", said(check));
        return;
    }
    const Dlp__CheckReply *found = ctl_reply_body(&reply);
    for (size_t i = 0; i < found->n_findings; i++) {
        const Dlp__Finding *it = found->findings[i];
        add(check, it->level < CRITICAL ? (enum level)it->level : CRITICAL, it->check, it->remedy,
            "%s", it->text);
    }
    ctl_reply_free(&reply);
}

/* A question about its plan has the data set opened. */
static void look_at_feed(struct check *check, const char *feed)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Question question = DLP__QUESTION__INIT;
    Dlp__Number one = DLP__NUMBER__INIT;
    Dlp__TokenRequest request = DLP__TOKEN_REQUEST__INIT;
    struct ctl_reply reply;
    struct ctl_link link;
    char name[DLP_NAME_MAX + 8];
    one.value = 1;
    question.feed = (char *)feed;
    question.world = question.batch = &one;
    request.question = &question;
    env.body_case = DLP__ENVELOPE__BODY_TOKEN_REQUEST;
    env.token_request = &request;
    snprintf(name, sizeof(name), "feed %s", feed);
    double begun = now_s();
    int code = ctl_link_open(&check->ctl, "dataloadctl check", &link);
    if (code == CTL_OK)
        code = ask(check, &link, &env, DLP__ENVELOPE__BODY_TOKEN_REPLY, &reply);
    if (code == CTL_OK) {
        ctl_reply_free(&reply);
        add(check, FINE, name, "", "its data set is open, after %.1f s", now_s() - begun);
    } else if (now_s() - begun >= patience_ms(check) / 1e3) {
        add(check, WARNING, name,
            "dataloadctl status says what it does; --seconds waits longer for a large index",
            "its data set is not open after %.0f s: the storage hangs, or it is being indexed",
            patience_ms(check) / 1e3);
    } else {
        add(check, CRITICAL, name,
            "is the storage there, and may the daemon's user read it? dataloadd --check-config "
            "tries it by hand",
            "%s", said(check));
    }
    ctl_link_close(&link);
}

static void look_at_feeds(struct check *check, struct ctl_link *link)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__FeedsRequest request = DLP__FEEDS_REQUEST__INIT;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_FEEDS_REQUEST;
    env.feeds_request = &request;
    if (ask(check, link, &env, DLP__ENVELOPE__BODY_FEEDS_REPLY, &reply)) {
        add(check, CRITICAL, "feeds", "see its log", "%s", said(check));
        return;
    }
    const Dlp__FeedsReply *feeds = ctl_reply_body(&reply);
    size_t skipped = 0;
    for (size_t i = 0; i < feeds->n_feeds; i++)
        if (feeds->feeds[i]->allowed)
            look_at_feed(check, feeds->feeds[i]->name);
        else
            skipped++;
    if (skipped)
        add(check, FINE, "feeds", "", "%zu were left out: they are not for this user", skipped);
    ctl_reply_free(&reply);
}

static void look(struct check *check)
{
    struct ctl_link link;
    if (!look_at_socket(check))
        return;
    if (ctl_link_open(&check->ctl, "dataloadctl check", &link)) {
        add(check, CRITICAL, "answer", "see its log; systemctl restart dataloadd", "%s",
            said(check));
        return;
    }
    look_at_version(check, &link);
    if (look_at_round_trip(check, &link)) {
        look_inside(check, &link);
        look_at_feeds(check, &link);
    }
    ctl_link_close(&link);
}

static enum level worst(const struct check *check)
{
    enum level level = FINE;
    for (size_t i = 0; i < check->count; i++)
        if (check->list[i].level > level)
            level = check->list[i].level;
    return level;
}

static void print_json(const struct ctl *ctl, const struct check *check)
{
    json_t *json = ctl_must(json_object()), *list = ctl_must(json_array());
    json_object_set_new(json, "level", ctl_json_text(words[worst(check)]));
    json_object_set_new(json, "findings", list);
    for (size_t i = 0; i < check->count; i++) {
        json_t *found = ctl_must(json_object());
        json_object_set_new(found, "level", ctl_json_text(words[check->list[i].level]));
        json_object_set_new(found, "check", ctl_json_text(check->list[i].check));
        json_object_set_new(found, "text", ctl_json_text(check->list[i].text));
        json_object_set_new(found, "remedy", ctl_json_text(check->list[i].remedy));
        json_array_append_new(list, found);
    }
    ctl_json_print(ctl->out, json, true);
}

static void print_first(const struct ctl *ctl, const struct check *check)
{
    enum level level = worst(check);
    const struct finding *first = check->list;
    while (first->level != level)
        first++;
    if (level == FINE)
        ctl_print(ctl, "DATALOADD OK - %zu checks", check->count);
    else
        ctl_print(ctl, "DATALOADD %s - %s: %s", words[level], first->check, first->text);
}

static void print(const struct ctl *ctl, const struct check *check)
{
    for (size_t i = 0; i < check->count; i++) {
        const struct finding *it = &check->list[i];
        ctl_print(ctl, "%-8s  %s: %s%s%s", words[it->level], it->check, it->text,
                  *it->remedy ? ". Remedy: " : "", it->remedy);
    }
}

int ctl_check(const struct ctl *ctl)
{
    struct check *check = ctl_must(calloc(1, sizeof(*check)));
    check->ctl = *ctl;
    check->ctl.err = ctl_must(open_memstream(&check->said, &check->size));
    look(check);
    int code = (int)worst(check);
    if (ctl->json)
        print_json(ctl, check);
    else if (ctl->nagios)
        print_first(ctl, check);
    if (!ctl->json)
        print(ctl, check);
    fclose(check->ctl.err);
    free(check->said);
    for (size_t i = 0; i < check->count; i++) {
        free(check->list[i].text);
        free(check->list[i].remedy);
    }
    free(check);
    return code;
}
