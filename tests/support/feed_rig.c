#include "feed_rig.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/orphans.h"
#include "feed/recipe.h"

#define DECODE (8ULL << 20)
#define LONGEST (60 * CLOCK_SECOND)

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ULL; /* FNV-1a */
    return hash;
}

#define HASH_START 0xcbf29ce484222325ULL

static const uint8_t *tensor(const struct rig *rig, const char *name, uint32_t slot,
                             const struct dlp_tensor **out)
{
    const struct dlp_layout *layout = feed_get_layout(rig->feed);
    *out = dlp_layout_find(layout, name);
    ck_assert_ptr_nonnull(*out);
    return rig->memory + slot * layout->slot_bytes + (*out)->offset;
}

static void *copy_of(const struct rig *rig, const char *name, uint32_t slot)
{
    const struct dlp_tensor *it;
    const uint8_t *from = tensor(rig, name, slot, &it);
    void *copy = malloc(it->size);
    memcpy(copy, from, it->size);
    return copy;
}

static uint64_t *hash_rows(const struct rig *rig, const char *name, uint32_t slot, uint32_t rows)
{
    const struct dlp_tensor *it;
    const uint8_t *from = tensor(rig, name, slot, &it);
    const uint64_t *offsets = (const uint64_t *)(const void *)from;
    uint64_t *hashes = mem_array(rows, sizeof *hashes);
    uint64_t each = it->size / rows;
    for (uint32_t r = 0; r < rows; r++) {
        if (!it->ragged) {
            hashes[r] = hash_bytes(HASH_START, from + r * each, each);
            continue;
        }
        ck_assert_uint_le(offsets[r], offsets[r + 1]);
        ck_assert_uint_le(offsets[r + 1], it->data_size);
        const uint8_t *data = from - it->offset + it->data_offset;
        hashes[r] = hash_bytes(HASH_START, data + offsets[r], offsets[r + 1] - offsets[r]);
    }
    return hashes;
}

/* Through a mapping of its own, as a client has it. */
static int map_arena(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    struct rig *rig = context;
    struct feed_arena arena;
    feed_get_arena(rig->feed, 0, &arena);
    const dlp_cu_access access = {{DLP_CU_LOCATION_DEVICE, gpu->device}, DLP_CU_ACCESS_READ};
    dlp_cu_memory memory;
    dlp_cu_pointer at = 0;
    const struct dlp_cuda *cuda = gpu->cuda;
    unsigned failed =
        cuda->memory_import(&memory, (void *)(intptr_t)arena.fd, DLP_CU_HANDLE_POSIX_FD);
    failed = failed ? failed : cuda->address_reserve(&at, arena.bytes, 0, 0, 0);
    failed = failed ? failed : cuda->memory_map(at, arena.bytes, 0, memory, 0);
    failed = failed ? failed : cuda->memory_access(at, arena.bytes, &access, 1);
    failed = failed ? failed : cuda->memory_release(memory);
    failed = failed ? failed : cuda->stream_create(&rig->stream, DLP_CU_STREAM_NON_BLOCKING, 0);
    rig->at = at;
    rig->mapped = arena.bytes;
    return uploader_check(gpu->uploader, failed, "mapping", err);
}

static int unmap_arena(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    struct rig *rig = context;
    unsigned failed = gpu->cuda->memory_unmap(rig->at, rig->mapped);
    failed = failed ? failed : gpu->cuda->address_free(rig->at, rig->mapped);
    failed = failed ? failed : gpu->cuda->stream_destroy(rig->stream);
    return uploader_check(gpu->uploader, failed, "unmapping", err);
}

struct reading {
    struct rig *rig;
    uint64_t offset, bytes;
};

static int read_slot(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    const struct reading *it = context;
    unsigned failed = gpu->cuda->copy_to_host(it->rig->memory + it->offset,
                                              it->rig->at + it->offset, it->bytes, it->rig->stream);
    failed = failed ? failed : gpu->cuda->stream_synchronize(it->rig->stream);
    return uploader_check(gpu->uploader, failed, "reading back", err);
}

/* False: the GPU was lost meanwhile, and what is there cannot be looked at any more. */
static bool read_back(struct rig *rig, uint32_t slot)
{
    struct error err;
    uint64_t bytes = feed_get_layout(rig->feed)->slot_bytes;
    struct reading reading = {rig, slot * bytes, bytes};
    if (!rig->gpu.uploader || uploader_run(rig->gpu.uploader, read_slot, &reading, &err) == 0)
        return true;
    struct uploader_state state;
    uploader_state(rig->gpu.uploader, &state);
    ck_assert_msg(state.lost, "%s", err.text);
    return false;
}

/* Reading back takes so long that the loop might never turn, were others filled meanwhile. */
static void give_back(struct rig *rig, const struct feed_batch *batch)
{
    if (rig->gpu.uploader)
        rig->read[rig->nread++] = *batch;
    else
        ck_assert_int_eq(feed_release(rig->feed, batch->slot, batch->generation), 0);
}

static void turn(struct rig *rig)
{
    uv_run(&rig->loop, UV_RUN_ONCE);
    while (rig->nread) {
        const struct feed_batch *batch = &rig->read[--rig->nread];
        ck_assert_int_eq(feed_release(rig->feed, batch->slot, batch->generation), 0);
    }
}

static void on_ready(void *context, const struct feed_batch *batch)
{
    struct rig *rig = context;
    if (!read_back(rig, batch->slot))
        return;
    uint32_t rows = feed_get_layout(rig->feed)->batch;
    rig->batches = mem_grow(rig->batches, rig->nbatches + 1, sizeof *rig->batches);
    rig->batches[rig->nbatches++] =
        (struct rig_batch){.ready = *batch,
                           .index = copy_of(rig, "index", batch->slot),
                           .label = copy_of(rig, "label", batch->slot),
                           .valid = copy_of(rig, "valid", batch->slot),
                           .image = hash_rows(rig, "image", batch->slot, rows),
                           .text = hash_rows(rig, "text", batch->slot, rows)};
    if (dlp_layout_find(feed_get_layout(rig->feed), "image.shape"))
        rig->batches[rig->nbatches - 1].shape = copy_of(rig, "image.shape", batch->slot);
    if (!rig->options.take_none)
        ck_assert_int_eq(feed_hold(rig->feed, batch->slot, batch->generation), 0);
    if (!rig->options.take_none && !rig->options.keep)
        give_back(rig, batch);
    if (rig->on_ready)
        rig->on_ready(rig, batch);
}

static void on_failed(void *context, const struct feed_batch *batch, const char *text)
{
    struct rig *rig = context;
    ck_assert_uint_lt(rig->nfailed, 16);
    rig->failed[rig->nfailed] = batch->place;
    if (!rig->options.take_none)
        ck_assert_int_eq(feed_release(rig->feed, batch->slot, batch->generation), 0);
    snprintf(rig->failed_text[rig->nfailed++], 300, "%s", text);
}

static void on_bad(void *context, const struct bad_report *report, struct feed_place place)
{
    struct rig *rig = context;
    rig->bad = mem_grow(rig->bad, rig->nbad + 1, sizeof *rig->bad);
    struct rig_bad *bad = &rig->bad[rig->nbad++];
    *bad = (struct rig_bad){.cls = report->cls, .place = place};
    snprintf(bad->key, sizeof bad->key, "%s", report->key);
    snprintf(bad->shard, sizeof bad->shard, "%s", report->shard);
    ck_assert(*report->reason);
}

static void on_stopped(void *context, const struct error *err)
{
    struct rig *rig = context;
    ck_assert_int_eq(rig->stopped.code, 0);
    rig->stopped = *err;
}

static void on_closed(void *context)
{
    struct rig *rig = context;
    ck_assert(!rig->closed);
    rig->closed = true;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void set_defaults(struct rig_options *options)
{
    options->threads = options->threads ? options->threads : 2;
    options->memory = options->memory ? options->memory : 256 << 20;
    options->decode = options->decode ? options->decode : DECODE;
    options->world = options->world ? options->world : 1;
    options->batch = options->batch ? options->batch : 16;
    options->slots = options->slots ? options->slots : 4;
    if (!options->times.copy_ns)
        options->times = uploader_times;
}

static void open_feed(struct rig *rig, const struct feed_data *data)
{
    const struct rig_options *options = &rig->options;
    struct feed_params params = {.spec = &data->spec,
                                 .dataset = data->dataset,
                                 .rank = options->rank,
                                 .world = options->world,
                                 .batch = options->batch,
                                 .slots = options->slots,
                                 .seed = 11,
                                 .start_epoch = options->start_epoch,
                                 .start_position = options->start_position,
                                 .first = options->first,
                                 .shared = options->shared,
                                 .memory = rig->gpu.uploader ? DLP_MEMORY_VMM : DLP_MEMORY_HOST,
                                 .uploader = rig->gpu.uploader,
                                 .orphans = rig->orphans,
                                 .workers = rig->workers,
                                 .budget = rig->budget,
                                 .mailbox = rig->mailbox,
                                 .events = {.ready = on_ready,
                                            .failed = on_failed,
                                            .bad = on_bad,
                                            .stopped = on_stopped,
                                            .closed = on_closed},
                                 .context = rig};
    struct error err;
    ck_assert_msg(feed_open(&params, &rig->feed, &err) == 0, "%s", err.text);
    uint64_t bytes = feed_get_layout(rig->feed)->slot_bytes * options->slots;
    struct feed_arena arena;
    feed_get_arena(rig->feed, 0, &arena);
    if (rig->gpu.uploader && uploader_run(rig->gpu.uploader, map_arena, rig, &err) != 0)
        ck_abort_msg("%s", err.text);
    if (rig->gpu.uploader)
        rig->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        rig->memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, arena.fd, 0);
    ck_assert_ptr_ne(rig->memory, MAP_FAILED);
}

static void find_gpu(struct rig *rig)
{
    struct error err;
    uint8_t uuid[UPLOADERS_UUID];
    memset(uuid, 1, sizeof uuid);
    rig->uploaders = uploaders_new(&rig->options.times);
    if (getenv("FEED_RIG_CUDA") && uploaders_find(rig->uploaders, uuid, &rig->gpu, &err) != 0)
        ck_abort_msg("%s", err.text);
}

struct rig *rig_new(const struct feed_data *data, const struct rig_options *options)
{
    struct rig *rig = mem_new(sizeof *rig);
    rig->options = *options;
    set_defaults(&rig->options);
    uv_loop_init(&rig->loop);
    uv_timer_init(&rig->loop, &rig->tick);
    uv_timer_start(&rig->tick, on_tick, 5, 5);
    rig->mailbox = mailbox_new(&rig->loop);
    rig->budget = budget_new(rig->options.memory + rig->options.decode, rig->options.decode);
    rig->orphans = orphans_new(rig->budget);
    rig->workers = workers_new(rig->options.threads, NULL, rig->budget);
    find_gpu(rig);
    open_feed(rig, data);
    feed_start(rig->feed);
    return rig;
}

void rig_run(struct rig *rig, uint32_t batches)
{
    uint64_t end = clock_ns() + LONGEST;
    while (rig->nbatches + rig->nfailed < batches && !rig->stopped.code) {
        ck_assert_msg(clock_ns() < end, "%u of %u batches came", rig->nbatches, batches);
        turn(rig);
    }
}

void rig_idle(struct rig *rig, uint64_t ms)
{
    uint64_t end = clock_ns() + ms * CLOCK_MS;
    while (clock_ns() < end)
        turn(rig);
}

static void free_batch(struct rig_batch *batch)
{
    free(batch->index);
    free(batch->label);
    free(batch->valid);
    free(batch->image);
    free(batch->text);
    free(batch->shape);
}

void rig_trim(struct rig *rig, uint32_t batches)
{
    while (rig->nbatches > batches)
        free_batch(&rig->batches[--rig->nbatches]);
}

void rig_free(struct rig *rig)
{
    munmap(rig->memory, feed_get_layout(rig->feed)->slot_bytes * rig->options.slots);
    uint32_t nbatches = rig->nbatches;
    if (rig->gpu.uploader)
        uploader_run(rig->gpu.uploader, unmap_arena, rig, NULL);
    feed_close(rig->feed);
    feed_close(rig->feed);
    uint64_t end = clock_ns() + LONGEST;
    while (!rig->closed) {
        struct feed_stats stats;
        ck_assert_msg(clock_ns() < end, "the feed does not close");
        feed_get_stats(rig->feed, &stats); /* is asked for while its threads end, too */
        uv_run(&rig->loop, UV_RUN_NOWAIT);
        sched_yield();
    }
    ck_assert_uint_eq(rig->nbatches, nbatches);
    workers_free(rig->workers);
    ck_assert(uploaders_free(rig->uploaders, UINT64_MAX));
    ck_assert_uint_eq(budget_used(rig->budget, BUDGET_USES), rig->kept);
    orphans_free(rig->orphans);
    budget_free(rig->budget);
    mailbox_free(rig->mailbox);
    uv_close((uv_handle_t *)&rig->tick, NULL);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&rig->loop), 0);
    for (uint32_t b = 0; b < rig->nbatches; b++)
        free_batch(&rig->batches[b]);
    free(rig->batches);
    free(rig->bad);
    free(rig);
}

uint64_t rig_hash(const struct rig *rig)
{
    uint64_t hash = HASH_START;
    uint32_t rows = rig->options.batch;
    for (uint32_t b = 0; b < rig->nbatches; b++) {
        const struct rig_batch *batch = &rig->batches[b];
        hash = hash_bytes(hash, &batch->ready.place, sizeof batch->ready.place);
        hash = hash_bytes(hash, batch->index, rows * sizeof *batch->index);
        hash = hash_bytes(hash, batch->label, rows * sizeof *batch->label);
        hash = hash_bytes(hash, batch->valid, rows);
        hash = hash_bytes(hash, batch->image, rows * sizeof *batch->image);
        hash = hash_bytes(hash, batch->text, rows * sizeof *batch->text);
    }
    return hash;
}

static void check_batch(const struct rig_batch *batch, const struct feed_data *data,
                        const struct plan *plan, const struct steps *steps,
                        const struct rig_options *options)
{
    uint64_t positions[256];
    uint32_t rows = steps_positions(steps, batch->ready.place.step, options->rank, positions);
    uint32_t valid = 0;
    ck_assert_uint_eq(batch->ready.rows, rows);
    for (uint32_t r = 0; r < options->batch; r++) {
        if (r >= rows) {
            ck_assert_int_eq(batch->index[r], -1);
            ck_assert_int_eq(batch->valid[r], 0);
            continue;
        }
        struct plan_place place = plan_at(plan, positions[r] % steps->records);
        struct dataset_record record;
        dataset_record(data->dataset, place.shard, place.record, &record);
        ck_assert_int_eq(batch->index[r], (int64_t)record.id);
        ck_assert(!batch->valid[r] || positions[r] < steps->records);
        if (batch->valid[r])
            ck_assert_int_eq(batch->label[r], atoi(record.key + 1));
        valid += batch->valid[r];
    }
    ck_assert_uint_eq(batch->ready.valid, valid);
}

void rig_check_order(const struct rig *rig, const struct feed_data *data, uint32_t from,
                     struct feed_place place)
{
    const struct rig_options *options = &rig->options;
    struct recipe recipe = {.spec = &data->spec,
                            .dataset = data->dataset,
                            .rank = options->rank,
                            .world = options->world,
                            .batch = options->batch,
                            .start_epoch = options->start_epoch,
                            .start_position = options->start_position};
    struct plan_source source = recipe_source(data->dataset);
    struct plan_settings settings = {11, data->spec.shuffle, data->spec.lanes};
    struct plan *plan = NULL;
    uint64_t planned = UINT64_MAX;
    for (uint32_t b = from; b < rig->nbatches; b++) {
        struct steps steps = recipe_steps(&recipe, place.epoch);
        while (place.step >= steps_of_rank(&steps, options->rank)) {
            place = (struct feed_place){place.epoch + 1, 0};
            steps = recipe_steps(&recipe, place.epoch);
        }
        const struct rig_batch *batch = &rig->batches[b];
        ck_assert_uint_eq(batch->ready.place.epoch, place.epoch);
        ck_assert_uint_eq(batch->ready.place.step, place.step);
        if (planned != place.epoch) {
            plan_free(plan);
            plan = plan_new(&source, &settings, place.epoch);
            planned = place.epoch;
        }
        check_batch(batch, data, plan, &steps, options);
        place.step++;
    }
    plan_free(plan);
}
