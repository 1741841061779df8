#include "feed/mix_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/philox.h"
#include "feed/feed.h"
#include "feed/mix_look.h"

#define ROWS_A_REGION 2 /* of a batch, at least */
#define NARROW 0.5      /* share of the storage; less is called a narrow region */
#define MB 1e6

static void add_note(struct mix_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_note(struct mix_answer *answer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (answer->nnotes < MIX_NOTES_MAX)
        vsnprintf(answer->notes[answer->nnotes++], MIX_NOTE_MAX, format, args);
    va_end(args);
}

static void count_shards(struct mix_look *look)
{
    const struct dataset *dataset = look->question->dataset;
    uint32_t shards = dataset_shards(dataset);
    look->before = mem_array((size_t)shards + 1, sizeof *look->before);
    for (uint32_t s = 0; s < shards; s++)
        look->before[s + 1] = look->before[s] + dataset_shard_records(dataset, s);
}

/* The last shard that begins at or before the number: those without records lie before it. */
static struct plan_place place_of(const struct mix_look *look, uint64_t number)
{
    uint32_t low = 0, high = dataset_shards(look->question->dataset);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (look->before[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return (struct plan_place){low, number - look->before[low]};
}

/* All records, or one drawn from each of MIX_ROWS_MAX equal parts. */
static struct plan_place *choose_set(const struct mix_look *look, uint64_t *count)
{
    uint64_t records = look->question->steps.records;
    struct philox stream;
    philox_start(&stream, look->question->order.seed, PHILOX_MIX, 0, 0, 0);
    *count = records < MIX_ROWS_MAX ? records : MIX_ROWS_MAX;
    struct plan_place *places = mem_array(*count, sizeof *places);
    for (uint64_t i = 0; i < *count; i++) {
        uint64_t first = (uint64_t)((unsigned __int128)records * i / *count);
        uint64_t end = (uint64_t)((unsigned __int128)records * (i + 1) / *count);
        places[i] = place_of(look, first + philox_below(&stream, end - first));
    }
    return places;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static void count_classes(struct mix_look *look)
{
    double scale = (double)look->question->steps.records / (double)look->nset;
    look->counts = mem_array(look->nset + 1, sizeof *look->counts);
    for (uint64_t i = 0; i < look->nset; i++) {
        if (i == 0 || look->set[i] != look->set[i - 1])
            look->nclasses++;
        look->counts[look->nclasses - 1] += scale;
    }
}

/* Classes of the whole set; returns the number of records without. */
static uint64_t learn_classes(struct mix_look *look)
{
    uint64_t count;
    cleanup_free struct plan_place *places = choose_set(look, &count);
    labels_read(look->labels, places, count, look->question->cancel, look->question->done);
    look->set = mem_array(count, sizeof *look->set);
    for (uint64_t i = 0; i < count; i++)
        look->nset += labels_get(look->labels, places[i], &look->set[look->nset]);
    qsort(look->set, look->nset, sizeof *look->set, compare);
    count_classes(look);
    return count - look->nset;
}

static void measure_batches(struct mix_look *look)
{
    const struct steps *steps = &look->question->steps;
    uint64_t records = steps->records - steps->start, rows = (uint64_t)steps->world * steps->batch;
    look->batch_rows = rows < MIX_ROWS_MAX ? rows : MIX_ROWS_MAX;
    if (look->batch_rows > records)
        look->batch_rows = records;
    if (records == 0)
        return;
    look->batches = steps_total(steps);
    if (look->batches > MIX_BATCHES)
        look->batches = MIX_BATCHES;
    if (look->batches > MIX_ROWS_MAX / look->batch_rows)
        look->batches = MIX_ROWS_MAX / look->batch_rows;
    look->rows = look->batches * look->batch_rows;
    if (look->rows > records)
        look->rows = records;
    uint64_t regions = look->batch_rows / ROWS_A_REGION;
    look->regions = regions > MIX_REGIONS_MAX ? MIX_REGIONS_MAX : regions ? (uint32_t)regions : 1;
}

static void describe(const struct mix_answer *from, struct mix_answer *out)
{
    const struct mix_measure *class = &from->by_class, *region = &from->by_region;
    if (class->poor)
        add_note(out,
                 "the first batches (%" PRIu64 ") do not hold the class mix of the whole set: "
                 "distance %.2f, after a true shuffle %.2f; one batch %.2f, after a true shuffle "
                 "%.2f",
                 from->batches, class->all, class->all_shuffled, class->batch,
                 class->batch_shuffled);
    if (region->poor)
        add_note(out,
                 "batches %s: nine tenths of the rows of a batch lie in %.0f %% of the storage%s",
                 from->narrow < NARROW ? "come from one narrow region"
                                       : "are spread unevenly over the storage",
                 100 * from->narrow,
                 class->poor    ? ""
                 : from->labels ? "; their class mix is that of the whole set all the same"
                                : "; where storage was shuffled when it was written, this is fine");
}

static double shuffle_mb(const struct mix_question *question, uint64_t shuffle)
{
    struct feed_spec spec = *question->spec;
    struct feed_memory memory = {0};
    struct error err;
    spec.shuffle = shuffle;
    feed_memory(&spec, question->dataset, question->steps.world, question->steps.batch, spec.slots,
                &memory, &err);
    return (double)memory.shuffle / MB;
}

/* The first power of two times the present shuffle that mixes well enough, to *out; 0 = none does.
 * False: it cannot be told, for want of memory, time or labels (LABELS_MAX). */
static bool find_shuffle(const struct mix_look *look, struct mix_answer *trial, uint64_t *out)
{
    struct plan_settings order = look->question->order;
    uint64_t records = look->question->steps.records;
    for (*out = 0; !*out && order.shuffle < records;) {
        order.shuffle = order.shuffle ? 2 * order.shuffle : look->batch_rows;
        if (order.shuffle > records)
            order.shuffle = records;
        if (*look->question->cancel || mix_look_at(look, &order, trial) ||
            2 * trial->unlabelled > trial->rows)
            return false;
        if (!(look->labels ? trial->by_class.poor : trial->by_region.poor))
            *out = order.shuffle;
    }
    return true;
}

static void advise(const struct mix_look *look, struct mix_answer *out)
{
    const struct mix_question *question = look->question;
    cleanup_free struct mix_answer *trial = mem_new(sizeof *trial);
    uint64_t shuffle;
    bool told = find_shuffle(look, trial, &shuffle);
    double now = shuffle_mb(question, question->order.shuffle);
    if (!told)
        add_note(out, "which shuffle mends it cannot be told: %s",
                 look->labels ? "too few labels could be read" : "memory is short");
    else if (shuffle)
        add_note(out,
                 "shuffle: %" PRIu64 " mends it (a batch then differs by %.2f): its buffer takes "
                 "%.1f MB of memory for each trainer (world %" PRIu32 ") instead of %.1f MB",
                 shuffle, look->labels ? trial->by_class.batch : trial->by_region.batch,
                 shuffle_mb(question, shuffle), question->steps.world, now);
    else
        add_note(out, "no larger shuffle mends it");
    add_note(out,
             "without more memory: write the set anew with dataload-pack folder, which shuffles "
             "once, and keep shuffle: %" PRIu64 " (%.1f MB)",
             question->order.shuffle, now);
}

static bool is_poor(const struct mix_answer *answer)
{
    return answer->labels ? answer->by_class.poor : answer->by_region.poor;
}

static void look_done(struct mix_look *look)
{
    free(look->before);
    free(look->set);
    free(look->counts);
    labels_free(look->labels);
}

int mix_check(const struct mix_question *question, struct mix_answer *out, struct error *err)
{
    struct mix_look look = {.question = question};
    uint64_t unlabelled = 0;
    *out = (struct mix_answer){.records = question->steps.records};
    measure_batches(&look);
    if (look.rows == 0)
        return 0;
    count_shards(&look);
    look.labels = labels_new(question->spec, question->dataset);
    if (look.labels)
        unlabelled = learn_classes(&look);
    if (look.nset == 0) {
        labels_free(look.labels);
        look.labels = NULL;
    }
    int rc = mix_look_at(&look, &question->order, out);
    if (!rc) {
        out->unlabelled += unlabelled;
        describe(out, out);
        if (is_poor(out))
            advise(&look, out);
        if (out->labels && out->labels + unlabelled < out->records)
            add_note(out,
                     "the class mix of the whole set is that of %" PRIu64
                     " records drawn from all over it",
                     out->labels);
    }
    look_done(&look);
    if (!rc && *question->cancel)
        rc = -ECANCELED;
    return rc ? error_set(err, rc, "the mix cannot be reckoned: %s",
                          rc == -ENOMEM ? "memory is short" : "stopped")
              : 0;
}
