/* What limits a running job: the rate of its trainers alone against that of the input alone. */
#include <string.h>

#include "client/ctl/ctl_bench.h"
#include "client/ctl/ctl_replay.h"
#include "client/ctl/ctl_table.h"

#define CLOSE 0.05 /* share within which neither limits */
#define TEXT 256

struct figures {                     /* of the ranks that are here, from a status */
    const Dlp__ClientStatus *client; /* one of them, once gathered */
    const Dlp__FeedStatus *feed;
    uint32_t ranks;
    bool may_replay;
    int64_t batch;
    double real, compute, read, decode;
};

struct measuring {
    struct bench bench;
    bool attached, begun, done; /* of the probe */
    double compute, input;
    bool by_replay, by_probe;
};

static bool of_job(const struct ctl *ctl, const Dlp__ClientStatus *client)
{
    bool named = strcmp(client->job, ctl->job) == 0 || strcmp(client->group, ctl->job) == 0;
    return named && !client->probe && (!ctl->feed || strcmp(client->feed, ctl->feed) == 0);
}

/* What it takes when it does not wait. */
static double own_rate(const Dlp__ClientStatus *client)
{
    if (client->compute_limit > 0)
        return client->compute_limit;
    return client->wait_share < 1 ? client->samples_per_s / (1 - client->wait_share) : 0;
}

static void add_client(const Dlp__ClientStatus *client, struct figures *sum)
{
    sum->may_replay = (!sum->ranks || sum->may_replay) && client->allow_replay && !*client->group;
    sum->client = client;
    sum->batch = client->batches ? (int64_t)(client->samples / client->batches) : -1;
    sum->ranks++;
    sum->real += client->samples_per_s;
    sum->compute += own_rate(client);
    sum->read += client->read_limit;
    sum->decode += client->decode_limit;
}

static int no_job(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    char names[TEXT] = "";
    for (size_t i = 0; i < status->n_clients; i++) {
        const char *job = status->clients[i]->job;
        size_t length = strlen(names);
        if (!status->clients[i]->probe && !strstr(names, job) &&
            length + strlen(job) + 3 < sizeof(names))
            snprintf(names + length, sizeof(names) - length, "%s%s", length ? ", " : "", job);
    }
    return ctl_fail(ctl, CTL_NOT_FOUND, "no trainer of a job %s%s%s runs here; %s%s", ctl->job,
                    ctl->feed ? " of feed " : "", ctl->feed ? ctl->feed : "",
                    *names ? "there are: " : "there is no job at all", names);
}

/* Another member of its mirror group stands for it. */
static bool is_counted(const struct ctl *ctl, const Dlp__StatusReply *status, size_t number)
{
    const Dlp__ClientStatus *client = status->clients[number];
    for (size_t i = 0; *client->group && i < number; i++)
        if (of_job(ctl, status->clients[i]) && status->clients[i]->rank == client->rank)
            return true;
    return false;
}

static int gather(const struct ctl *ctl, const Dlp__StatusReply *status, struct figures *sum)
{
    for (size_t i = 0; i < status->n_clients; i++) {
        const Dlp__ClientStatus *client = status->clients[i];
        if (!of_job(ctl, client) || is_counted(ctl, status, i))
            continue;
        if (sum->client && strcmp(sum->client->feed, client->feed) != 0)
            return ctl_fail(ctl, CTL_USAGE,
                            "jobs of the feeds %s and %s have the name %s: give --feed",
                            sum->client->feed, client->feed, ctl->job);
        add_client(client, sum);
    }
    if (!sum->client)
        return no_job(ctl, status);
    for (size_t i = 0; i < status->n_feeds; i++)
        if (strcmp(status->feeds[i]->name, sum->client->feed) == 0)
            sum->feed = status->feeds[i];
    sum->may_replay &= sum->ranks == sum->client->world;
    /* Each client's limit counts the idle workers, which several share. */
    double all = sum->feed ? sum->feed->decode_per_worker * status->workers : 0;
    if (all > 0 && sum->decode > all)
        sum->decode = all;
    return CTL_OK;
}

/* What the daemon's figures say of the input; 0 = nothing. */
static double input_by_figures(const struct figures *figures)
{
    double least = figures->read;
    if (least <= 0 || (figures->decode > 0 && figures->decode < least))
        least = figures->decode;
    return least > figures->real ? least : figures->real;
}

/* The replay is being measured: the workers have nothing to do for the job. */
static void on_progress(void *context, uint64_t done, uint64_t total)
{
    struct measuring *it = context;
    (void)done;
    if (!total || it->begun || !it->attached)
        return;
    it->begun = true;
    it->done = ctl_bench_measure(&it->bench) == CTL_OK;
}

static void measure_compute(struct ctl_link *link, struct measuring *it)
{
    struct ctl_reply reply;
    if (ctl_replay_ask(link, &reply) != CTL_OK)
        return;
    it->compute = ctl_replay_rate(ctl_reply_body(&reply));
    it->by_replay = it->compute > 0;
    ctl_reply_free(&reply);
}

/* In a replay of its own: the workers take cores from the trainers. */
static void measure_input(struct ctl_link *link, const struct figures *figures,
                          struct measuring *it)
{
    struct ctl_reply reply;
    struct ctl probe = *link->ctl;
    probe.feed = figures->client->feed;
    it->bench = (struct bench){
        .ctl = &probe,
        .probe = {.verb = "measure", .world = figures->ranks, .batch = figures->batch},
        .within = true};
    it->attached = ctl_bench_attach(&it->bench) == CTL_OK;
    link->progress = on_progress;
    link->context = it;
    if (it->attached && ctl_replay_ask(link, &reply) == CTL_OK) {
        it->input = it->done ? ctl_bench_rate(&it->bench) : 0;
        it->by_probe = it->input > 0;
        ctl_reply_free(&reply);
    }
    link->progress = NULL;
    link->context = NULL;
    ctl_bench_end(&it->bench);
}

static const char *limit(const struct measuring *it)
{
    if (it->compute <= 0 || it->input <= 0)
        return "unknown";
    double ratio = it->input / it->compute;
    return ratio > 1 + CLOSE ? "trainer" : ratio < 1 - CLOSE ? "input" : "both";
}

static const char *meaning(const struct measuring *it, char text[TEXT])
{
    double ratio = it->compute > 0 ? it->input / it->compute : 0;
    const char *which = limit(it);
    if (strcmp(which, "trainer") == 0)
        snprintf(text, TEXT, "input can deliver %.2f x what the trainers take: the trainers limit",
                 ratio);
    else if (strcmp(which, "input") == 0)
        snprintf(text, TEXT, "input delivers %.2f x what the trainers could take: the input limits",
                 ratio);
    else if (strcmp(which, "both") == 0)
        snprintf(text, TEXT, "input can deliver %.2f x what the trainers take: they are close",
                 ratio);
    else
        snprintf(text, TEXT, "not known yet: there are too few figures");
    return text;
}

static const char *compute_by(const struct measuring *it)
{
    return it->by_replay ? "replay" : "clocks";
}

static const char *input_by(const struct measuring *it)
{
    return it->by_probe ? "probe" : "figures";
}

static void print_text(const struct ctl *ctl, const struct figures *figures,
                       const struct measuring *it)
{
    char rate[CTL_TEXT_MAX], text[TEXT];
    ctl_print(ctl, "job %s, feed %s, %u of %u ranks", ctl->job, figures->client->feed,
              figures->ranks, figures->client->world);
    ctl_print(ctl, "compute only %10s samples/s  (%s)", ctl_text_rate(it->compute, rate),
              it->by_replay ? "a replay" : "its clocks: the time in which it did not wait");
    ctl_print(ctl, "input only   %10s samples/s  (%s)", ctl_text_rate(it->input, rate),
              it->by_probe ? "trainers that do nothing, during another replay"
                           : "the daemon's figures");
    ctl_print(ctl, "real run     %10s samples/s  (before)", ctl_text_rate(figures->real, rate));
    ctl_print(ctl, "%s", meaning(it, text));
    if (*figures->client->verdict)
        ctl_print(ctl, "rank %u: %s", figures->client->rank, figures->client->verdict);
}

static void print_json(const struct ctl *ctl, const struct figures *figures,
                       const struct measuring *it)
{
    char text[TEXT];
    json_t *json = ctl_must(json_object());
    json_object_set_new(json, "job", ctl_json_text(ctl->job));
    json_object_set_new(json, "feed", ctl_json_text(figures->client->feed));
    json_object_set_new(json, "ranks", json_integer(figures->ranks));
    json_object_set_new(json, "world", json_integer(figures->client->world));
    json_object_set_new(json, "compute_samples_per_s", ctl_json_number(it->compute));
    json_object_set_new(json, "compute_by", ctl_json_text(compute_by(it)));
    json_object_set_new(json, "input_samples_per_s", ctl_json_number(it->input));
    json_object_set_new(json, "input_by", ctl_json_text(input_by(it)));
    json_object_set_new(json, "real_samples_per_s", ctl_json_number(figures->real));
    json_object_set_new(json, "ratio",
                        ctl_json_number(it->compute > 0 ? it->input / it->compute : 0));
    json_object_set_new(json, "limit", ctl_json_text(limit(it)));
    json_object_set_new(json, "text", ctl_json_text(meaning(it, text)));
    json_object_set_new(json, "verdict", ctl_json_text(figures->client->verdict));
    ctl_json_print(ctl->out, json, true);
}

static void find_rates(struct ctl_link *link, const struct figures *figures, struct measuring *it)
{
    if (figures->may_replay)
        measure_compute(link, it);
    if (it->by_replay)
        measure_input(link, figures, it);
    if (!it->by_replay)
        it->compute = figures->compute;
    if (!it->by_probe)
        it->input = input_by_figures(figures);
}

static int report(const struct ctl *ctl, struct ctl_link *link, const Dlp__StatusReply *status)
{
    struct figures figures = {0};
    struct measuring it = {0};
    int code = gather(ctl, status, &figures);
    if (code || !figures.client)
        return code;
    find_rates(link, &figures, &it);
    if (ctl->json)
        print_json(ctl, &figures, &it);
    else
        print_text(ctl, &figures, &it);
    return CTL_OK;
}

int ctl_measure(const struct ctl *ctl)
{
    struct ctl own = *ctl;
    struct ctl_link link;
    struct ctl_reply reply;
    if (own.seconds <= 0)
        own.seconds = CTL_REPLAY_SECONDS;
    int code = ctl_link_open(&own, "dataloadctl measure", &link);
    if (code)
        return code;
    code = ctl_status_ask(&link, &reply);
    if (code == CTL_OK) {
        code = report(&own, &link, ctl_reply_body(&reply));
        ctl_reply_free(&reply);
    }
    ctl_link_close(&link);
    return code;
}
