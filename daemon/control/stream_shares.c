#include "control/stream_shares.h"

#include <stdlib.h>

#include "base/mem.h"
#include "control/group.h"
#include "control/session.h"

/* Views in the order of user, job, stream; a part of it. */
struct range {
    struct view **begin, **end;
};

static const struct share_terms *terms_of_view(const struct view *view)
{
    return &view->session->group->params.terms;
}

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_stream(const void *left, const void *right)
{
    const struct view *a = *(struct view *const *)left, *b = *(struct view *const *)right;
    const struct share_terms *one = terms_of_view(a), *other = terms_of_view(b);
    int by = order(one->uid, other->uid);
    if (by == 0)
        by = order(one->job, other->job);
    return by ? by : order((uintptr_t)a->feed, (uintptr_t)b->feed);
}

static bool same_user(const struct view *a, const struct view *b)
{
    return terms_of_view(a)->uid == terms_of_view(b)->uid;
}

static bool same_job(const struct view *a, const struct view *b)
{
    return same_user(a, b) && terms_of_view(a)->job == terms_of_view(b)->job;
}

static bool same_feed(const struct view *a, const struct view *b)
{
    return a->feed == b->feed;
}

static uint32_t weight_of_user(const struct view *view)
{
    return terms_of_view(view)->user_weight;
}

static uint32_t weight_of_job(const struct view *view)
{
    return terms_of_view(view)->job_weight;
}

static uint32_t weight_of_stream(const struct view *view)
{
    (void)view;
    return 1;
}

struct level {
    bool (*same)(const struct view *a, const struct view *b);
    uint32_t (*weight)(const struct view *view);
};

static const struct level users = {same_user, weight_of_user}, jobs = {same_job, weight_of_job},
                          streams = {same_feed, weight_of_stream};

static struct range first_of(struct range range, const struct level *level)
{
    struct range part = {range.begin, range.begin};
    while (part.end < range.end && level->same(*part.begin, *part.end))
        part.end++;
    return part;
}

static double weight(const struct range *part, const struct level *level)
{
    uint32_t weight = level->weight(*part->begin);
    return weight ? weight : 1;
}

/* Each view of the range has a share already: that is divided among the parts. */
static void divide(struct range range, const struct level *level)
{
    double sum = 0;
    struct range part, left = range;
    for (; left.begin < left.end; left.begin = part.end) {
        part = first_of(left, level);
        sum += weight(&part, level);
    }
    for (left = range; left.begin < left.end; left.begin = part.end) {
        part = first_of(left, level);
        for (struct view **view = part.begin; view < part.end; view++)
            (*view)->share *= weight(&part, level) / sum;
    }
}

void stream_shares(struct census *census)
{
    cleanup_free struct view **views = mem_array(census->count + 1, sizeof *views);
    struct range all = {views, views}, user, job;
    for (uint32_t i = 0; i < census->count; i++)
        if (census->views[i].feed)
            *all.end++ = &census->views[i];
    qsort(all.begin, (size_t)(all.end - all.begin), sizeof *views, by_stream);
    for (struct view **view = all.begin; view < all.end; view++)
        (*view)->share = 1;
    divide(all, &users);
    for (; all.begin < all.end; all.begin = user.end) {
        user = first_of(all, &users);
        divide(user, &jobs);
        for (struct range left = user; left.begin < left.end; left.begin = job.end) {
            job = first_of(left, &jobs);
            divide(job, &streams);
        }
    }
}
