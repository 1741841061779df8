#include "feed/mix_look.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "feed/mix.h"
#include "feed/recipe.h"
#include "store/plan_cursor.h"

#define MOST 0.9 /* of a batch's rows */

struct sums {
    double batch, batch_shuffled;
};

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static void sort(int64_t *list, uint64_t count)
{
    qsort(list, count, sizeof *list, compare);
}

static uint64_t number_of(const struct mix_look *look, struct plan_place place)
{
    return look->before[place.shard] + place.record;
}

/* Good labels of the places to out; returns how many. */
static uint64_t classes_of(const struct mix_look *look, const struct plan_place *places,
                           uint64_t count, int64_t *out)
{
    uint64_t good = 0;
    for (uint64_t i = 0; i < count; i++)
        good += labels_get(look->labels, places[i], &out[good]);
    return good;
}

static void regions_of(const struct mix_look *look, const struct plan_place *places, uint64_t count,
                       int64_t *out)
{
    uint64_t records = look->question->steps.records;
    for (uint64_t i = 0; i < count; i++)
        out[i] = (int64_t)((unsigned __int128)number_of(look, places[i]) * look->regions / records);
}

static void add_classes(const struct mix_look *look, const struct plan_place *places,
                        uint64_t count, int64_t *list, struct sums *sums)
{
    uint64_t good = classes_of(look, places, count, list);
    sort(list, good);
    sums->batch += mix_distance(list, good, look->set, look->nset);
    sums->batch_shuffled += mix_expected(look->counts, look->nclasses,
                                         (double)look->question->steps.records, (double)good);
}

/* Whether the mean over the batches, or all of them together, are too far off. */
static void conclude(struct mix_measure *out, const struct sums *sums, uint64_t batches,
                     uint64_t rows)
{
    out->batch = sums->batch / (double)batches;
    out->batch_shuffled = sums->batch_shuffled / (double)batches;
    out->poor = out->batch > mix_bound(out->batch_shuffled, (double)rows) + MIX_SLACK ||
                out->all > mix_bound(out->all_shuffled, (double)rows) + MIX_SLACK;
}

static uint64_t count_in(const int64_t *sorted, uint64_t count, int64_t class)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (sorted[middle] < class)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t end = low;
    while (end < count && sorted[end] == class)
        end++;
    return end - low;
}

static double difference(const struct mix_class *class)
{
    return fabs(class->share - class->share_batches);
}

/* Keeps the classes that differ most. */
static void show_class(struct mix_answer *out, struct mix_class class)
{
    uint32_t least = 0;
    if (out->nmix < MIX_CLASSES_SHOWN) {
        out->mix[out->nmix++] = class;
        return;
    }
    for (uint32_t i = 1; i < out->nmix; i++)
        if (difference(&out->mix[i]) < difference(&out->mix[least]))
            least = i;
    if (difference(&class) > difference(&out->mix[least])) {
        memmove(&out->mix[least], &out->mix[least + 1], (out->nmix - least - 1) * sizeof *out->mix);
        out->mix[out->nmix - 1] = class;
    }
}

static void show_classes(const struct mix_look *look, const int64_t *all, uint64_t count,
                         struct mix_answer *out)
{
    out->nmix = 0;
    for (uint64_t i = 0; i < look->nset && count; i++) {
        if (i > 0 && look->set[i] == look->set[i - 1])
            continue;
        uint64_t in_set = 1;
        while (i + in_set < look->nset && look->set[i + in_set] == look->set[i])
            in_set++;
        show_class(out,
                   (struct mix_class){look->set[i], (double)in_set / (double)look->nset,
                                      (double)count_in(all, count, look->set[i]) / (double)count});
    }
}

static uint64_t rows_of_batch(const struct mix_look *look, uint64_t b)
{
    uint64_t left = look->rows - b * look->batch_rows;
    return left < look->batch_rows ? left : look->batch_rows;
}

static void look_at_classes(const struct mix_look *look, const struct plan_place *places,
                            int64_t *list, struct mix_answer *out)
{
    struct sums sums = {0};
    labels_read(look->labels, places, look->rows, look->question->cancel, look->question->done);
    for (uint64_t b = 0; b < look->batches; b++)
        add_classes(look, &places[b * look->batch_rows], rows_of_batch(look, b), list, &sums);
    uint64_t good = classes_of(look, places, look->rows, list);
    sort(list, good);
    out->unlabelled = look->rows - good;
    out->by_class.all = mix_distance(list, good, look->set, look->nset);
    out->by_class.all_shuffled = mix_expected(look->counts, look->nclasses,
                                              (double)look->question->steps.records, (double)good);
    conclude(&out->by_class, &sums, look->batches, good);
    show_classes(look, list, good, out);
}

/* Share of the regions that holds MOST of the rows; `list` is sorted. */
static double narrowness(const struct mix_look *look, const int64_t *list, uint64_t count)
{
    int64_t sizes[MIX_REGIONS_MAX];
    uint64_t held = 0;
    uint32_t used = 0;
    for (uint32_t r = 0; r < look->regions; r++)
        sizes[r] = (int64_t)count_in(list, count, r);
    sort(sizes, look->regions);
    while (used < look->regions && (double)held < MOST * (double)count)
        held += (uint64_t)sizes[look->regions - ++used];
    return (double)used / look->regions;
}

static void look_at_regions(const struct mix_look *look, const struct plan_place *places,
                            int64_t *list, struct mix_answer *out)
{
    int64_t every[MIX_REGIONS_MAX];
    double counts[MIX_REGIONS_MAX], records = (double)look->question->steps.records;
    struct sums sums = {0};
    for (uint32_t r = 0; r < look->regions; r++) {
        every[r] = r;
        counts[r] = records / look->regions;
    }
    for (uint64_t b = 0; b < look->batches; b++) {
        uint64_t count = rows_of_batch(look, b);
        regions_of(look, &places[b * look->batch_rows], count, list);
        sort(list, count);
        sums.batch += mix_distance(list, count, every, look->regions);
        sums.batch_shuffled += mix_expected(counts, look->regions, records, (double)count);
        out->narrow += narrowness(look, list, count) / (double)look->batches;
    }
    regions_of(look, places, look->rows, list);
    sort(list, look->rows);
    out->by_region.all = mix_distance(list, look->rows, every, look->regions);
    out->by_region.all_shuffled = mix_expected(counts, look->regions, records, (double)look->rows);
    conclude(&out->by_region, &sums, look->batches, look->rows);
}

static void look_at_neighbours(const struct mix_look *look, const struct plan_place *places,
                               int64_t *list, struct mix_answer *out)
{
    for (uint64_t b = 0; b < look->batches; b++) {
        uint64_t count = rows_of_batch(look, b);
        for (uint64_t i = 0; i < count; i++)
            list[i] = (int64_t)number_of(look, places[b * look->batch_rows + i]);
        sort(list, count);
        double share = (double)count / (double)look->rows;
        out->neighbours += share * mix_neighbours((const uint64_t *)list, count);
        out->neighbours_shuffled +=
            share * mix_neighbours_expected((double)look->question->steps.records, (double)count);
    }
}

/* The places of the rows looked at. */
static int find_places(const struct mix_look *look, const struct plan_settings *order,
                       struct plan_place *places)
{
    struct plan_source source = recipe_source(look->question->dataset);
    struct plan *plan = plan_new(&source, order, look->question->epoch);
    struct plan_cursor *cursor = plan ? plan_cursor_new(plan) : NULL;
    if (cursor)
        plan_cursor_window(cursor, look->question->steps.start, look->rows, places);
    int rc = cursor ? 0 : -ENOMEM;
    plan_cursor_free(cursor);
    plan_free(plan);
    return rc;
}

int mix_look_at(const struct mix_look *look, const struct plan_settings *order,
                struct mix_answer *out)
{
    cleanup_free struct plan_place *places = mem_array(look->rows, sizeof *places);
    cleanup_free int64_t *list = mem_array(look->rows + 1, sizeof *list);
    if (find_places(look, order, places))
        return -ENOMEM;
    *out = (struct mix_answer){.records = look->question->steps.records,
                               .batches = look->batches,
                               .rows = look->rows,
                               .labels = look->nset,
                               .classes = look->nclasses,
                               .regions = look->regions};
    if (look->labels)
        look_at_classes(look, places, list, out);
    look_at_regions(look, places, list, out);
    look_at_neighbours(look, places, list, out);
    return 0;
}
