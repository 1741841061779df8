#include "control/feeds.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/plural.h"
#include "control/own_feeds.h"
#include "proto/frames.h"

#define FEEDS_A_PART 100

static void list_names(const struct control *control, const struct access_peer *peer, char *text,
                       size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (uint32_t i = 0; i < control->options.nfeeds && used < size; i++) {
        const struct feed_spec *spec = control->options.feeds[i];
        if (!control->totals[i].removed && access_allowed(spec, peer))
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", spec->name);
    }
}

int feeds_check(const struct control *control, const struct access_peer *peer, const char *name,
                struct refusal *refusal)
{
    int number = control_find_feed(control, name);
    if (number < 0) {
        char names[600];
        list_names(control, peer, names, sizeof names);
        refuse(refusal, DLP_ERROR_NO_SUCH_FEED, "there is no feed %s; there %s", name,
               *names ? "are: " : "is none that you may use");
        strncat(refusal->text, names, sizeof refusal->text - strlen(refusal->text) - 1);
        return -1;
    }
    if (access_allowed(control->options.feeds[number], peer))
        return number;
    if (control->options.feeds[number]->files) {
        refuse(refusal, DLP_ERROR_NOT_PERMITTED,
               "feed %s is its user's own, for nobody else, and you are uid %u: give one of yours, "
               "or ask for a feed in the configuration",
               name, peer->uid);
        return -1;
    }
    refuse(refusal, DLP_ERROR_NOT_PERMITTED,
           "uid %u (gid %u) is not among the users and groups of feed %s: ask its owner to add you "
           "to the lists in the configuration",
           peer->uid, peer->gid, name);
    return -1;
}

static void join(char *const *items, uint32_t count, char *text, size_t size)
{
    char item[DLP_TEXT_MAX];
    size_t used = 0;
    *text = '\0';
    for (uint32_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "",
                                 dlp_escape(items[i], item, sizeof item));
}

static void describe_files(const struct control *control, const struct feed_spec *spec, char *text,
                           size_t size)
{
    uint32_t count = files_count(spec->files);
    snprintf(text, size, "%u file%s given by %s", count, plural(count),
             own_feeds_giver(control->own_feeds, spec)->name);
}

static void describe_fields(const struct feed_spec *spec, char *text, size_t size)
{
    static const char *const kinds[] = {[FIELD_IMAGE] = "image from ",
                                        [FIELD_INT] = "int from ",
                                        [FIELD_BYTES] = "bytes from ",
                                        [FIELD_KEY] = "key"};
    size_t used = 0;
    *text = '\0';
    for (uint32_t i = 0; i < spec->nfields && used < size; i++) {
        const struct field_spec *field = &spec->fields[i];
        char from[200];
        join(field->from, field->nfrom, from, sizeof from);
        used += (size_t)snprintf(text + used, size - used, "%s%s: %s%s", i ? ", " : "", field->name,
                                 kinds[field->kind], from);
    }
}

static const char *output_name(enum pixels pixels)
{
    static const char *const names[] = {[PIXELS_U8_NHWC] = "uint8_nhwc",
                                        [PIXELS_U8_NCHW] = "uint8_nchw",
                                        [PIXELS_F32_NCHW] = "float32_nchw",
                                        [PIXELS_F16_NCHW] = "float16_nchw",
                                        [PIXELS_BF16_NCHW] = "bfloat16_nchw"};
    return names[pixels];
}

struct feed_texts {
    Dlp__FeedInfo info;
    char source[DLP_TEXT_MAX], fields[DLP_TEXT_MAX], transform[DLP_TEXT_MAX];
};

static void fill_info(const struct session *session, uint32_t number, struct feed_texts *out)
{
    const struct feed_spec *spec = session->control->options.feeds[number];
    const struct dataset *dataset = datasets_peek(session->control->datasets, number);
    Dlp__FeedInfo *info = &out->info;
    dlp__feed_info__init(info);
    info->name = spec->name;
    info->allowed = access_allowed(spec, &session->peer);
    if (!info->allowed)
        return;
    if (spec->files)
        describe_files(session->control, spec, out->source, sizeof out->source);
    else
        join(spec->patterns, spec->npatterns, out->source, sizeof out->source);
    describe_fields(spec, out->fields, sizeof out->fields);
    info->source = out->source;
    info->fields = out->fields;
    info->transform = transform_words(&spec->transform, out->transform, sizeof out->transform);
    info->output = (char *)output_name(spec->transform.pixels);
    info->batch = spec->batch;
    info->shuffle = spec->shuffle;
    info->lanes = spec->lanes;
    info->seed = spec->seed;
    info->slots = spec->slots;
    info->tail = (char *)tail_name(spec->tail);
    info->share = spec->share == SHARE_MIRROR ? "mirror" : "split";
    if (spec->share == SHARE_MIRROR)
        info->lag = (char *)spec_lag_name(spec->lag);
    if (!dataset)
        return;
    info->records = dataset_records(dataset);
    info->shards = dataset_shards(dataset);
    info->fingerprint = (char *)dataset_fingerprint(dataset);
}

void feeds_reply(struct session *session, uint64_t id)
{
    uint32_t total = session->control->options.nfeeds;
    cleanup_free struct feed_texts *texts = mem_array(FEEDS_A_PART, sizeof *texts);
    Dlp__FeedInfo *list[FEEDS_A_PART];
    uint32_t number = 0;
    do {
        Dlp__FeedsReply reply = DLP__FEEDS_REPLY__INIT;
        for (; number < total && reply.n_feeds < FEEDS_A_PART; number++) {
            if (session->control->totals[number].removed)
                continue;
            fill_info(session, number, &texts[reply.n_feeds]);
            list[reply.n_feeds] = &texts[reply.n_feeds].info;
            reply.n_feeds++;
        }
        reply.feeds = list;
        reply.more = number < total;
        Dlp__Envelope env = DLP__ENVELOPE__INIT;
        env.id = id;
        env.body_case = DLP__ENVELOPE__BODY_FEEDS_REPLY;
        env.feeds_reply = &reply;
        session_send(session, &env);
    } while (number < total);
}
