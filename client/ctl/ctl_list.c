#include <time.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_table.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

int ctl_ask_once(const struct ctl *ctl, const char *program, Dlp__Envelope *request,
                 Dlp__Envelope__BodyCase wanted, int deadline_ms, struct ctl_reply *reply)
{
    struct ctl_link link;
    int code = ctl_link_open(ctl, program, &link);
    if (code)
        return code;
    code = ctl_link_ask(&link, request, wanted, deadline_ms, reply);
    ctl_link_close(&link);
    return code;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void print_pong(const struct ctl *ctl, const struct ctl_link *link, const Dlp__Pong *pong,
                       uint64_t took)
{
    char up[CTL_TEXT_MAX], time[CTL_TEXT_MAX];
    if (ctl->json) {
        json_t *json = ctl_json_message(&pong->base);
        json_object_set_new(json, "version", ctl_json_text(link->peer));
        json_object_set_new(json, "round_trip_s", ctl_json_number((double)took / 1e9));
        ctl_json_print(ctl->out, json, true);
    } else {
        ctl_print(ctl, "dataloadd %s, pid %d, up %s, answers in %s", link->peer, pong->pid,
                  ctl_text_time(pong->uptime_ns, up), ctl_text_time(took, time));
    }
}

int ctl_ping(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Ping ping = DLP__PING__INIT;
    struct ctl_link link;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_PING;
    env.ping = &ping;
    int code = ctl_link_open(ctl, "dataloadctl ping", &link);
    if (code)
        return code;
    uint64_t start = now_ns();
    code = ctl_link_ask(&link, &env, DLP__ENVELOPE__BODY_PONG, CTL_DEADLINE_MS, &reply);
    if (code == CTL_OK) {
        print_pong(ctl, &link, ctl_reply_body(&reply), now_ns() - start);
        ctl_reply_free(&reply);
    }
    ctl_link_close(&link);
    return code;
}

static void print_feeds(const struct ctl *ctl, const Dlp__FeedsReply *reply)
{
    static const struct ctl_column columns[] = {
        {"FEED", false},   {"BATCH", true},   {"SHUFFLE", true}, {"LANES", true},
        {"SEED", true},    {"SLOTS", true},   {"TAIL", false},   {"RECORDS", true},
        {"SHARDS", true},  {"OUTPUT", false}, {"ACCESS", false}, {"TRANSFORM", false},
        {"FIELDS", false}, {"SOURCE", false},
    };
    struct ctl_table table;
    ctl_table_init(&table, columns, COUNT(columns));
    for (size_t i = 0; i < reply->n_feeds; i++) {
        const Dlp__FeedInfo *feed = reply->feeds[i];
        ctl_table_add(&table, "%s", feed->name);
        ctl_table_add_known(&table, feed->batch);
        ctl_table_add(&table, "%ju", (uintmax_t)feed->shuffle);
        ctl_table_add(&table, "%u", feed->lanes);
        ctl_table_add(&table, "%ju", (uintmax_t)feed->seed);
        ctl_table_add(&table, "%u", feed->slots);
        ctl_table_add(&table, "%s", feed->tail);
        ctl_table_add_known(&table, feed->records);
        ctl_table_add_known(&table, feed->shards);
        ctl_table_add(&table, "%s", feed->output);
        ctl_table_add(&table, "%s", feed->allowed ? "yes" : "no");
        ctl_table_add(&table, "%s", feed->transform);
        ctl_table_add(&table, "%s", feed->fields);
        ctl_table_add(&table, "%s", feed->source);
    }
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
}

int ctl_feeds(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__FeedsRequest request = DLP__FEEDS_REQUEST__INIT;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_FEEDS_REQUEST;
    env.feeds_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl feeds", &env, DLP__ENVELOPE__BODY_FEEDS_REPLY,
                            CTL_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__FeedsReply *feeds = ctl_reply_body(&reply);
    if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&feeds->base), true);
    else
        print_feeds(ctl, feeds);
    ctl_reply_free(&reply);
    return CTL_OK;
}

static void print_bad(const struct ctl *ctl, const Dlp__BadReply *bad)
{
    static const struct ctl_column columns[] = {{"FEED", false},  {"CLASS", false}, {"COUNT", true},
                                                {"SHARD", false}, {"OFFSET", true}, {"KEY", false},
                                                {"REASON", false}};
    struct ctl_table table;
    if (bad->n_samples == 0) {
        ctl_print(ctl, "no bad samples");
        return;
    }
    ctl_table_init(&table, columns, COUNT(columns));
    for (size_t i = 0; i < bad->n_samples; i++) {
        const Dlp__BadSample *sample = bad->samples[i];
        ctl_table_add(&table, "%s", sample->feed);
        ctl_table_add(&table, "%s", sample->cls);
        ctl_table_add(&table, "%ju", (uintmax_t)sample->count);
        ctl_table_add(&table, "%s", sample->shard);
        ctl_table_add(&table, "%ju", (uintmax_t)sample->offset);
        ctl_table_add(&table, "%s", sample->key);
        ctl_table_add(&table, "%s", sample->reason);
    }
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
    if (bad->total > bad->n_samples)
        ctl_print(ctl, "%zu of %ju are listed", bad->n_samples, (uintmax_t)bad->total);
}

/* The list is called "bad": "samples" counts good ones everywhere else. */
static void print_bad_json(const struct ctl *ctl, const Dlp__BadReply *bad)
{
    json_t *json = ctl_json_message(&bad->base);
    json_object_set(json, "bad", json_object_get(json, "samples"));
    json_object_del(json, "samples");
    ctl_json_print(ctl->out, json, true);
}

int ctl_bad(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__BadRequest request = DLP__BAD_REQUEST__INIT;
    struct ctl_reply reply;
    request.feed = (char *)(ctl->feed ? ctl->feed : "");
    env.body_case = DLP__ENVELOPE__BODY_BAD_REQUEST;
    env.bad_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl bad", &env, DLP__ENVELOPE__BODY_BAD_REPLY,
                            CTL_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__BadReply *bad = ctl_reply_body(&reply);
    if (ctl->json)
        print_bad_json(ctl, bad);
    else
        print_bad(ctl, bad);
    ctl_reply_free(&reply);
    return CTL_OK;
}
