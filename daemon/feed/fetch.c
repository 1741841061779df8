#include "feed/fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/trace.h"
#include "feed/crew.h"
#include "feed/handles.h"
#include "store/read_spans.h"

/* Bytes that one of many reads at a time takes. */
#define PIECE (1ULL << 20)
/* Pieces without a wait after which storage counts as quick again. */
#define QUICK_PIECES 256
#define DESCRIPTOR_WAIT_US 10000

/* One part to be read. */
struct want {
    struct sample *sample;
    uint32_t part;
};

/* A storage that it has met, and its share of that. */
struct device {
    struct device *next;
    dev_t number;
    struct storage_member member;
};

/* Neighbours of one shard, which are read in one go. */
struct piece {
    struct shard *shard;
    struct storage_member *member; /* NULL: storage is quick, and nobody waits for a turn */
    size_t begin, end;             /* of the wants */
};

/* Reads of what the page cache has are done here, one after the other: nothing is faster. Where a
 * read had to wait, the next ones are put before the crew. */
struct fetch {
    const struct recipe *recipe;
    struct ration *ration;
    const _Atomic bool *interrupted;
    struct handles *handles;
    struct want *wants;
    size_t count, room;
    uint64_t samples;          /* added since the last run */
    struct format_read *reads; /* of the wants, as many */
    struct piece *pieces;      /* room for as many */
    size_t npieces;
    struct crew *crew;
    unsigned slow;       /* pieces up to QUICK_PIECES; 0 = storage is quick */
    bool lacked;         /* descriptors: it has been said */
    _Atomic bool waited; /* a read did, in this run */
    struct share_terms terms;
    struct device *devices;
    uint32_t *closed;      /* shards to be opened; room for handles_room */
    struct shard **opened; /* of these */
};

struct fetch *fetch_new(const struct recipe *recipe, struct ration *ration,
                        const _Atomic bool *interrupted)
{
    struct fetch *fetch = mem_new(sizeof *fetch);
    fetch->recipe = recipe;
    fetch->ration = ration;
    fetch->interrupted = interrupted;
    fetch->handles = handles_new(recipe->dataset);
    fetch->crew = crew_new(&recipe->tally->crew_ns);
    fetch->closed = mem_array(handles_room(fetch->handles), sizeof *fetch->closed);
    fetch->opened = mem_array(handles_room(fetch->handles), sizeof *fetch->opened);
    return fetch;
}

void fetch_free(struct fetch *fetch)
{
    if (!fetch)
        return;
    crew_free(fetch->crew);
    while (fetch->devices) {
        struct device *device = fetch->devices;
        fetch->devices = device->next;
        storage_leave(&device->member);
        free(device);
    }
    handles_free(fetch->handles);
    free(fetch->wants);
    free(fetch->reads);
    free(fetch->pieces);
    free(fetch->closed);
    free(fetch->opened);
    free(fetch);
}

void fetch_set_terms(struct fetch *fetch, const struct share_terms *terms)
{
    fetch->terms = *terms;
    for (struct device *device = fetch->devices; device; device = device->next)
        storage_set_terms(&device->member, terms);
}

static struct storage_member *member_of(struct fetch *fetch, const struct shard *shard)
{
    dev_t number = shard_device(shard);
    struct device *device = fetch->devices;
    while (device && device->number != number)
        device = device->next;
    if (!device) {
        device = mem_new(sizeof *device);
        *device = (struct device){.next = fetch->devices, .number = number};
        storage_join(number, &fetch->terms, &fetch->recipe->tally->share, &device->member);
        fetch->devices = device;
    }
    return &device->member;
}

static void add_want(struct fetch *fetch, struct want want)
{
    if (fetch->count == fetch->room) {
        fetch->room = fetch->room ? fetch->room * 2 : 256;
        fetch->wants = mem_grow(fetch->wants, fetch->room, sizeof *fetch->wants);
        fetch->reads = mem_grow(fetch->reads, fetch->room, sizeof *fetch->reads);
        fetch->pieces = mem_grow(fetch->pieces, fetch->room, sizeof *fetch->pieces);
    }
    fetch->wants[fetch->count++] = want;
}

struct sample *fetch_add(struct fetch *fetch, struct plan_place place, enum ration_use use)
{
    const struct recipe *recipe = fetch->recipe;
    struct dataset_record record;
    dataset_record(recipe->dataset, place.shard, place.record, &record);
    struct sample *sample =
        sample_new(&record, place, recipe->spec->nfields, recipe->record_limit, fetch->ration, use);
    if (!sample)
        return NULL;
    fetch->samples++;
    for (uint32_t p = 0; p < sample->nparts && !sample->bad; p++)
        if (sample->parts[p].bytes)
            add_want(fetch, (struct want){sample, p});
    return sample;
}

static const struct sample_part *part_of(const struct want *want)
{
    return &want->sample->parts[want->part];
}

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare(const void *left, const void *right)
{
    const struct want *a = left;
    const struct want *b = right;
    int by = order(a->sample->place.shard, b->sample->place.shard);
    if (by == 0)
        by = order(a->sample->number, b->sample->number);
    return by ? by : order(part_of(a)->offset, part_of(b)->offset);
}

static uint32_t shard_of(const struct want *want)
{
    return want->sample->place.shard;
}

static void fail_all(const struct want *wants, size_t count, const struct error *err)
{
    enum bad_class bad = err->code == -ESTALE ? BAD_SHARD_CHANGED : BAD_SHARD_MISSING;
    for (size_t i = 0; i < count; i++)
        sample_fail(wants[i].sample, bad, part_of(&wants[i])->offset, "%s", err->text);
}

static enum bad_class class_of(int error)
{
    switch (error) {
    case -ESTALE:
        return BAD_SHARD_CHANGED;
    case -ENOENT:
        return BAD_SHARD_MISSING;
    default:
        return BAD_READ;
    }
}

static void judge(const struct want *want, const struct format_read *read)
{
    if (read->error)
        sample_fail(want->sample, class_of(read->error), read->offset,
                    "reading %" PRIu64 " bytes: %s", read->size, strerror(-read->error));
    else if (read->got < read->size)
        sample_fail(want->sample, BAD_SHARD_TRUNC, read->offset,
                    "the shard ends after %" PRIu64 " of %" PRIu64 " bytes", read->got, read->size);
}

static void begin_storage(struct fetch *fetch, uint32_t shard)
{
    tally_wait(fetch->recipe->tally, FEED_WAITS_STORAGE,
               dataset_shard_path(fetch->recipe->dataset, shard));
}

static void end_storage(struct fetch *fetch)
{
    tally_wait(fetch->recipe->tally, FEED_RUNS, NULL);
}

/* How often this thread has slept: what is in the page cache is read without, and time would tell
 * less, since others may have the processor. */
static uint64_t sleeps(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nvcsw;
}

static uint64_t asked(const struct fetch *fetch, size_t begin, size_t end)
{
    uint64_t bytes = 0;
    for (size_t i = begin; i < end; i++)
        bytes += fetch->reads[i].size;
    return bytes;
}

static void read_now(struct fetch *fetch, const struct piece *piece)
{
    const struct recipe *recipe = fetch->recipe;
    uint64_t before = sleeps(), begin = trace_now();
    delay_read(&recipe->delay, fetch->wants[piece->begin].sample->id,
               asked(fetch, piece->begin, piece->end));
    shard_read(piece->shard, &fetch->reads[piece->begin], piece->end - piece->begin);
    if (sleeps() != before)
        atomic_store(&fetch->waited, true);
    uint64_t bytes = 0;
    for (size_t i = piece->begin; i < piece->end; i++) {
        const struct sample_part *part = part_of(&fetch->wants[i]);
        bytes += fetch->reads[i].got;
        if (part->marks_place.room)
            shard_read_marks(piece->shard, &part->marks_place, part->marks);
    }
    tally_add(&recipe->tally->read_bytes, bytes);
    if (begin)
        trace_span("read", recipe->spec->name, begin, trace_now(),
                   dataset_shard_path(recipe->dataset, shard_of(&fetch->wants[piece->begin])), 0);
}

static void read_piece(void *context, size_t number)
{
    struct fetch *fetch = context;
    const struct piece *piece = &fetch->pieces[number];
    struct storage_turn turn;
    if (atomic_load(fetch->interrupted))
        return;
    if (!piece->member) {
        read_now(fetch, piece);
    } else if (storage_begin(&turn, piece->member, asked(fetch, piece->begin, piece->end),
                             fetch->interrupted)) {
        read_now(fetch, piece);
        storage_end(&turn);
    }
}

static bool are_neighbours(const struct format_read *left, const struct format_read *right)
{
    uint64_t end = left->offset + left->size;
    return right->offset >= end && right->offset - end <= READ_SPANS_GAP;
}

/* The wants of one shard, in pieces. */
static void cut(struct fetch *fetch, struct shard *shard, size_t begin, size_t end)
{
    const struct format_read *reads = fetch->reads;
    struct storage_member *member = member_of(fetch, shard);
    for (size_t next; begin < end; begin = next) {
        uint64_t bytes = reads[begin].size;
        for (next = begin + 1;
             next < end && bytes < PIECE && are_neighbours(&reads[next - 1], &reads[next]); next++)
            bytes += reads[next].size;
        fetch->pieces[fetch->npieces++] = (struct piece){shard, member, begin, next};
    }
}

static size_t group_end(const struct fetch *fetch, size_t begin)
{
    size_t end = begin + 1;
    while (end < fetch->count && shard_of(&fetch->wants[end]) == shard_of(&fetch->wants[begin]))
        end++;
    return end;
}

/* ------- descriptors ------- */

static bool lacks_descriptors(int code)
{
    return code == -EMFILE || code == -ENFILE;
}

static void warn(struct fetch *fetch, const char *path)
{
    struct rlimit limit = {0};
    if (fetch->lacked)
        return;
    fetch->lacked = true;
    getrlimit(RLIMIT_NOFILE, &limit);
    log_event(LOG_WARNING,
              log_about(LOG_NO_DESCRIPTORS, .feed = fetch->recipe->spec->name, .shard = path),
              "feed %s waits: no descriptor is free to read %s; raise the limit of open files, "
              "%" PRIu64 " now (ulimit -n, LimitNOFILE), or close some",
              fetch->recipe->spec->name, path, (uint64_t)limit.rlim_cur);
}

/* The reader says that it waits, until begin_storage. */
static void begin_shortage(struct fetch *fetch, uint32_t shard)
{
    const char *path = dataset_shard_path(fetch->recipe->dataset, shard);
    tally_wait(fetch->recipe->tally, FEED_WAITS_DESCRIPTOR, path);
    warn(fetch, path);
}

static bool wait_descriptor(struct fetch *fetch)
{
    usleep(DESCRIPTOR_WAIT_US);
    return !atomic_load(fetch->interrupted);
}

/* What is short passes: the records are not bad. */
static struct shard *open_patiently(struct fetch *fetch, uint32_t number, struct error *err)
{
    struct shard *shard = handles_get(fetch->handles, number, err);
    if (shard || !lacks_descriptors(err->code))
        return shard;
    begin_shortage(fetch, number);
    while (!shard && lacks_descriptors(err->code) && wait_descriptor(fetch))
        shard = handles_get(fetch->handles, number, err);
    begin_storage(fetch, number);
    return shard;
}

static bool lacks_some(const struct fetch *fetch, const struct piece *piece)
{
    for (size_t i = piece->begin; i < piece->end; i++)
        if (lacks_descriptors(fetch->reads[i].error))
            return true;
    return false;
}

/* Each file of a folder takes a descriptor while it is read. */
static void read_lacking(struct fetch *fetch)
{
    for (size_t p = 0; p < fetch->npieces; p++) {
        const struct piece *piece = &fetch->pieces[p];
        if (!lacks_some(fetch, piece))
            continue;
        uint32_t shard = shard_of(&fetch->wants[piece->begin]);
        begin_shortage(fetch, shard);
        while (lacks_some(fetch, piece) && wait_descriptor(fetch))
            read_piece(fetch, p);
        begin_storage(fetch, shard);
    }
}

/* ------- a run ------- */

/* Opens a shard and puts what is wanted of it before those who read. False: no descriptor is free
 * before what is there has been read. */
static bool add_group(struct fetch *fetch, size_t begin, size_t end)
{
    struct error err = {0};
    struct shard *shard = handles_get(fetch->handles, shard_of(&fetch->wants[begin]), &err);
    if (!shard && lacks_descriptors(err.code)) {
        if (fetch->npieces)
            return false;
        handles_clear(fetch->handles);
        shard = open_patiently(fetch, shard_of(&fetch->wants[begin]), &err);
    }
    if (!shard)
        tally_add(&fetch->recipe->tally->read_errors, 1);
    if (!shard)
        fail_all(&fetch->wants[begin], end - begin, &err);
    else if (fetch->slow)
        cut(fetch, shard, begin, end);
    else
        fetch->pieces[fetch->npieces++] = (struct piece){shard, NULL, begin, end};
    return true;
}

static void open_one(void *context, size_t number)
{
    struct fetch *fetch = context;
    struct error err;
    if (!atomic_load(fetch->interrupted))
        shard_open(fetch->recipe->dataset, fetch->closed[number], &fetch->opened[number], &err);
}

static void wait_opening(void *context, size_t number)
{
    struct fetch *fetch = context;
    begin_storage(fetch, fetch->closed[number]);
}

/* What cannot be opened now is left to add_group, which says why. */
static void open_many(struct fetch *fetch, size_t begin, uint32_t most)
{
    uint32_t count = 0;
    for (size_t i = begin; i < fetch->count && most--; i = group_end(fetch, i)) {
        uint32_t shard = shard_of(&fetch->wants[i]);
        if (handles_find(fetch->handles, shard))
            continue;
        fetch->opened[count] = NULL;
        fetch->closed[count++] = shard;
    }
    if (count < 2)
        return;
    handles_make_room(fetch->handles, count);
    crew_run(fetch->crew, count, open_one, wait_opening, fetch);
    for (uint32_t i = 0; i < count; i++)
        if (fetch->opened[i])
            handles_put(fetch->handles, fetch->closed[i], fetch->opened[i]);
}

static void wait_piece(void *context, size_t number)
{
    struct fetch *fetch = context;
    begin_storage(fetch, shard_of(&fetch->wants[fetch->pieces[number].begin]));
}

static void note_waits(struct fetch *fetch)
{
    if (atomic_exchange(&fetch->waited, false))
        fetch->slow = QUICK_PIECES;
    else
        fetch->slow -= fetch->slow < fetch->npieces ? fetch->slow : (unsigned)fetch->npieces;
}

/* Reads as many shards as are well read together, from want `begin` on; returns the next want. */
static size_t run_some(struct fetch *fetch, size_t begin)
{
    uint32_t most = fetch->slow ? handles_room(fetch->handles) : 1;
    begin_storage(fetch, shard_of(&fetch->wants[begin]));
    fetch->npieces = 0;
    if (fetch->slow)
        open_many(fetch, begin, most);
    while (begin < fetch->count && most-- && !atomic_load(fetch->interrupted)) {
        size_t end = group_end(fetch, begin);
        if (!add_group(fetch, begin, end))
            break;
        begin = end;
    }
    if (fetch->npieces > 1)
        crew_run(fetch->crew, fetch->npieces, read_piece, wait_piece, fetch);
    else if (fetch->npieces)
        read_piece(fetch, 0);
    read_lacking(fetch);
    note_waits(fetch);
    end_storage(fetch);
    return begin;
}

static void set_reads(struct fetch *fetch)
{
    for (size_t i = 0; i < fetch->count; i++) {
        const struct sample_part *part = part_of(&fetch->wants[i]);
        fetch->reads[i] = (struct format_read){.record = fetch->wants[i].sample->number,
                                               .offset = part->offset,
                                               .size = part->size,
                                               .dst = part->bytes};
    }
}

/* In their order, whatever that of the reads was. */
static void judge_all(struct fetch *fetch)
{
    uint64_t errors = 0;
    for (size_t i = 0; i < fetch->count; i++) {
        errors += fetch->reads[i].error != 0;
        judge(&fetch->wants[i], &fetch->reads[i]);
    }
    tally_add(&fetch->recipe->tally->read_errors, errors);
}

static void run(struct fetch *fetch)
{
    _Atomic uint64_t *queued = &fetch->recipe->tally->bytes_queued;
    if (fetch->count == 0)
        return;
    qsort(fetch->wants, fetch->count, sizeof *fetch->wants, compare);
    set_reads(fetch);
    tally_set(queued, asked(fetch, 0, fetch->count));
    for (size_t i = 0, next; i < fetch->count && !atomic_load(fetch->interrupted); i = next) {
        next = run_some(fetch, i);
        tally_sub(queued, asked(fetch, i, next));
    }
    tally_set(queued, 0);
    if (!atomic_load(fetch->interrupted))
        judge_all(fetch);
    fetch->count = 0;
}

void fetch_run(struct fetch *fetch)
{
    run(fetch);
    tally_read(fetch->recipe->tally, fetch->samples);
    fetch->samples = 0;
}

bool fetch_waits(const struct fetch *fetch)
{
    return fetch->slow;
}

void fetch_advise(struct fetch *fetch, struct plan_place first, struct plan_place last)
{
    const struct dataset *dataset = fetch->recipe->dataset;
    begin_storage(fetch, first.shard);
    struct error err;
    struct shard *shard = handles_get(fetch->handles, first.shard, &err);
    struct dataset_record from;
    struct dataset_record to;
    dataset_record(dataset, first.shard, first.record, &from);
    dataset_record(dataset, last.shard, last.record, &to);
    uint64_t end = to.parts[0].offset + to.parts[0].size;
    /* Where reads take turns the system would read it out of turn. */
    bool turns = shard && storage_has_others(member_of(fetch, shard));
    if (shard && !turns && end > from.parts[0].offset)
        shard_advise(shard, from.parts[0].offset, end - from.parts[0].offset);
    end_storage(fetch);
}
