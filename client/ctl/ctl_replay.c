#include "client/ctl/ctl_replay.h"

#include <stdlib.h>

#include "client/ctl/ctl_table.h"

static Dlp__Number *number(Dlp__Number *room, int64_t value)
{
    dlp__number__init(room);
    room->value = (uint64_t)value;
    return value >= 0 ? room : NULL;
}

static int by_rank(const void *a, const void *b)
{
    const Dlp__ReplayRank *const *first = a, *const *second = b;
    return ((*first)->rank > (*second)->rank) - ((*first)->rank < (*second)->rank);
}

int ctl_replay_ask(struct ctl_link *link, struct ctl_reply *reply)
{
    const struct ctl *ctl = link->ctl;
    Dlp__Number epoch, step, batches;
    Dlp__ReplayRequest request = DLP__REPLAY_REQUEST__INIT;
    request.job = (char *)ctl->job;
    if (ctl->feed)
        request.feed = (char *)ctl->feed;
    request.seconds = ctl->seconds > 0 ? ctl->seconds : CTL_REPLAY_SECONDS;
    request.epoch = number(&epoch, ctl->epoch);
    request.step = number(&step, ctl->step);
    request.batches = number(&batches, ctl->batches);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_REPLAY_REQUEST;
    env.replay_request = &request;
    int code =
        ctl_link_ask(link, &env, DLP__ENVELOPE__BODY_REPLAY_REPLY, CTL_OPENING_DEADLINE_MS, reply);
    if (code)
        return code;
    const Dlp__ReplayReply *replay = ctl_reply_body(reply);
    if (replay->n_ranks)
        qsort(replay->ranks, replay->n_ranks, sizeof(*replay->ranks), by_rank);
    return CTL_OK;
}

double ctl_replay_rate(const Dlp__ReplayReply *replay)
{
    double sum = 0;
    for (size_t i = 0; i < replay->n_ranks; i++)
        sum += replay->ranks[i]->compute_samples_per_s;
    return sum;
}

static json_t *as_json(const Dlp__ReplayReply *replay)
{
    json_t *json = ctl_json_message(&replay->base);
    json_object_set_new(json, "compute_samples_per_s", ctl_json_number(ctl_replay_rate(replay)));
    return json;
}

static void print_table(const struct ctl *ctl, const Dlp__ReplayReply *replay)
{
    static const struct ctl_column columns[] = {
        {"RANK", true},    {"PID", true},     {"BATCHES", true},
        {"SAMPLES", true}, {"SECONDS", true}, {"COMPUTE ONLY SAMPLES/S", true}};
    char rate[CTL_TEXT_MAX];
    struct ctl_table table;
    ctl_table_init(&table, columns, sizeof(columns) / sizeof(*columns));
    for (size_t i = 0; i < replay->n_ranks; i++) {
        const Dlp__ReplayRank *rank = replay->ranks[i];
        ctl_table_add(&table, "%u", rank->rank);
        ctl_table_add(&table, "%d", rank->pid);
        ctl_table_add(&table, "%ju", (uintmax_t)rank->batches);
        ctl_table_add(&table, "%ju", (uintmax_t)rank->samples);
        ctl_table_add(&table, "%.2f", rank->seconds);
        ctl_table_add(&table, "%s", ctl_text_rate(rank->compute_samples_per_s, rate));
    }
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
    ctl_print(ctl, "job %s: compute only %s samples/s, by a replay before epoch %ju, step %ju",
              ctl->job, ctl_text_rate(ctl_replay_rate(replay), rate), (uintmax_t)replay->epoch,
              (uintmax_t)replay->step);
}

int ctl_replay(const struct ctl *ctl)
{
    struct ctl_link link;
    struct ctl_reply reply;
    int code = ctl_link_open(ctl, "dataloadctl replay", &link);
    if (code)
        return code;
    code = ctl_replay_ask(&link, &reply);
    ctl_link_close(&link);
    if (code)
        return code;
    const Dlp__ReplayReply *replay = ctl_reply_body(&reply);
    if (ctl->json)
        ctl_json_print(ctl->out, as_json(replay), true);
    else
        print_table(ctl, replay);
    ctl_reply_free(&reply);
    return CTL_OK;
}
