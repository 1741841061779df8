#include "store/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "base/plural.h"
#include "store/dataset_own.h"
#include "store/index_cache.h"
#include "store/indexer.h"
#include "store/parallel.h"
#include "store/source.h"

#define PATIENCE 120 /* seconds without data until a shard counts as hung */

static void copy_fields(struct dataset *dataset, const struct dataset_options *options)
{
    dataset->nfields = options->nfields;
    dataset->fields = mem_array(options->nfields, sizeof *dataset->fields);
    for (size_t f = 0; f < options->nfields; f++) {
        const struct dataset_field *field = &options->fields[f];
        char **from = mem_array(field->nfrom, sizeof *from);
        for (size_t i = 0; i < field->nfrom; i++)
            from[i] = mem_string(field->from[i]);
        dataset->fields[f] = (struct dataset_field){.name = mem_string(field->name),
                                                    .from = (const char *const *)from,
                                                    .nfrom = field->nfrom,
                                                    .marks = field->marks};
    }
}

static void free_fields(struct dataset *dataset)
{
    for (size_t f = 0; f < dataset->nfields; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        for (size_t i = 0; i < field->nfrom; i++)
            free((char *)field->from[i]);
        free((void *)field->from);
        free((char *)field->name);
    }
    free(dataset->fields);
}

static void free_shard(const struct dataset *dataset, struct dataset_shard *shard)
{
    uint64_t bytes = index_size(shard->index) + (shard->chosen ? dataset_shard_memory(shard) : 0);
    files_take_memory(dataset->files, -(int64_t)bytes, NULL);
    dataset_shard_done(shard);
}

static void dataset_free(struct dataset *dataset)
{
    for (uint32_t s = 0; s < dataset->nshards; s++)
        free_shard(dataset, &dataset->shards[s]);
    for (uint32_t i = 0; i < dataset->nnotes; i++)
        free(dataset->notes[i]);
    free_fields(dataset);
    free(dataset->shards);
    free(dataset->notes);
    index_cache_close(dataset->marks);
    files_unref(dataset->files);
    free(dataset->cache_dir);
    free(dataset->exclude);
    free(dataset);
}

struct dataset *dataset_ref(struct dataset *dataset)
{
    atomic_fetch_add(&dataset->references, 1);
    return dataset;
}

void dataset_unref(struct dataset *dataset)
{
    if (dataset && atomic_fetch_sub(&dataset->references, 1) == 1)
        dataset_free(dataset);
}

static void list_files(const struct files *files, struct source *out)
{
    uint32_t count = files_count(files);
    *out = (struct source){.paths = mem_array(count, sizeof *out->paths), .count = count};
    for (uint32_t i = 0; i < count; i++)
        out->paths[i] = mem_string(files_name(files, i));
}

static int find_paths(const struct dataset_source *from, struct source *out, struct error *err)
{
    if (from->files) {
        list_files(from->files, out);
        return 0;
    }
    if (!from->folder)
        return source_expand(from->patterns, from->count, out, err);
    if (from->count != 1)
        return error_set(err, -EINVAL, "an image folder is one directory, not %zu", from->count);
    *out = (struct source){.paths = mem_array(1, sizeof *out->paths), .count = 1};
    out->paths[0] = mem_string(from->patterns[0]);
    return 0;
}

static int index_all(struct dataset *dataset, const struct dataset_options *options,
                     const struct source *source, struct error *err)
{
    struct indexer_options indexer = {.format = dataset->format,
                                      .paths = (const char *const *)source->paths,
                                      .count = source->count,
                                      .files = dataset->files,
                                      .space = dataset->space,
                                      .threads = options->threads,
                                      .cache_dir = options->cache_dir,
                                      .cache_bytes = options->cache_bytes,
                                      .progress = options->progress,
                                      .context = options->context,
                                      .patience = PATIENCE};
    cleanup_free struct indexer_result *results = mem_array(source->count, sizeof *results);
    int rc = indexer_run(&indexer, results, err);
    if (rc)
        return rc;
    dataset->shards = mem_array(source->count, sizeof *dataset->shards);
    dataset->nshards = (uint32_t)source->count;
    for (uint32_t s = 0; s < dataset->nshards; s++)
        dataset->shards[s] = (struct dataset_shard){.path = mem_string(source->paths[s]),
                                                    .index = results[s].index,
                                                    .stamp = results[s].stamp};
    return 0;
}

struct choosing {
    struct dataset *dataset;
    struct exclude *unwanted;
    _Atomic int failed;
};

static void choose(void *context, size_t shard)
{
    struct choosing *choosing = context;
    struct dataset *dataset = choosing->dataset;
    struct dataset_shard *it = &dataset->shards[shard];
    if (choosing->failed)
        return;
    int rc = dataset_shard_choose(it, dataset->fields, dataset->nfields, choosing->unwanted);
    it->chosen = true;
    int more = files_take_memory(dataset->files, (int64_t)dataset_shard_memory(it), NULL);
    if (rc || more)
        choosing->failed = rc ? rc : more;
}

/* Sums, sample ids and the fingerprint: XXH3-128 over the record count and the digest of each shard
 * that has records in the plan, in listed order. */
static void add_up(struct dataset *dataset)
{
    XXH3_state_t hash;
    uint64_t id = 0;
    XXH3_128bits_reset(&hash);
    for (uint32_t s = 0; s < dataset->nshards; s++) {
        struct dataset_shard *shard = &dataset->shards[s];
        uint64_t count = dataset_shard_count(shard);
        shard->first_id = id;
        shard->faults_before = dataset->faults;
        id += index_records(shard->index);
        dataset->faults += shard->nfaults;
        dataset->unwanted += shard->unwanted;
        dataset->records += count;
        dataset->bytes += dataset_shard_bytes(dataset, s);
        if (count) {
            XXH3_128bits_update(&hash, &count, sizeof count);
            XXH3_128bits_update(&hash, shard->digest, sizeof shard->digest);
        }
    }
    XXH128_hash_t digest = XXH3_128bits_digest(&hash);
    snprintf(dataset->fingerprint, sizeof dataset->fingerprint, "%016" PRIx64 "%016" PRIx64,
             (uint64_t)digest.high64, (uint64_t)digest.low64);
}

/* An image folder whose pictures lie in it without directories of classes. */
static bool lacks_classes(const struct dataset *dataset)
{
    if (dataset->format != &format_folder)
        return false;
    const struct index *index = dataset->shards[0].index;
    for (uint32_t i = 0; i < index_suffixes(index); i++)
        if (!strcmp(index_suffix(index, i), "cls"))
            return false;
    return index_records(index) > 0;
}

static int check_any(const struct dataset *dataset, struct error *err)
{
    uint64_t all = 0;
    if (dataset->records)
        return 0;
    for (uint32_t s = 0; s < dataset->nshards; s++)
        all += index_records(dataset->shards[s].index);
    if (dataset->unwanted && !dataset->faults)
        return error_set(err, -ENODATA, "%s leaves out all %" PRIu64 " records that could be used",
                         dataset->exclude, dataset->unwanted);
    struct bad_report first = {.shard = "", .key = "", .reason = ""};
    if (dataset->faults)
        first = dataset_fault(dataset, 0);
    return error_set(
        err, -ENODATA,
        "none of %" PRIu64 " record%s in %u shard%s can be used; first reason: %s%s%s: "
        "%s: %s%s",
        all, plural(all), dataset->nshards, plural(dataset->nshards), first.shard,
        *first.key ? ": " : "", first.key, bad_name(first.cls), first.reason,
        lacks_classes(dataset)
            ? "; the label of a picture is its directory, FOLDER/CLASS/NAME.jpg: fields without a "
              "label need none"
            : "");
}

static void note_unwanted(struct dataset *dataset, const struct exclude *unwanted)
{
    const char *first;
    uint64_t unmet = exclude_unmet(unwanted, &first);
    dataset_add_note(dataset, mem_format("records left out by %s: %" PRIu64, dataset->exclude,
                                         dataset->unwanted));
    if (unmet)
        dataset_add_note(dataset,
                         mem_format("keys of %s that are not in the data set: %" PRIu64
                                    " of %" PRIu64 ", first: %.200s",
                                    dataset->exclude, unmet, exclude_keys(unwanted), first));
}

static int choose_all(struct dataset *dataset, unsigned threads, struct error *err)
{
    struct choosing choosing = {.dataset = dataset};
    if (dataset->exclude) {
        int rc = exclude_read(dataset->exclude, &choosing.unwanted, err);
        if (rc)
            return rc;
        dataset->exclude_stamp = exclude_stamp(choosing.unwanted);
    }
    parallel_run(threads, dataset->nshards, choose, &choosing);
    add_up(dataset);
    if (choosing.unwanted)
        note_unwanted(dataset, choosing.unwanted);
    exclude_free(choosing.unwanted);
    if (choosing.failed == -E2BIG && dataset->files)
        return files_too_much(dataset->files, err);
    if (choosing.failed)
        return error_set(err, choosing.failed, "no memory for the list of records left out");
    return 0;
}

static int fill(struct dataset *dataset, const struct dataset_options *options, struct error *err)
{
    struct source source = {0};
    int rc = find_paths(&options->source, &source, err);
    if (rc)
        return rc;
    rc = index_all(dataset, options, &source, err);
    for (size_t i = 0; i < source.nnotes; i++)
        dataset_add_note(dataset, mem_string(source.notes[i]));
    source_done(&source);
    if (rc)
        return rc;
    rc = choose_all(dataset, options->threads, err);
    return rc ? rc : check_any(dataset, err);
}

int dataset_open(const struct dataset_options *options, struct dataset **out, struct error *err)
{
    struct dataset *dataset = mem_new(sizeof *dataset);
    dataset->references = 1;
    dataset->format = options->source.folder ? &format_folder : &format_tar;
    dataset->files = files_ref(options->source.files);
    files_space(dataset->files, dataset->format->name, dataset->space);
    dataset->cache_dir = options->cache_dir ? mem_string(options->cache_dir) : NULL;
    dataset->cache_bytes = options->cache_bytes;
    dataset->exclude = options->exclude ? mem_string(options->exclude) : NULL;
    copy_fields(dataset, options);
    int rc = fill(dataset, options, err);
    if (rc) {
        error_prefix(err, "feed '%s'", options->name);
        dataset_free(dataset);
        return rc;
    }
    if (options->source.folder)
        dataset_add_note(dataset, mem_string("an image folder is read file by file; packed as "
                                             "shards (dataload-pack) it is read faster"));
    dataset_make_marks(dataset, options);
    dataset_describe(dataset);
    *out = dataset;
    return 0;
}

uint64_t dataset_records(const struct dataset *dataset)
{
    return dataset->records;
}

uint64_t dataset_bytes(const struct dataset *dataset)
{
    return dataset->bytes;
}

const char *dataset_fingerprint(const struct dataset *dataset)
{
    return dataset->fingerprint;
}

uint32_t dataset_shards(const struct dataset *dataset)
{
    return dataset->nshards;
}

const char *dataset_shard_path(const struct dataset *dataset, uint32_t shard)
{
    return dataset->shards[shard].path;
}

uint64_t dataset_shard_records(const struct dataset *dataset, uint32_t shard)
{
    return dataset_shard_count(&dataset->shards[shard]);
}

uint64_t dataset_shard_bytes(const struct dataset *dataset, uint32_t shard)
{
    return dataset_span_bytes(dataset, shard, 0, dataset_shard_records(dataset, shard));
}

uint64_t dataset_span_bytes(const struct dataset *dataset, uint32_t shard, uint64_t first,
                            uint64_t count)
{
    const struct dataset_shard *at = &dataset->shards[shard];
    uint64_t low, high;
    if (!count)
        return 0;
    uint32_t begin = dataset_shard_number(at, first, &low);
    uint32_t last = dataset_shard_number(at, first + count - 1, &high);
    uint64_t bytes = index_record(at->index, last + 1)->bytes_before -
                     index_record(at->index, begin)->bytes_before;
    return high > low ? bytes - (at->excluded_before[high] - at->excluded_before[low]) : bytes;
}

static struct marks_place place_marks(const struct index *index, uint32_t number,
                                      const struct index_part *part)
{
    uint64_t before = index_record(index, number)->bytes_before;
    for (const struct index_part *at = index_parts(index, number); at < part; at++)
        before += at->size;
    return marks_place(before, part->size);
}

const char *dataset_key(const struct dataset *dataset, uint32_t shard, uint32_t number)
{
    return index_key(dataset->shards[shard].index, number);
}

void dataset_record(const struct dataset *dataset, uint32_t shard, uint64_t j,
                    struct dataset_record *out)
{
    const struct dataset_shard *at = &dataset->shards[shard];
    const uint32_t *wanted = at->wanted;
    uint64_t excluded;
    uint32_t number = dataset_shard_number(at, j, &excluded);
    out->id = at->first_id + number;
    out->shard = shard;
    out->number = number;
    out->key = index_key(at->index, number);
    for (size_t f = 0; f < dataset->nfields; f++) {
        size_t nfrom = dataset->fields[f].nfrom;
        if (nfrom == 0) {
            out->parts[f] = (struct dataset_part){.flags = PART_VALUE, .suffix = ""};
            continue;
        }
        const struct index_part *part = dataset_shard_part(at, number, wanted, nfrom);
        out->parts[f] = (struct dataset_part){.flags = part->flags,
                                              .suffix = index_suffix(at->index, part->suffix),
                                              .offset = part->offset,
                                              .size = part->size};
        if (dataset->marks && dataset->fields[f].marks && !(part->flags & PART_VALUE))
            out->parts[f].marks = place_marks(at->index, number, part);
        wanted += nfrom;
    }
}

uint64_t dataset_part_max(const struct dataset *dataset, size_t field)
{
    uint64_t most = 0;
    for (uint32_t s = 0; s < dataset->nshards; s++)
        if (dataset->shards[s].part_max[field] > most)
            most = dataset->shards[s].part_max[field];
    return most;
}

uint32_t dataset_faults(const struct dataset *dataset)
{
    return dataset->faults < UINT32_MAX ? (uint32_t)dataset->faults : UINT32_MAX;
}

/* The shard whose faults hold the number: the last one that begins at or before it. */
static const struct dataset_shard *shard_of_fault(const struct dataset *dataset, uint32_t number)
{
    uint32_t low = 0, high = dataset->nshards;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (dataset->shards[middle].faults_before <= number)
            low = middle;
        else
            high = middle;
    }
    return &dataset->shards[low];
}

struct bad_report dataset_fault(const struct dataset *dataset, uint32_t number)
{
    const struct dataset_shard *shard = shard_of_fault(dataset, number);
    const struct dataset_shard_fault *fault = &shard->faults[number - shard->faults_before];
    return (struct bad_report){
        .cls = (enum bad_class)fault->cls,
        .shard = shard->path,
        .key = fault->record == UINT32_MAX ? "" : index_key(shard->index, fault->record),
        .offset = fault->offset,
        .reason = shard->reasons.text + shard->reasons.at[fault->reason]};
}

uint32_t dataset_notes(const struct dataset *dataset)
{
    return dataset->nnotes;
}

const char *dataset_note(const struct dataset *dataset, uint32_t number)
{
    return dataset->notes[number];
}
