#include "store/steps.h"

#include <errno.h>
#include <inttypes.h>

#include "base/mem.h"
#include "base/plural.h"
#include "store/plan.h"

/* Ranks times windows that steps_lane_factor looks at. */
#define FACTOR_WORK (1U << 22)

/* The rows of one global batch, sorted by lane. Each lane has quotient of them, and those of the
 * circular range of `more` lanes from lane `origin` on have one more. */
struct window {
    uint64_t first; /* position */
    uint64_t rows;
    uint64_t quotient;
    uint32_t lanes;
    uint32_t origin; /* lane of the first position */
    uint32_t more;
    uint32_t wrapped; /* of more, those from lane 0 on */
};

static uint64_t rows_of_world(const struct steps *steps)
{
    return (uint64_t)steps->world * steps->batch;
}

static struct window window_at(uint64_t first, uint64_t rows, uint32_t lanes)
{
    struct window window = {
        first, rows, rows / lanes, lanes, (uint32_t)(first % lanes), (uint32_t)(rows % lanes)};
    uint32_t straight = lanes - window.origin;
    window.wrapped = window.more > straight ? window.more - straight : 0;
    return window;
}

static struct window window_of(const struct steps *steps, uint64_t t)
{
    return window_at(steps->start + t * rows_of_world(steps), steps_rows(steps, t), steps->lanes);
}

/* Rows of all lanes before this one. */
static uint64_t rows_before(const struct window *window, uint32_t lane)
{
    uint64_t more = lane < window->wrapped ? lane : window->wrapped;
    uint32_t straight = window->more - window->wrapped;
    if (lane > window->origin)
        more += lane - window->origin < straight ? lane - window->origin : straight;
    return window->quotient * lane + more;
}

/* The lanes fall into four ranges of equal rows a lane: wrapped, none, straight, none. */
static uint32_t lane_of_row(const struct window *window, uint64_t row)
{
    uint64_t q = window->quotient;
    uint32_t straight = window->more - window->wrapped;
    const struct {
        uint32_t first, lanes;
        uint64_t rows;
    } ranges[] = {
        {0, window->wrapped, q + 1},
        {window->wrapped, window->origin - window->wrapped, q},
        {window->origin, straight, q + 1},
    };
    for (int i = 0; i < 3; i++) {
        uint64_t rows = ranges[i].lanes * ranges[i].rows;
        if (row < rows)
            return ranges[i].first + (uint32_t)(row / ranges[i].rows);
        row -= rows;
    }
    return window->origin + straight + (uint32_t)(row / q);
}

static uint64_t position_of_row(const struct window *window, uint64_t row)
{
    uint32_t lane = lane_of_row(window, row);
    uint32_t ahead = lane - window->origin + (lane < window->origin ? window->lanes : 0);
    return window->first + ahead + (row - rows_before(window, lane)) * window->lanes;
}

static uint64_t row_of_position(const struct window *window, uint64_t position)
{
    uint32_t lane = (uint32_t)(position % window->lanes);
    return rows_before(window, lane) + (position - window->first) / window->lanes;
}

/* First row of the rank: ceil(rank * rows / world). */
static uint64_t first_row(uint64_t rows, uint32_t world, uint32_t rank)
{
    return (uint64_t)(((unsigned __int128)rank * rows + world - 1) / world);
}

const char *tail_name(enum tail tail)
{
    static const char *const names[] = {"wrap", "drop", "partial"};
    return names[tail];
}

uint64_t steps_total(const struct steps *steps)
{
    uint64_t left = steps->records > steps->start ? steps->records - steps->start : 0;
    uint64_t rows = rows_of_world(steps);
    return left / rows + (steps->tail != TAIL_DROP && left % rows != 0);
}

uint64_t steps_rows(const struct steps *steps, uint64_t t)
{
    uint64_t rows = rows_of_world(steps);
    if (steps->tail != TAIL_PARTIAL)
        return rows;
    uint64_t left = steps->records - steps->start - t * rows;
    return left < rows ? left : rows;
}

uint64_t steps_of_rank(const struct steps *steps, uint32_t rank)
{
    uint64_t total = steps_total(steps);
    if (total == 0)
        return 0;
    uint64_t rows = steps_rows(steps, total - 1);
    bool empty = first_row(rows, steps->world, rank) == first_row(rows, steps->world, rank + 1);
    return total - empty;
}

int steps_check(const struct steps *steps, struct error *err)
{
    if (steps->world == 0 || steps->batch == 0 || steps->lanes == 0)
        return error_set(err, -EINVAL,
                         "world %" PRIu32 ", batch %" PRIu32 ", lanes %" PRIu32
                         ": each must be at least 1",
                         steps->world, steps->batch, steps->lanes);
    if (steps->start > steps->records)
        return error_set(err, -EINVAL,
                         "start position %" PRIu64 " lies past the %" PRIu64
                         " record%s of an epoch",
                         steps->start, steps->records, plural(steps->records));
    if (steps->start > 0 || steps_total(steps) > 0)
        return 0;
    return error_set(err, -EINVAL,
                     "an epoch has no step: %" PRIu64 " record%s, but world %" PRIu32
                     " x batch %" PRIu32 " = %" PRIu64
                     " rows a step and tail %s; take a smaller batch, more records or tail wrap",
                     steps->records, plural(steps->records), steps->world, steps->batch,
                     rows_of_world(steps), tail_name(steps->tail));
}

uint32_t steps_positions(const struct steps *steps, uint64_t t, uint32_t rank, uint64_t *out)
{
    struct window window = window_of(steps, t);
    uint64_t row = first_row(window.rows, steps->world, rank);
    uint32_t count = (uint32_t)(first_row(window.rows, steps->world, rank + 1) - row);
    for (uint32_t i = 0; i < count; i++)
        out[i] = position_of_row(&window, row + i);
    return count;
}

struct steps_row steps_row_of(const struct steps *steps, uint64_t i)
{
    uint64_t step = (i - steps->start) / rows_of_world(steps);
    struct window window = window_of(steps, step);
    uint64_t row = row_of_position(&window, i);
    uint32_t rank = (uint32_t)((unsigned __int128)row * steps->world / window.rows);
    return (struct steps_row){step, rank,
                              (uint32_t)(row - first_row(window.rows, steps->world, rank))};
}

/* Windows after which the lanes of a batch repeat. */
static uint32_t period(const struct steps *steps)
{
    uint64_t a = rows_of_world(steps);
    uint64_t b = steps->lanes;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return (uint32_t)(steps->lanes / a);
}

/* edges[l] counts the ranges that begin at lane l, less those that ended before it. */
static void add_range(int64_t *edges, uint32_t first, uint32_t end)
{
    edges[first]++;
    edges[end]--;
}

static void add_rank_lanes(const struct steps *steps, const struct window *window, uint32_t rank,
                           int64_t *edges)
{
    uint64_t row = (uint64_t)rank * steps->batch;
    uint32_t first = lane_of_row(window, row);
    uint32_t end = lane_of_row(window, row + steps->batch - 1) + 1;
    bool gap = window->quotient == 0 && first < window->wrapped && end > window->wrapped;
    if (gap)
        add_range(edges, window->origin, end);
    add_range(edges, first, gap ? window->wrapped : end);
}

uint32_t steps_lanes_touched(const struct steps *steps, uint32_t rank)
{
    cleanup_free int64_t *edges = mem_array((size_t)steps->lanes + 1, sizeof *edges);
    uint64_t rows = rows_of_world(steps);
    uint32_t windows = period(steps);
    for (uint32_t t = 0; t < windows; t++) {
        struct window window = window_at(steps->start + t * rows, rows, steps->lanes);
        add_rank_lanes(steps, &window, rank, edges);
    }
    uint32_t touched = 0;
    int64_t ranges = 0;
    for (uint32_t lane = 0; lane < steps->lanes; lane++) {
        ranges += edges[lane];
        touched += ranges > 0;
    }
    return touched;
}

/* Exactly lanes / world lanes for each rank: either each window holds whole lanes' shares for each
 * rank, or windows tile the circle of lanes, each lane in one of them. */
static bool aligned(const struct steps *steps)
{
    uint64_t rows = rows_of_world(steps);
    return steps->world == 1 || steps->lanes % rows == 0 ||
           (rows % steps->lanes == 0 && steps->lanes % steps->world == 0);
}

/* The aligned value nearest to the present one; value is a member of trial. */
static uint32_t nearest(const struct steps *trial, uint32_t *value, uint32_t most)
{
    uint32_t present = *value;
    for (uint32_t distance = 0; distance <= PLAN_LANES_MAX; distance++) {
        *value = present - distance;
        if (present > distance && aligned(trial))
            return *value;
        *value = present + distance;
        if (most - present >= distance && aligned(trial))
            return *value;
    }
    return 0;
}

static uint32_t most_lanes_touched(const struct steps *steps)
{
    uint32_t ranks = FACTOR_WORK / (period(steps) + steps->lanes);
    uint32_t stride = (steps->world + ranks - 1) / ranks;
    uint32_t most = 0;
    for (uint64_t rank = 0; rank < steps->world; rank += stride) {
        uint32_t touched = steps_lanes_touched(steps, (uint32_t)rank);
        if (touched > most)
            most = touched;
    }
    return most;
}

double steps_lane_factor(const struct steps *steps, uint32_t *better_lanes, uint32_t *better_batch)
{
    struct steps trial = *steps;
    *better_lanes = nearest(&trial, &trial.lanes, PLAN_LANES_MAX);
    trial = *steps;
    *better_batch = nearest(&trial, &trial.batch, UINT32_MAX);
    if (aligned(steps))
        return 1;
    return (double)most_lanes_touched(steps) * steps->world / steps->lanes;
}
