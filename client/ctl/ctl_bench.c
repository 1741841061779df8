/* Null trainers: N handles of one job in one poll loop, each batch given back at once. What they
 * get is what the input side can deliver. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "client/ctl/ctl_bench.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_table.h"

#define SECONDS 10.0
#define PATIENCE 60.0 /* seconds without any batch after which a run is given up */
#define TURN 64       /* batches of one trainer before the next has its turn */
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct bench_trainer {
    dataload *handle;
    uint64_t batches;          /* since attach */
    uint64_t failed;           /* bad_samples: fail */
    int64_t epochs;            /* whole ones */
    dataload_stats start, end; /* of the time measured */
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int ctl_bench_attach(struct bench *bench)
{
    size_t count = (size_t)bench->probe.world;
    bench->trainers = ctl_must(calloc(count, sizeof(*bench->trainers)));
    bench->polls = ctl_must(calloc(count, sizeof(*bench->polls)));
    for (int64_t i = 0; i < bench->probe.world; i++) {
        struct bench_trainer *trainer = &bench->trainers[i];
        int code = ctl_probe_attach(bench->ctl, &bench->probe, i, &trainer->handle);
        if (code)
            return code;
        bench->polls[i] = (struct pollfd){.fd = dataload_fd(trainer->handle), .events = POLLIN};
    }
    return CTL_OK;
}

/* Takes what is there and gives it back; exit code. */
static int turn(struct bench *bench, int64_t number)
{
    struct bench_trainer *trainer = &bench->trainers[number];
    for (int i = 0; i < TURN; i++) {
        dataload_batch *batch = NULL;
        int err = dataload_next(trainer->handle, 0, &batch);
        if (err == -ETIMEDOUT || err == -EINTR)
            return CTL_OK;
        if (err == 0)
            err = dataload_release(trainer->handle, batch);
        if (err < 0 && err != -EBADMSG)
            return ctl_fail(bench->ctl, ctl_exit_of_errno(-err), "trainer %jd: %s",
                            (intmax_t)number, dataload_error(trainer->handle));
        bench->last_batch = now_s();
        trainer->batches += err == 0;
        trainer->failed += err == -EBADMSG;
        if (err == DATALOAD_EPOCH_END && ++trainer->epochs == bench->ctl->epochs) {
            bench->polls[number].fd = -1;
            return CTL_OK;
        }
    }
    return CTL_OK;
}

/* One round over all trainers. */
static int round_of_turns(struct bench *bench)
{
    for (int64_t i = 0; i < bench->probe.world; i++) {
        int code = bench->polls[i].fd >= 0 ? turn(bench, i) : CTL_OK;
        if (code)
            return code;
    }
    if (now_s() - bench->last_batch > PATIENCE)
        return ctl_fail(bench->ctl, CTL_UNAVAILABLE,
                        "no batch came for %.0f s; 'dataloadctl status' says what is waited for",
                        PATIENCE);
    return CTL_OK;
}

static bool all_warm(const struct bench *bench)
{
    for (int64_t i = 0; i < bench->probe.world; i++) {
        dataload_info info = {.size = sizeof(info)};
        dataload_get_info(bench->trainers[i].handle, &info);
        if (bench->trainers[i].batches < info.slots)
            return false;
    }
    return true;
}

static bool all_done(const struct bench *bench)
{
    for (int64_t i = 0; i < bench->probe.world; i++)
        if (bench->polls[i].fd >= 0)
            return false;
    return true;
}

static void note_stats(struct bench *bench, bool end)
{
    for (int64_t i = 0; i < bench->probe.world; i++) {
        struct bench_trainer *trainer = &bench->trainers[i];
        dataload_stats *stats = end ? &trainer->end : &trainer->start;
        stats->size = sizeof(*stats);
        dataload_get_stats(trainer->handle, stats);
    }
    *(end ? &bench->ended : &bench->started) = now_s();
}

static void tell(struct bench *bench, const char *what)
{
    double now = now_s();
    if (now - bench->told < 1)
        return;
    ctl_progress(bench->ctl, "%s: %.0f s", what, now - bench->started);
    bench->told = now;
}

/* The slots filled before the start are not to count: the clock starts when each trainer has had
 * as many batches as it has slots. Whole epochs are counted from the first batch on. */
int ctl_bench_measure(struct bench *bench)
{
    bool whole_epochs = bench->ctl->epochs > 0, warm = whole_epochs;
    double seconds = bench->ctl->seconds > 0 ? bench->ctl->seconds : SECONDS;
    double begun = now_s();
    bench->last_batch = begun;
    note_stats(bench, false);
    for (;;) {
        int code = round_of_turns(bench);
        if (code)
            return code;
        double warming = bench->within ? seconds / 2 : seconds;
        if (!warm && (all_warm(bench) || now_s() - begun > warming)) {
            warm = true;
            note_stats(bench, false);
        }
        double passed = now_s() - (bench->within ? begun : bench->started);
        if (warm && (whole_epochs ? all_done(bench) : passed >= seconds))
            break;
        tell(bench, warm ? "measuring" : "warming up");
        if (poll(bench->polls, (nfds_t)bench->probe.world, 100) < 0 && errno != EINTR)
            return ctl_fail(bench->ctl, CTL_UNAVAILABLE, "poll: %m");
    }
    note_stats(bench, true);
    ctl_progress(bench->ctl, "%s", "");
    return CTL_OK;
}

/* What a trainer, or all of them, got. */
struct result {
    uint64_t batches, samples, bytes, failed;
    double samples_per_s, bytes_per_s;
};

static struct result result_of(const struct bench *bench, int64_t first, int64_t count)
{
    struct result sum = {0};
    double seconds = bench->ended - bench->started;
    for (int64_t i = first; i < first + count; i++) {
        const struct bench_trainer *trainer = &bench->trainers[i];
        sum.batches += trainer->end.batches - trainer->start.batches;
        sum.samples += trainer->end.samples - trainer->start.samples;
        sum.bytes += trainer->end.bytes - trainer->start.bytes;
        sum.failed += trainer->failed;
    }
    sum.samples_per_s = seconds > 0 ? (double)sum.samples / seconds : 0;
    sum.bytes_per_s = seconds > 0 ? (double)sum.bytes / seconds : 0;
    return sum;
}

double ctl_bench_rate(const struct bench *bench)
{
    return result_of(bench, 0, bench->probe.world).samples_per_s;
}

void ctl_bench_end(struct bench *bench)
{
    for (int64_t i = 0; bench->trainers && i < bench->probe.world; i++)
        dataload_detach(bench->trainers[i].handle);
    free(bench->trainers);
    free(bench->polls);
    bench->trainers = NULL;
    bench->polls = NULL;
}

static const Dlp__FeedStatus *feed_of(const struct bench *bench, const Dlp__StatusReply *status)
{
    for (size_t i = 0; i < status->n_feeds; i++)
        if (strcmp(status->feeds[i]->name, bench->ctl->feed) == 0)
            return status->feeds[i];
    return NULL;
}

/* What was asked about the end of the run: our trainers, and the stages behind them. */
struct findings {
    const Dlp__FeedStatus *feed;    /* NULL: gone */
    const Dlp__ClientStatus *first; /* of our trainers, judged together; NULL: gone */
    double read_limit, decode_limit, copy_limit;
};

/* Limits add up, but each one's decode limit counts the idle workers, which all share. */
static void look(const struct bench *bench, const Dlp__StatusReply *status, struct findings *found)
{
    char job[CTL_JOB_MAX];
    ctl_probe_job(&bench->probe, job);
    *found = (struct findings){.feed = feed_of(bench, status)};
    for (size_t i = 0; i < status->n_clients; i++) {
        const Dlp__ClientStatus *client = status->clients[i];
        if (strcmp(client->feed, bench->ctl->feed) != 0 || strcmp(client->job, job) != 0)
            continue;
        found->read_limit += client->read_limit;
        found->decode_limit += client->decode_limit;
        if (!found->first)
            found->first = client;
    }
    if (!found->feed)
        return;
    double all = found->feed->decode_per_worker * status->workers;
    if (all > 0 && found->decode_limit > all)
        found->decode_limit = all;
    if (found->feed->handoff_busy > 0)
        found->copy_limit = found->feed->samples_per_s / found->feed->handoff_busy;
}

static void add_stage(struct ctl_table *table, const char *name, double busy, double limit)
{
    char rate[CTL_TEXT_MAX];
    ctl_table_add(table, "%s", name);
    ctl_table_add(table, "%.0f", busy * 100);
    ctl_table_add(table, "%s", ctl_text_rate(limit, rate));
}

static void print_stages(const struct ctl *ctl, const struct findings *found)
{
    static const struct ctl_column columns[] = {
        {"STAGE", false}, {"BUSY %", true}, {"LIMIT SAMPLES/S", true}};
    struct ctl_table table;
    ctl_table_init(&table, columns, COUNT(columns));
    add_stage(&table, "read", found->feed->read_busy, found->read_limit);
    add_stage(&table, "decode", found->feed->decode_busy, found->decode_limit);
    add_stage(&table, "hand-off", found->feed->handoff_busy, found->copy_limit);
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
}

static void print_ranks(const struct bench *bench)
{
    static const struct ctl_column columns[] = {
        {"RANK", true}, {"SAMPLES/S", true}, {"MB/S", true}, {"BATCHES", true}, {"SAMPLES", true}};
    char rate[CTL_TEXT_MAX];
    struct ctl_table table;
    ctl_table_init(&table, columns, COUNT(columns));
    for (int64_t i = 0; i < bench->probe.world; i++) {
        struct result one = result_of(bench, i, 1);
        ctl_table_add(&table, "%jd", (intmax_t)i);
        ctl_table_add(&table, "%s", ctl_text_rate(one.samples_per_s, rate));
        ctl_table_add(&table, "%.1f", one.bytes_per_s / 1e6);
        ctl_table_add(&table, "%ju", (uintmax_t)one.batches);
        ctl_table_add(&table, "%ju", (uintmax_t)one.samples);
    }
    ctl_table_print(&table, bench->ctl->out, bench->ctl->headers);
    ctl_table_free(&table);
}

static void print_table(const struct bench *bench, const struct findings *found)
{
    const struct ctl *ctl = bench->ctl;
    struct result all = result_of(bench, 0, bench->probe.world);
    print_ranks(bench);
    ctl_print(ctl, "%s", "");
    if (found->feed) {
        print_stages(ctl, found);
        ctl_print(ctl, "%s", "");
    }
    ctl_print(ctl, "%s: input only %.0f samples/s, %.1f MB/s of batches in %.1f s", ctl->feed,
              all.samples_per_s, all.bytes_per_s / 1e6, bench->ended - bench->started);
    if (all.failed > 0)
        ctl_print(ctl, "%s: %ju batch%s failed on bad samples", ctl->feed, (uintmax_t)all.failed,
                  all.failed == 1 ? "" : "es");
    if (found->first && *found->first->verdict) /* an older daemon leaves it out */
        ctl_print(ctl, "%s: %s", ctl->feed, found->first->verdict);
}

static void add_result(json_t *json, struct result result)
{
    json_object_set_new(json, "batches", json_integer((json_int_t)result.batches));
    json_object_set_new(json, "samples", json_integer((json_int_t)result.samples));
    json_object_set_new(json, "bytes", json_integer((json_int_t)result.bytes));
    json_object_set_new(json, "failed_batches", json_integer((json_int_t)result.failed));
    json_object_set_new(json, "samples_per_s", ctl_json_number(result.samples_per_s));
    json_object_set_new(json, "bytes_per_s", ctl_json_number(result.bytes_per_s));
}

static json_t *stage_json(double busy, double limit)
{
    json_t *json = ctl_must(json_object());
    json_object_set_new(json, "busy", ctl_json_number(busy));
    json_object_set_new(json, "limit_samples_per_s", ctl_json_number(limit));
    return json;
}

static json_t *stages_json(const struct findings *found)
{
    json_t *json = ctl_must(json_object());
    const Dlp__FeedStatus *feed = found->feed;
    if (!feed)
        return json;
    json_object_set_new(json, "read", stage_json(feed->read_busy, found->read_limit));
    json_object_set_new(json, "decode", stage_json(feed->decode_busy, found->decode_limit));
    json_object_set_new(json, "handoff", stage_json(feed->handoff_busy, found->copy_limit));
    return json;
}

static void print_json(const struct bench *bench, const struct findings *found)
{
    const char *stage = found->first ? found->first->limiting_stage : "unknown";
    json_t *json = ctl_must(json_object()), *ranks = ctl_must(json_array());
    json_object_set_new(json, "feed", ctl_json_text(bench->ctl->feed));
    json_object_set_new(json, "world", json_integer(bench->probe.world));
    json_object_set_new(json, "measured_s", ctl_json_number(bench->ended - bench->started));
    add_result(json, result_of(bench, 0, bench->probe.world));
    for (int64_t i = 0; i < bench->probe.world; i++) {
        json_t *rank = ctl_must(json_object());
        json_object_set_new(rank, "rank", json_integer(i));
        add_result(rank, result_of(bench, i, 1));
        json_array_append_new(ranks, rank);
    }
    json_object_set_new(json, "ranks", ranks);
    json_object_set_new(json, "stages", stages_json(found));
    json_object_set_new(json, "limiting_stage", ctl_json_text(stage));
    json_object_set_new(json, "verdict", ctl_json_text(found->first ? found->first->verdict : ""));
    ctl_json_print(bench->ctl->out, json, true);
}

/* Asked while the trainers are still attached. */
static int report(const struct bench *bench, struct ctl_link *link)
{
    struct findings found;
    struct ctl_reply reply;
    int code = ctl_status_ask(link, &reply);
    if (code)
        return code;
    look(bench, ctl_reply_body(&reply), &found);
    if (bench->ctl->json)
        print_json(bench, &found);
    else
        print_table(bench, &found);
    ctl_reply_free(&reply);
    return CTL_OK;
}

int ctl_bench(const struct ctl *ctl)
{
    struct bench bench = {.ctl = ctl, .probe = {.verb = "bench", .world = 1, .batch = ctl->batch}};
    struct ctl_link link;
    int code = ctl_link_open(ctl, "dataloadctl bench", &link);
    if (code)
        return code;
    if (ctl->world > 0)
        bench.probe.world = ctl->world;
    code = ctl_bench_attach(&bench);
    if (code == CTL_OK)
        code = ctl_bench_measure(&bench);
    if (code == CTL_OK)
        code = report(&bench, &link);
    ctl_bench_end(&bench);
    ctl_link_close(&link);
    return code;
}
