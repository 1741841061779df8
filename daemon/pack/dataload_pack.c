/* dataload-pack: verbs and options. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/mem.h"
#include "pack/pack_folder.h"
#include "pack/sample_set.h"

#define SHARD_BYTES 256000000ULL

enum {
    OPT_SHARDS = 256,
    OPT_SHARD_BYTES,
    OPT_SEED,
    OPT_NO_SHUFFLE,
    OPT_IMAGES,
    OPT_CLASSES,
    OPT_FOLDER
};

/* A whole decimal number from low to high. */
static uint64_t number(struct argp_state *state, const char *option, const char *text, uint64_t low,
                       uint64_t high)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < low || value > high)
        argp_error(state, "%s %s: a number from %" PRIu64 " to %" PRIu64 " is wanted", option, text,
                   low, high);
    return value;
}

static uint64_t unit_of(const char *suffix)
{
    static const struct {
        char name[4];
        uint64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"kB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"TB", 1000000000000},
                 {"KiB", 1ULL << 10},
                 {"MiB", 1ULL << 20},
                 {"GiB", 1ULL << 30},
                 {"TiB", 1ULL << 40}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(suffix, units[i].name) == 0)
            return units[i].bytes;
    return 0;
}

static uint64_t size(struct argp_state *state, const char *option, const char *text)
{
    char *suffix;
    errno = 0;
    uint64_t value = strtoull(text, &suffix, 10);
    uint64_t bytes = 0;
    if (*text < '0' || *text > '9' || errno ||
        __builtin_mul_overflow(value, unit_of(suffix), &bytes) || bytes == 0)
        argp_error(state, "%s %s: a size such as 256MB or 1GiB is wanted", option, text);
    return bytes;
}

struct folder_arguments {
    struct pack_folder_options options;
    bool shards, bytes;
};

static error_t parse_folder(int key, char *arg, struct argp_state *state)
{
    struct folder_arguments *arguments = state->input;
    struct pack_folder_options *options = &arguments->options;
    switch (key) {
    case OPT_SHARDS:
        options->shards = (uint32_t)number(state, "--shards", arg, 1, 1000000);
        arguments->shards = true;
        return 0;
    case OPT_SHARD_BYTES:
        options->shard_bytes = size(state, "--shard-bytes", arg);
        arguments->bytes = true;
        return 0;
    case OPT_SEED:
        options->seed = number(state, "--seed", arg, 0, UINT64_MAX);
        return 0;
    case OPT_NO_SHUFFLE:
        options->shuffle = false;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "DIR and OUT-DIR are wanted, \"%s\" is one too many", arg);
        *(state->arg_num == 0 ? &options->source : &options->target) = arg;
        return 0;
    case ARGP_KEY_END:
        if (!options->target)
            argp_error(state, "DIR and OUT-DIR are wanted");
        if (arguments->shards && arguments->bytes)
            argp_error(state, "--shards and --shard-bytes exclude each other");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int run_folder(int argc, char **argv, struct error *err)
{
    static const struct argp_option options[] = {
        {"shards", OPT_SHARDS, "N", 0, "Number of shards", 0},
        {"shard-bytes", OPT_SHARD_BYTES, "SIZE", 0, "Most bytes of a shard, about (default 256MB)",
         0},
        {"seed", OPT_SEED, "S", 0, "Seed of the order of writing (default 0)", 0},
        {"no-shuffle", OPT_NO_SHUFFLE, NULL, 0, "Write the images sorted by path", 0},
        {0}};
    const struct argp argp = {
        options,
        parse_folder,
        "DIR OUT-DIR",
        "Packs an image folder, DIR/CLASS/.../NAME.jpg, into tar shards of nearly equal bytes, "
        "shuffled, and prints the feed for the daemon's configuration.",
        NULL,
        NULL,
        NULL};
    struct folder_arguments arguments = {.options = {.shard_bytes = SHARD_BYTES, .shuffle = true}};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    return pack_folder(&arguments.options, err);
}

static error_t parse_sample(int key, char *arg, struct argp_state *state)
{
    struct sample_set_options *options = state->input;
    switch (key) {
    case OPT_IMAGES:
        options->images = (uint32_t)number(state, "--images", arg, 1, 100000000);
        return 0;
    case OPT_CLASSES:
        options->classes = (uint32_t)number(state, "--classes", arg, 1, 10000);
        return 0;
    case OPT_SEED:
        options->seed = number(state, "--seed", arg, 0, UINT64_MAX);
        return 0;
    case OPT_FOLDER:
        options->folder = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "OUT-DIR alone is wanted, \"%s\" is one too many", arg);
        options->target = arg;
        return 0;
    case ARGP_KEY_END:
        if (!options->target)
            argp_error(state, "OUT-DIR is wanted");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int run_sample(int argc, char **argv, struct error *err)
{
    static const struct argp_option options[] = {
        {"images", OPT_IMAGES, "N", 0, "Number of images (default 500)", 0},
        {"classes", OPT_CLASSES, "C", 0, "Number of classes (default 10)", 0},
        {"seed", OPT_SEED, "S", 0, "The same seed gives the same images (default 0)", 0},
        {"folder", OPT_FOLDER, NULL, 0, "Write an image folder instead of tar shards", 0},
        {0}};
    const struct argp argp = {
        options, parse_sample, "OUT-DIR", "Makes a sample set of photo-like JPEGs of many sizes.",
        NULL,    NULL,         NULL};
    struct sample_set_options arguments = {.images = 500, .classes = 10};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    return sample_set_make(&arguments, err);
}

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv, struct error *err);
} verbs[] = {{"folder", run_folder}, {"sample", run_sample}};

static error_t parse_verb(int key, char *arg, struct argp_state *state)
{
    const struct verb **verb = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (strcmp(arg, verbs[i].name) == 0)
                *verb = &verbs[i];
        if (!*verb)
            argp_error(state, "no verb \"%s\"; there are folder and sample", arg);
        state->next = state->argc; /* the rest is the verb's */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "a verb is wanted: folder or sample");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int exit_code(int rc)
{
    switch (rc) {
    case 0:
        return EXIT_SUCCESS;
    case -EINTR:
        return 130;
    case -EACCES:
    case -EPERM:
        return EX_NOPERM;
    default:
        return EX_UNAVAILABLE;
    }
}

int main(int argc, char **argv)
{
    static const char doc[] = "Prepares data for dataloadd.\v"
                              "Verbs:\n"
                              "  folder DIR OUT-DIR   pack an image folder into tar shards\n"
                              "  sample OUT-DIR       make a sample set of photo-like JPEGs\n\n"
                              "dataload-pack VERB --help lists the options of a verb.";
    const struct argp argp = {NULL, parse_verb, "VERB ...", doc, NULL, NULL, NULL};
    const struct verb *verb = NULL;
    argp_err_exit_status = EX_USAGE;
    argp_program_version = "dataload-pack " DATALOADD_VERSION;
    int first = argc;
    for (int i = 1; i < argc && first == argc; i++)
        if (argv[i][0] != '-')
            first = i;
    argp_parse(&argp, first < argc ? first + 1 : argc, argv, ARGP_IN_ORDER, NULL, &verb);

    cleanup_free char *name = mem_format("dataload-pack %s", verb->name); /* in usage texts */
    argv[first] = name;
    struct error err = {0};
    int rc = verb->run(argc - first, argv + first, &err);
    if (rc)
        fprintf(stderr, "dataload-pack: %s\n", err.text);
    return exit_code(rc);
}
