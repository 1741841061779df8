#include "check_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "base/plural.h"
#include "control/admit_reply.h"
#include "feed/feed.h"
#include "feed/recipe.h"
#include "image/planes.h"
#include "proto/limits.h"

#define MB 1e6
#define ASSUMED_BATCH 256U /* the text below says so */

static bool show_progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    fprintf(stderr, "%s: %s, %llu of %llu\n", (const char *)context, text, (unsigned long long)done,
            (unsigned long long)total);
    return true;
}

static void print_data(const struct dataset *dataset)
{
    printf("  data: %llu record%s in %u shard%s, %.1f MB, fingerprint %s\n",
           (unsigned long long)dataset_records(dataset), plural(dataset_records(dataset)),
           dataset_shards(dataset), plural(dataset_shards(dataset)),
           (double)dataset_bytes(dataset) / MB, dataset_fingerprint(dataset));
    for (uint32_t i = 0; i < dataset_notes(dataset); i++)
        printf("  note: %s\n", dataset_note(dataset, i));
    if (dataset_faults(dataset))
        printf("  faults of structure: %u record%s or shards (dataloadctl bad lists them)\n",
               dataset_faults(dataset), plural(dataset_faults(dataset)));
}

static void print_settings(const struct feed_spec *spec)
{
    if (spec->transform.fast)
        printf("  pixels: fast%s\n",
               planes_best() ? "" : ", but all are exact on this machine: it has no AVX2");
    if (spec->weight != 1)
        printf("  weight: %u of each job among those of its user\n", spec->weight);
}

static void note_limit(const char *user, uint64_t limit, uint64_t arena)
{
    if (limit && arena > limit)
        printf("  note: users: %s may have memory %.1f MB, and the slots take %.1f MB: no trainer "
               "of his gets them, unless it asks for fewer or a smaller batch\n",
               user, (double)limit / MB, (double)arena / MB);
}

static void note_users(const struct users *users, uint64_t arena)
{
    note_limit("default", users->rest.memory, arena);
    for (uint32_t i = 0; i < users->count; i++)
        note_limit(users->list[i].name, users->list[i].limits.memory, arena);
}

static int print_memory(const struct users *users, const struct feed_spec *spec,
                        struct dataset *dataset, uint32_t world, uint64_t *total, struct error *err)
{
    const struct feed_params params = {.spec = spec,
                                       .dataset = dataset,
                                       .world = world,
                                       .batch = spec->batch ? spec->batch : ASSUMED_BATCH};
    struct feed_memory memory;
    int rc = feed_memory(spec, dataset, world, params.batch, spec->slots, &memory, err);
    if (rc)
        return rc;
    const struct recipe recipe = {
        .spec = spec, .dataset = dataset, .world = world, .batch = params.batch};
    struct steps steps = recipe_steps(&recipe, 0);
    uint64_t each = memory.arena + memory.shuffle;
    *total += each * world;
    bool mirror = spec->share == SHARE_MIRROR;
    printf("  %s: %.1f MB = %u slots x %.1f MB + shuffle %.1f MB; %u %s%s: %.1f MB; "
           "%llu step%s%s\n",
           mirror ? "a rank of a group, however many read it" : "a trainer", (double)each / MB,
           spec->slots, (double)memory.slot_bytes / MB, (double)memory.shuffle / MB, world,
           mirror ? "rank" : "trainer", plural(world), (double)(each * world) / MB,
           (unsigned long long)steps_total(&steps), plural(steps_total(&steps)),
           spec->batch ? "" : " (no batch is set: reckoned with 256)");
    char note[DLP_TEXT_MAX];
    if (*admit_reply_lane_note(&params, memory.lane_factor, note, sizeof note))
        printf("  note: %s\n", note);
    note_users(users, memory.arena);
    return 0;
}

static int check_feed(const struct config *config, const char *cache, const struct feed_spec *spec,
                      uint32_t world, uint64_t *total)
{
    struct error err = {0};
    struct dataset *dataset = NULL;
    unsigned threads = config->workers ? config->workers : system_cpus();
    printf("feed %s\n", spec->name);
    fflush(stdout);
    int rc = spec_open_dataset(spec, cache, config->cache_bytes, false, threads, show_progress,
                               spec->name, &dataset, &err);
    if (rc == 0) {
        print_data(dataset);
        print_settings(spec);
        rc = print_memory(&config->users, spec, dataset, world, total, &err);
    }
    dataset_unref(dataset);
    if (rc)
        printf("  error: %s\n", err.text);
    return rc;
}

static void print_workers(const struct config *config)
{
    unsigned threads = config_workers(config);
    bool pinned = config->pin_workers;
    cleanup_free struct cpus *cpus = cpus_allowed(pinned ? threads : CPUS_MAX);
    char text[CPUS_TEXT_MAX];
    printf("workers: %s%u, %s %s\n", config->workers ? "" : "auto, 1 to ", threads,
           pinned ? "pinned to CPUs" : "on any of CPUs", cpus_text(cpus, text, sizeof text));
}

static void print_users(const struct users *users)
{
    char words[USERS_WORDS_MAX];
    printf("users: default: %s\n", users_words(&users->rest, words));
    for (uint32_t i = 0; i < users->count; i++)
        printf("  %s (uid %u): %s\n", users->list[i].name, users->list[i].uid,
               users_words(&users->list[i].limits, words));
}

/* What root left in the service's cache, the service could not use. */
static bool may_keep(const char *cache, bool user)
{
    struct stat found;
    return stat(cache, &found) ? user || geteuid() : found.st_uid == geteuid();
}

int check_config(const struct config *config, bool user, uint32_t world)
{
    cleanup_free char *cache_dir = config_cache_dir(config, user);
    const char *cache = may_keep(cache_dir, user) ? cache_dir : NULL;
    struct budget *budget = budget_new(config->memory, config->decode_memory);
    uint64_t total = 0, limit = budget_limit(budget), decode = budget_decode_limit(budget);
    budget_free(budget);
    int first = 0;
    for (uint32_t i = 0; i < config->nfeeds; i++) {
        int rc = check_feed(config, cache, config->feeds[i], world, &total);
        if (rc && !first)
            first = rc;
    }
    print_workers(config);
    print_users(&config->users);
    printf("memory: limit %.1f MB, of it %.1f MB for decoding; all feeds at once with %u trainer%s "
           "each: %.1f MB%s\n",
           (double)limit / MB, (double)decode / MB, world, plural(world), (double)total / MB,
           total + decode > limit ? " - more than the limit" : "");
    return first;
}
