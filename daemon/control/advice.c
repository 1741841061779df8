#include "control/advice.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "proto/limits.h"

/* Of docs/performance.md: "The whole way" (photographs of 107 kB into 224 x 224, one core), "One
 * picture" (decoder) and "Hand-off". */
#define PHOTOGRAPH_BYTES 107000.0
#define SMALL_BYTES 28000.0 /* the same with a short side of 256 */
#define OUTPUT_SIDE 224.0
#define SMALL_SIDE 256.0
#define SMALL_GAIN 3.03
#define DECODER_GAIN 2.37
static const double fast_gain[] = {1.08, 1.06}, marks_gain[] = {1.16, 1.26}; /* eval, train */

#define NEARLY 0.9          /* of that size a photograph still counts as one of these */
#define SMALL_BATCH 1048576 /* bytes below which the hand-off of a batch counts */
#define WORTH_IT 1.02
#define WAITS_LITTLE 0.05
#define THROTTLED_MUCH 0.05
#define SIZE_TEXT 24
#define RATES_TEXT 96

/* The list in the making. */
struct advising {
    const struct advice_input *in;
    struct remedy *list;
    uint32_t count;
    double now;     /* samples/s of what limits */
    double ceiling; /* what the next limit lets through; 0 = not known */
};

static const char *size_words(double bytes, char text[SIZE_TEXT])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (bytes /= 1e3; bytes >= 1e3 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1e3;
    snprintf(text, SIZE_TEXT, bytes < 10 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

/* What a gain comes to once the next limit is reached; INFINITY: whatever that is. */
static double reached(const struct advising *it, double gain)
{
    double most = it->ceiling > 0 ? it->ceiling / it->now : gain;
    return isfinite(gain) ? fmin(gain, most) : it->ceiling > 0 ? most : 1;
}

static const char *rates_words(const struct advising *it, double gain, char text[RATES_TEXT])
{
    char then[VERDICT_RATE_MAX], now[VERDICT_RATE_MAX];
    if (!isfinite(gain) && it->ceiling <= 0)
        snprintf(text, RATES_TEXT, "by how much is not known");
    else
        snprintf(text, RATES_TEXT, "%s%s instead of %s", isfinite(gain) ? "" : "up to ",
                 verdict_rate(it->now * reached(it, gain), then), verdict_rate(it->now, now));
    return text;
}

/* Keeps the list sorted: best first, of equals the one that was told first. */
static void __attribute__((format(printf, 3, 4)))
add(struct advising *it, double gain, const char *format, ...)
{
    struct remedy remedy = {.gain = reached(it, gain)};
    va_list args;
    va_start(args, format);
    vsnprintf(remedy.text, sizeof remedy.text, format, args);
    va_end(args);
    if (it->count == ADVICE_MAX || (it->ceiling > 0 && remedy.gain < WORTH_IT))
        return;
    uint32_t place = it->count++;
    for (; place > 0 && it->list[place - 1].gain < remedy.gain; place--)
        it->list[place] = it->list[place - 1];
    it->list[place] = remedy;
}

static bool has_op(const struct transform *transform, enum transform_kind kind)
{
    for (uint32_t i = 0; transform && i < transform->count; i++)
        if (transform->ops[i].kind == kind)
            return true;
    return false;
}

static bool is_train(const struct advice_input *in)
{
    return has_op(in->transform, OP_RANDOM_RESIZED_CROP);
}

static bool is_resized(const struct advice_input *in)
{
    return is_train(in) || has_op(in->transform, OP_RESIZE);
}

static void more_workers(struct advising *it)
{
    const struct verdict_input *f = &it->in->figures;
    char rates[RATES_TEXT];
    if (verdict_user_has_all(f)) {
        double gain = (double)f->workers / f->user_threads;
        add(it, gain,
            "threads: %u instead of %u for its user (users in the configuration): %s; cost: "
            "workers "
            "that other users would have",
            f->workers, f->user_threads, rates_words(it, gain, rates));
        return;
    }
    uint32_t wanted = it->ceiling > 0 ? verdict_workers(f, it->ceiling) : f->cpus;
    uint32_t most = f->cpus > f->workers ? f->cpus : f->workers;
    uint32_t workers = wanted < most || !f->cpus ? wanted : most;
    if (workers > f->workers) {
        uint32_t more = workers - f->workers;
        double gain = 1 + more * f->decode_per_worker / it->now;
        add(it, gain, "workers: %u instead of %u: %s; cost: %u CPU%s of the %u of this node",
            workers, f->workers, rates_words(it, gain, rates), more, plural(more), f->cpus);
    }
    if (f->cpus && f->demand > 0 && wanted > most)
        add(it, it->ceiling / it->now,
            "more CPUs: %u workers would do, this node gives %u: %s; cost: a larger share of the "
            "node, or another one",
            wanted, f->cpus, rates_words(it, it->ceiling / it->now, rates));
}

static void no_throttling(struct advising *it)
{
    double share = fmin(it->in->figures.throttled_share, 0.99), gain = 1 / (1 - share);
    char rates[RATES_TEXT];
    if (share >= THROTTLED_MUCH)
        add(it, gain,
            "a higher CPU limit of the cgroup, which holds the daemon %.0f %% of the time: %s; "
            "cost: CPU time of the node",
            share * 100, rates_words(it, gain, rates));
}

static void other_decoding(struct advising *it)
{
    const struct advice_input *in = it->in;
    double fast = fast_gain[is_train(in)], marks = marks_gain[is_train(in)];
    char rates[RATES_TEXT];
    if (!is_resized(in))
        return;
    if (in->transform->turbo && is_train(in))
        add(it, DECODER_GAIN,
            "decoder: auto: %s (%.1f times, as measured for photographs of 107 kB); cost: none, "
            "pixels are the same",
            rates_words(it, DECODER_GAIN, rates), DECODER_GAIN);
    if (in->transform->turbo)
        return;
    if (!in->marks)
        add(it, marks,
            "cache: { marks: on }: %s from the second epoch on (%.2f times, as measured); cost: "
            "1.4 %% of the bytes of the pictures in the cache directory",
            rates_words(it, marks, rates), marks);
    if (!in->transform->fast)
        add(it, fast,
            "pixels: fast: %s (%.2f times, as measured); cost: pixels differ by 0.3 levels of 255 "
            "on average",
            rates_words(it, fast, rates), fast);
}

/* Large pictures for small outputs: gain by what limits, its decoding or its bytes. */
static void smaller_pictures(struct advising *it, double gain)
{
    const struct advice_input *in = it->in;
    char rates[RATES_TEXT], size[SIZE_TEXT];
    if (!is_resized(in) || !in->transform->height)
        return;
    double scale = in->transform->height / OUTPUT_SIDE;
    double area = scale * in->transform->width / OUTPUT_SIDE;
    if ((double)in->record_bytes >= NEARLY * PHOTOGRAPH_BYTES * area)
        add(it, gain,
            "pictures made smaller once, to a short side of %.0f at quality 90 (they have %s): %s "
            "(%.1f times, as measured from 107 kB to 28 kB for 224 x 224); cost: other pixels, and "
            "the set once more on disk",
            SMALL_SIDE * scale, size_words((double)in->record_bytes, size),
            rates_words(it, gain, rates), gain);
}

static void nearer_storage(struct advising *it)
{
    const struct advice_input *in = it->in;
    char rates[RATES_TEXT], size[SIZE_TEXT];
    rates_words(it, INFINITY, rates);
    size_words((double)in->data_bytes, size);
    if (!in->figures.packed)
        add(it, INFINITY, "shards instead of a folder (dataload-pack folder): %s; cost: %s of disk",
            rates, size);
    add(it, INFINITY, "a local copy: %s; cost: %s of local disk", rates, size);
}

static void less_to_copy(struct advising *it)
{
    const struct advice_input *in = it->in;
    char rates[RATES_TEXT];
    if (in->transform && pixels_float(in->transform->pixels)) {
        double gain = (double)pixels_size(in->transform->pixels);
        add(it, gain,
            "output: uint8, 1/%.0f of the bytes: up to %s; cost: the trainer converts and "
            "normalizes on its GPU",
            gain, rates_words(it, gain, rates));
    }
    if (in->slot_bytes && in->slot_bytes < SMALL_BATCH)
        add(it, 2,
            "batch: twice the rows: up to %s, as each hand-off takes 16 to 25 us whatever its "
            "size; cost: the trainer's steps are larger",
            rates_words(it, 2, rates));
}

static void more_slots(struct advising *it)
{
    const struct advice_input *in = it->in;
    char rates[RATES_TEXT], size[SIZE_TEXT];
    uint32_t slots = in->slots * 2 < DLP_SLOTS_MAX ? in->slots * 2 : DLP_SLOTS_MAX;
    if (in->figures.wait_share < WAITS_LITTLE || in->figures.slow_pid || slots <= in->slots)
        return;
    size_words((double)(in->slot_bytes * (slots - in->slots)), size);
    add(it, INFINITY,
        "slots: %u instead of %u, as batches come in bursts: %s; cost: %s of memory a trainer",
        slots, in->slots, rates_words(it, INFINITY, rates), size);
}

static void more_memory(struct advising *it)
{
    const struct advice_input *in = it->in;
    char rates[RATES_TEXT], size[SIZE_TEXT];
    if (!in->figures.cause || strcmp(in->figures.cause, "memory_limit") != 0)
        return;
    rates_words(it, INFINITY, rates);
    add(it, INFINITY, "memory: more than %s: %s; cost: that memory",
        size_words((double)in->memory, size), rates);
    if (in->shuffle)
        add(it, INFINITY,
            "shuffle: fewer than %" PRIu64 " records: %s; cost: batches are mixed less, which "
            "dataloadctl mix tells",
            in->shuffle, rates);
}

/* What is left between this limit and the next one, or the trainer. */
static void find_room(struct advising *it)
{
    const struct verdict_input *f = &it->in->figures;
    enum verdict_stage stage = it->in->stage;
    double own = 0, next;
    bool is_stage = stage != VERDICT_UNKNOWN && stage != VERDICT_TRAINER;
    verdict_narrowest(f, is_stage ? stage : VERDICT_UNKNOWN, &next);
    if (stage == VERDICT_STORAGE)
        own = f->read_limit;
    else if (stage == VERDICT_DECODE)
        own = f->decode_limit;
    else if (stage == VERDICT_COPY)
        own = f->copy_limit;
    it->now = own > 0 ? own : f->samples_per_s;
    it->ceiling = next;
    if (f->demand > 0 && (next <= 0 || f->demand < next))
        it->ceiling = f->demand;
}

uint32_t advice(const struct advice_input *in, struct remedy list[ADVICE_MAX])
{
    struct advising it = {.in = in, .list = list};
    find_room(&it);
    if (!(in->figures.window_s >= VERDICT_WINDOW) || !(it.now > 0) || !isfinite(it.now))
        return 0;
    switch (in->stage) {
    case VERDICT_DECODE:
        more_workers(&it);
        no_throttling(&it);
        other_decoding(&it);
        smaller_pictures(&it, SMALL_GAIN);
        break;
    case VERDICT_STORAGE:
        nearer_storage(&it);
        smaller_pictures(&it, PHOTOGRAPH_BYTES / SMALL_BYTES);
        break;
    case VERDICT_COPY:
        less_to_copy(&it);
        break;
    case VERDICT_TRAINER:
        more_slots(&it);
        break;
    case VERDICT_UNKNOWN:
        more_memory(&it);
        break;
    }
    return it.count;
}
