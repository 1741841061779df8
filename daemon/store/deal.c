#include "store/deal.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/philox.h"

struct deal {
    uint64_t seed;
    uint64_t epoch;
    uint32_t lanes;
};

static struct philox stream(const struct deal *deal, enum philox_purpose purpose, uint32_t lane,
                            uint64_t block)
{
    struct philox stream;
    philox_start(&stream, deal->seed, purpose, deal->epoch, lane, block);
    return stream;
}

/* Numbers 0 .. n - 1, permuted. */
static void permuted(struct philox stream, uint32_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = i;
    philox_permute(&stream, out, n);
}

struct weighed {
    uint64_t bytes;
    uint64_t records;
    uint32_t tie;
    uint32_t run;
};

static int by_mean_size(const void *a, const void *b)
{
    const struct weighed *x = a;
    const struct weighed *y = b;
    unsigned __int128 left = (unsigned __int128)x->bytes * y->records;
    unsigned __int128 right = (unsigned __int128)y->bytes * x->records;
    if (left != right)
        return left < right ? -1 : 1;
    return (x->tie > y->tie) - (x->tie < y->tie);
}

/* order: in, a permutation of the runs, which decides ties; out, the runs by mean record size. */
static int sort_runs(const struct runs *runs, uint32_t *order)
{
    cleanup_free struct weighed *table = malloc(((size_t)runs->count + 1) * sizeof *table);
    if (!table)
        return -1;
    for (uint32_t run = 0; run < runs->count; run++) {
        struct runs_span span = runs_span(runs, run);
        uint64_t bytes =
            runs->source.span_bytes(runs->source.context, span.shard, span.first, span.records);
        table[run] = (struct weighed){bytes, span.records, 0, run};
    }
    for (uint32_t i = 0; i < runs->count; i++)
        table[order[i]].tie = i;
    qsort(table, runs->count, sizeof *table, by_mean_size);
    for (uint32_t i = 0; i < runs->count; i++)
        order[i] = table[i].run;
    return 0;
}

/* Where the list of each lane begins in S (lanes + 1 places): every list has one run of each full
 * group, and the lists of the lanes in rest one more. */
static void place_lists(uint32_t *lists, uint32_t lanes, uint32_t groups, const uint32_t *rest,
                        uint32_t nrest)
{
    for (uint32_t lane = 0; lane < lanes; lane++)
        lists[lane + 1] = groups;
    for (uint32_t i = 0; i < nrest; i++)
        lists[rest[i] + 1]++;
    lists[0] = 0;
    for (uint32_t lane = 0; lane < lanes; lane++)
        lists[lane + 1] += lists[lane];
}

/* lists, hands: room for lanes + 1 and lanes numbers. */
static void deal_sorted(const struct deal *deal, const uint32_t *sorted, uint32_t count,
                        uint32_t *out, uint32_t *lists, uint32_t *hands)
{
    uint32_t groups = count / deal->lanes;
    uint32_t nrest = count % deal->lanes;
    permuted(stream(deal, PHILOX_REST, 0, 0), hands, deal->lanes);
    place_lists(lists, deal->lanes, groups, hands, nrest);
    for (uint32_t i = 0; i < nrest; i++)
        out[lists[hands[i]] + groups] = sorted[count - nrest + i];
    for (uint32_t group = 0; group < groups; group++) {
        permuted(stream(deal, PHILOX_DEAL, 0, group), hands, deal->lanes);
        for (uint32_t i = 0; i < deal->lanes; i++)
            out[lists[hands[i]] + group] = sorted[(size_t)group * deal->lanes + i];
    }
    for (uint32_t lane = 0; lane < deal->lanes; lane++) {
        struct philox of_lane = stream(deal, PHILOX_LIST, lane, 0);
        philox_permute(&of_lane, out + lists[lane], lists[lane + 1] - lists[lane]);
    }
}

uint32_t *deal_runs(const struct runs *runs, uint64_t seed, uint64_t epoch, uint32_t lanes)
{
    const struct deal deal = {seed, epoch, lanes};
    cleanup_free uint32_t *sorted = malloc(((size_t)runs->count + 1) * sizeof *sorted);
    if (!sorted)
        return NULL;
    permuted(stream(&deal, PHILOX_RUNS, 0, 0), sorted, runs->count);
    if (sort_runs(runs, sorted) < 0)
        return NULL;

    cleanup_free uint32_t *lists = malloc(((size_t)lanes + 1) * sizeof *lists);
    cleanup_free uint32_t *hands = malloc((size_t)lanes * sizeof *hands);
    uint32_t *out = malloc(((size_t)runs->count + 1) * sizeof *out);
    if (out && lists && hands)
        deal_sorted(&deal, sorted, runs->count, out, lists, hands);
    else
        mem_free_at(&out);
    return out;
}
