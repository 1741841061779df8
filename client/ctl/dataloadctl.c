/* dataloadctl: the verbs and their options. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "client/ctl/ctl_admin.h"
#include "client/ctl/ctl_complete.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_page.h"
#include "client/ctl/ctl_replay.h"
#include "client/dataload.h"
#include "proto/frames.h"

enum {
    OPT_SOCKET = 256,
    OPT_JSON,
    OPT_NO_HEADERS,
    OPT_WATCH,
    OPT_WORLD,
    OPT_BATCH,
    OPT_EPOCH,
    OPT_EPOCHS,
    OPT_STEP,
    OPT_SEED,
    OPT_SECONDS,
    OPT_OUT,
    OPT_RANK,
    OPT_TOKEN,
    OPT_RELEASE,
    OPT_TEXTFILE,
    OPT_HTML,
    OPT_FEED,
    OPT_BATCHES,
    OPT_JOB,
    OPT_WAIT,
    OPT_NAGIOS,
    OPT_HELP = 'h',
    OPT_INTERVAL = 'd',
    OPT_COUNT = 'n'
};

static int version(const struct ctl *ctl)
{
    if (ctl->json) {
        json_t *json = ctl_must(json_object());
        json_object_set_new(json, "version", ctl_json_text(dataload_version()));
        json_object_set_new(json, "protocol_min", json_integer(DLP_VERSION_MIN));
        json_object_set_new(json, "protocol_max", json_integer(DLP_VERSION_MAX));
        ctl_json_print(ctl->out, json, true);
    } else {
        ctl_print(ctl, "dataloadctl %s, protocol %u to %u", dataload_version(), DLP_VERSION_MIN,
                  DLP_VERSION_MAX);
    }
    return CTL_OK;
}

static const struct verb verbs[] = {
    {"status", ctl_status, NO_FEED, {OPT_WATCH, OPT_COUNT}, 0},
    {"top", ctl_top, NO_FEED, {OPT_INTERVAL}, 0},
    {"trace", ctl_trace, NO_FEED, {OPT_SECONDS, OPT_OUT}, 0},
    {"advise", ctl_advise, MAY_NAME_FEED, {0}, 0},
    {"bench", ctl_bench, NAMES_FEED, {OPT_WORLD, OPT_BATCH, OPT_SECONDS, OPT_EPOCHS}, 0},
    {"show", ctl_show, NAMES_FEED, {OPT_OUT, OPT_COUNT}, OPT_OUT},
    {"ping", ctl_ping, NO_FEED, {0}, 0},
    {"feeds", ctl_feeds, NO_FEED, {0}, 0},
    {"slices",
     ctl_slices,
     NAMES_FEED,
     {OPT_WORLD, OPT_BATCH, OPT_SEED, OPT_EPOCH, OPT_TOKEN},
     OPT_WORLD},
    {"token",
     ctl_token,
     NAMES_FEED,
     {OPT_WORLD, OPT_BATCH, OPT_SEED, OPT_EPOCH, OPT_TOKEN, OPT_STEP},
     OPT_STEP},
    {"bad", ctl_bad, MAY_NAME_FEED, {0}, 0},
    {"mix", ctl_mix, NAMES_FEED, {OPT_WORLD, OPT_BATCH, OPT_SEED, OPT_EPOCH, OPT_TOKEN}, 0},
    {"batch",
     ctl_batch,
     NAMES_FEED,
     {OPT_WORLD, OPT_RANK, OPT_BATCH, OPT_SEED, OPT_EPOCH, OPT_TOKEN, OPT_STEP, OPT_OUT},
     OPT_STEP},
    {"find",
     ctl_find,
     NAMES_FEED_AND_KEY,
     {OPT_WORLD, OPT_BATCH, OPT_SEED, OPT_EPOCH, OPT_TOKEN, OPT_EPOCHS},
     0},
    {"gpu", ctl_gpu, NO_FEED, {OPT_RELEASE}, 0},
    {"metrics", ctl_metrics, NO_FEED, {OPT_TEXTFILE}, 0},
    {"report", ctl_write_report, MAY_NAME_FEED, {OPT_HTML}, OPT_HTML},
    {"replay", ctl_replay, NAMES_JOB, {OPT_FEED, OPT_SECONDS, OPT_BATCHES, OPT_EPOCH, OPT_STEP}, 0},
    {"measure", ctl_measure, NAMES_JOB, {OPT_FEED, OPT_SECONDS}, 0},
    {"detach", ctl_detach, NO_FEED, {OPT_JOB, OPT_FEED}, OPT_JOB},
    {"drain", ctl_drain, NO_FEED, {OPT_WAIT, OPT_SECONDS}, 0},
    {"undrain", ctl_undrain, NO_FEED, {0}, 0},
    {"check", ctl_check, NO_FEED, {OPT_NAGIOS, OPT_SECONDS}, 0},
    {"reload", ctl_reload, NO_FEED, {0}, 0},
    {"version", version, NO_FEED, {0}, 0},
};
#define NVERBS (sizeof(verbs) / sizeof(*verbs))

static const struct argp_option options[] = {
    {"socket", OPT_SOCKET, "PATH", 0, "Control socket of the daemon", 0},
    {"json", OPT_JSON, NULL, 0, "Print JSON: bytes, seconds, stable keys", 0},
    {"no-headers", OPT_NO_HEADERS, NULL, 0, "Print no titles", 0},
    {"watch", OPT_WATCH, "SEC", OPTION_ARG_OPTIONAL, "status: repeat each SEC (1) seconds", 1},
    {"interval", OPT_INTERVAL, "SEC", 0, "top: ask the daemon each SEC (1) seconds", 1},
    {"count", OPT_COUNT, "COUNT", 0, "status: reports to print; show: images (16)", 1},
    {"world", OPT_WORLD, "N", 0, "bench, slices, token, mix, batch, find: number of trainers", 1},
    {"batch", OPT_BATCH, "B", 0, "bench, slices, token, mix, batch, find: rows per trainer", 1},
    {"epoch", OPT_EPOCH, "E", 0,
     "slices, token, mix, batch: of this epoch (0, or the token's); find: from this one on; "
     "replay: of --step",
     1},
    {"epochs", OPT_EPOCHS, "E", 0, "bench: run E epochs, not a time; find: look in E (1)", 1},
    {"seconds", OPT_SECONDS, "S", 0,
     "Measure for S seconds: bench (10), replay, measure, trace (5); drain, check: wait no longer",
     1},
    {"feed", OPT_FEED, "FEED", 0,
     "replay, measure: of this feed, where jobs of several fit; detach: only its trainers of it",
     1},
    {"batches", OPT_BATCHES, "N", 0, "replay: N batches to each rank, not a time", 1},
    {"out", OPT_OUT, "FILE", 0,
     "show, batch: where to write the PNG; trace: the events (dataload-trace.json)", 1},
    {"html", OPT_HTML, "FILE", 0, "report: where to write the page", 1},
    {"rank", OPT_RANK, "R", 0, "batch: only the rows of this rank", 1},
    {"seed", OPT_SEED, "S", 0,
     "slices, token, mix, batch, find: of the job, where it is not the feed's", 1},
    {"token", OPT_TOKEN, "TEXT", 0,
     "slices, token, mix, batch, find: the resume token that the job began from", 1},
    {"step", OPT_STEP, "T", 0, "token, replay: before this step; batch: of this step", 1},
    {"release", OPT_RELEASE, "UUID", 0, "gpu: the daemon lets go of this one", 1},
    {"textfile", OPT_TEXTFILE, "DIR", 0, "metrics: write DIR/dataloadd.prom for node_exporter", 1},
    {"job", OPT_JOB, "JOB", 0, "detach: this job, or those that begin so, JOB*", 1},
    {"wait", OPT_WAIT, NULL, 0, "drain: until no client is left", 1},
    {"nagios", OPT_NAGIOS, NULL, 0, "check: begin with a plugin's first line", 1},
    {NULL, OPT_HELP, NULL, OPTION_HIDDEN, "Print this help", -1},
    {0},
};

/* What the parser collects. */
struct line {
    struct ctl ctl;
    const struct verb *verb;
    int given[16]; /* options that belong to some verb */
    size_t ngiven;
};

static const char *option_name(int key)
{
    for (const struct argp_option *option = options; option->name; option++)
        if (option->key == key)
            return option->name;
    return "?";
}

static int64_t whole(struct argp_state *state, int key, const char *text, int64_t low, int64_t high)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        argp_error(state, "--%s=%s: give a whole number from %lld to %lld", option_name(key), text,
                   (long long)low, (long long)high);
    return value;
}

static double seconds(struct argp_state *state, int key, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0.05 || value > 86400)
        argp_error(state, "--%s=%s: give seconds from 0.05 to 86400", option_name(key), text);
    return value;
}

static const char *name(struct argp_state *state, const char *what, const char *word)
{
    if (!dlp_name_valid(word))
        argp_error(state, "a %s's name has 1 to %u of A-Z a-z 0-9 . _ : / -", what, DLP_NAME_MAX);
    return word;
}

static const char *feed_name(struct argp_state *state, const char *word)
{
    return dlp_feed_name_valid(word) ? word : name(state, "feed", word);
}

static void take_word(struct argp_state *state, struct line *line, char *word)
{
    if (line->verb && line->verb->feed == NAMES_JOB && !line->ctl.job) {
        line->ctl.job = name(state, "job", word);
        return;
    }
    if (line->verb && line->verb->feed > NAMES_JOB && !line->ctl.feed) {
        line->ctl.feed = feed_name(state, word);
        return;
    }
    if (line->verb && line->verb->feed == NAMES_FEED_AND_KEY && !line->ctl.key) {
        line->ctl.key = word;
        return;
    }
    if (line->verb)
        argp_error(state, "%s takes no argument '%s'", line->verb->name, word);
    for (size_t i = 0; i < NVERBS; i++)
        if (strcmp(verbs[i].name, word) == 0)
            line->verb = &verbs[i];
    if (!line->verb)
        argp_error(state, "no verb '%s'", word);
}

static bool has(const int *set, size_t size, int key)
{
    for (size_t i = 0; i < size; i++)
        if (set[i] == key)
            return true;
    return false;
}

/* Once all words are known: does everything fit the verb? */
static void check_line(struct argp_state *state, struct line *line)
{
    const struct verb *verb = line->verb ? line->verb : &verbs[0];
    line->verb = verb;
    for (size_t i = 0; i < line->ngiven; i++)
        if (!has(verb->options, sizeof(verb->options) / sizeof(int), line->given[i]))
            argp_error(state, "%s has no option --%s", verb->name, option_name(line->given[i]));
    if (verb->needs && !has(line->given, line->ngiven, verb->needs))
        argp_error(state, "%s needs --%s", verb->name, option_name(verb->needs));
    if (verb->feed >= NAMES_FEED && !line->ctl.feed)
        argp_error(state, "%s needs the name of a feed; 'dataloadctl feeds' lists them",
                   verb->name);
    if (verb->feed == NAMES_JOB && !line->ctl.job)
        argp_error(state, "%s needs the name of a job; 'dataloadctl status' lists them",
                   verb->name);
    if (verb->feed == NAMES_FEED_AND_KEY && !line->ctl.key)
        argp_error(state, "%s needs the key of a record", verb->name);
    if (verb->run == ctl_batch && line->ctl.file && line->ctl.world > 1 && line->ctl.rank < 0)
        argp_error(state, "batch --out with --world needs --rank: a sheet is of one trainer");
    if (verb->run == ctl_show && line->ctl.count > (int64_t)DLP_BATCH_MAX)
        argp_error(state, "--count=%jd: show takes 1 to %u images", (intmax_t)line->ctl.count,
                   DLP_BATCH_MAX);
    if (line->ctl.token && line->ctl.seed >= 0)
        argp_error(state, "give --seed or --token, not both: a token has its job's seed");
    if (verb->run == ctl_drain && line->ctl.seconds > 0 && !line->ctl.wait)
        argp_error(state, "drain --seconds goes with --wait");
    if (line->ctl.epochs > 0 && line->ctl.seconds > 0)
        argp_error(state, "give --epochs or --seconds, not both");
    if (line->ctl.batches > 0 && line->ctl.seconds > 0)
        argp_error(state, "give --batches or --seconds, not both");
    if (verb->run == ctl_status && line->ctl.count > 1 && line->ctl.watch < 0)
        line->ctl.watch = 1;
}

static error_t parse_verb_option(int key, char *arg, struct argp_state *state, struct ctl *ctl)
{
    switch (key) {
    case OPT_INTERVAL:
    case OPT_WATCH:
        ctl->watch = arg ? seconds(state, key, arg) : 1;
        return 0;
    case OPT_SECONDS:
        ctl->seconds = seconds(state, key, arg);
        return 0;
    case OPT_COUNT:
        ctl->count = whole(state, key, arg, 1, 1000000);
        return 0;
    case OPT_WORLD:
        ctl->world = whole(state, key, arg, 1, DLP_WORLD_MAX);
        return 0;
    case OPT_BATCH:
        ctl->batch = whole(state, key, arg, 1, DLP_BATCH_MAX);
        return 0;
    case OPT_EPOCH:
        ctl->epoch = whole(state, key, arg, 0, INT64_MAX);
        return 0;
    case OPT_STEP:
        ctl->step = whole(state, key, arg, 0, INT64_MAX);
        return 0;
    case OPT_SEED:
        ctl->seed = whole(state, key, arg, 0, INT64_MAX);
        return 0;
    case OPT_EPOCHS:
        ctl->epochs = whole(state, key, arg, 1, 1000000);
        return 0;
    case OPT_OUT:
    case OPT_TEXTFILE:
    case OPT_HTML:
        ctl->file = arg;
        return 0;
    case OPT_TOKEN:
        ctl->token = arg;
        return 0;
    case OPT_RELEASE:
        ctl->gpu = arg;
        return 0;
    case OPT_FEED:
        ctl->feed = feed_name(state, arg);
        return 0;
    case OPT_BATCHES:
        ctl->batches = whole(state, key, arg, 1, 1000000);
        return 0;
    case OPT_JOB:
        ctl->job = arg;
        return 0;
    case OPT_WAIT:
        ctl->wait = true;
        return 0;
    case OPT_NAGIOS:
        ctl->nagios = true;
        return 0;
    case OPT_RANK:
        ctl->rank = whole(state, key, arg, 0, DLP_WORLD_MAX - 1);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct line *line = state->input;
    switch (key) {
    case OPT_SOCKET:
        line->ctl.socket = arg;
        return 0;
    case OPT_JSON:
        line->ctl.json = true;
        return 0;
    case OPT_NO_HEADERS:
        line->ctl.headers = false;
        return 0;
    case OPT_HELP:
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        take_word(state, line, arg);
        return 0;
    case ARGP_KEY_END:
        check_line(state, line);
        return 0;
    default:
        break;
    }
    error_t err = parse_verb_option(key, arg, state, &line->ctl);
    if (err == 0 && !has(line->given, line->ngiven, key))
        line->given[line->ngiven++] = key;
    return err;
}

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "dataloadctl %s\n", dataload_version());
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[VERB] [FEED|JOB] [KEY]",
        .doc = "Look at a running dataloadd.\v"
               "Verbs:\n"
               "  status                who is attached, how fast, and what limits it (default)\n"
               "  top                   the same, live on one screen\n"
               "  trace                 what threads and trainers do, as a file for Perfetto\n"
               "  advise [FEED]         what would help, by how much, and at what cost\n"
               "  bench FEED            input-only rate with trainers that do nothing\n"
               "  show FEED --out FILE  contact sheet of the first images\n"
               "  slices FEED --world N what each rank gets of an epoch\n"
               "  token FEED --step T   resume token of a place of the order\n"
               "  feeds                 the feeds of the daemon\n"
               "  bad [FEED]            bad samples met so far\n"
               "  mix FEED              how well the first batches are mixed\n"
               "  batch FEED --step T   the records of a batch; --out: its pictures\n"
               "  find FEED KEY         the steps in which a record is seen\n"
               "  gpu                   the GPUs of the node\n"
               "  metrics               the figures for Prometheus\n"
               "  report --html FILE    one page to look at and to send\n"
               "  replay JOB            what its trainers take when they never wait\n"
               "  measure JOB           that, the input-only rate, and which of them limits\n"
               "  detach --job JOB      end a job for its trainers\n"
               "  drain, undrain        let no new job in, or let them in again\n"
               "  reload                read the configuration again\n"
               "  check                 daemon, limits, storage: what is wrong, and what helps\n"
               "  ping                  is the daemon there?\n"
               "  version               of this program\n\n"
               "Exit status: 0 fine, 3 not running, 4 no such feed or client, 64 usage, "
               "69 unavailable, 77 not permitted, 78 configuration; of check: 0 fine, "
               "1 warning, 2 critical.",
    };
    struct line line = {
        .ctl = {.out = stdout,
                .err = stderr,
                .headers = true,
                .world = -1,
                .batch = -1,
                .epoch = -1,
                .epochs = -1,
                .rank = -1,
                .seed = -1,
                .step = -1,
                .batches = -1,
                .count = -1,
                .watch = -1,
                .seconds = -1},
    };
    if (argc > 1 && strcmp(argv[1], "__complete") == 0)
        ctl_complete(&(struct ctl_grammar){verbs, NVERBS, options}, argv + 2, argc - 2);
    argp_err_exit_status = CTL_USAGE;
    argp_program_version_hook = print_version;
    if (argp_parse(&argp, argc, argv, 0, NULL, &line))
        return CTL_USAGE;
    int code = line.verb->run(&line.ctl);
    if (fflush(stdout) && code == CTL_OK)
        code = ctl_fail(&line.ctl, CTL_UNAVAILABLE, "cannot write the output: %m");
    return code;
}
