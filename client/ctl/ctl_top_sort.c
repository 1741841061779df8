#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_top_view.h"

static int by_number(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_place(const Dlp__ClientStatus *a, const Dlp__ClientStatus *b)
{
    int order = strcmp(a->feed, b->feed);
    order = order ? order : strcmp(a->job, b->job);
    order = order ? order : by_number(a->rank, b->rank);
    return order ? order : by_number(a->pid, b->pid);
}

/* The most waiting and the fastest stand on top. */
static int by_key(const Dlp__ClientStatus *a, const Dlp__ClientStatus *b, enum top_sort sort)
{
    switch (sort) {
    case TOP_BY_WAIT:
        return by_number(b->wait_share, a->wait_share);
    case TOP_BY_RATE:
        return by_number(b->samples_per_s, a->samples_per_s);
    case TOP_BY_PID:
        return by_number(a->pid, b->pid);
    case TOP_BY_JOB:
        return strcmp(a->job, b->job);
    default:
        return by_place(a, b);
    }
}

struct choice {
    enum top_sort sort;
    bool turned;
};

static int compare(const void *left, const void *right, void *context)
{
    const Dlp__ClientStatus *a = *(const Dlp__ClientStatus *const *)left;
    const Dlp__ClientStatus *b = *(const Dlp__ClientStatus *const *)right;
    const struct choice *choice = context;
    int order = by_key(a, b, choice->sort);
    if (choice->turned)
        order = -order;
    return order ? order : by_place(a, b);
}

const Dlp__ClientStatus **top_sorted(const Dlp__StatusReply *status, enum top_sort sort,
                                     bool turned)
{
    struct choice choice = {sort, turned};
    const Dlp__ClientStatus **sorted = ctl_must(calloc(status->n_clients + 1, sizeof(*sorted)));
    for (size_t i = 0; i < status->n_clients; i++)
        sorted[i] = status->clients[i];
    qsort_r(sorted, status->n_clients, sizeof(*sorted), compare, &choice);
    return sorted;
}
