#include "feed/share_tree.h"

#include <stdlib.h>

#include "base/mem.h"

/* The credit is one of the heaviest: in parts of it, a lighter one has less. So it is the same for
 * all that are compared, and weights of 1 and 3 do what those of 100 and 300 do. */
static void weigh(const struct share_tree *tree, struct share *parent)
{
    uint32_t heaviest = 1;
    for (const struct share *share = parent->first; share; share = share->next)
        if (share->weight > heaviest)
            heaviest = share->weight;
    parent->credit = tree->credit / heaviest;
}

/* By how much it is before or behind the others stays as much of what is shared. */
static void set_weight(const struct share_tree *tree, struct share *share, uint32_t weight)
{
    double before = (share->had - share->parent->front) * share->weight;
    share->weight = weight ? weight : 1;
    share->had = share->parent->front + before / share->weight;
    weigh(tree, share->parent);
}

void share_tree_init(struct share_tree *tree, double credit)
{
    *tree = (struct share_tree){.credit = credit};
}

static void put(const struct share_tree *tree, struct share *share, struct share *parent)
{
    share->parent = parent;
    share->next = parent->first;
    parent->first = share;
    share->had = parent->front;
    weigh(tree, parent);
}

static void take(const struct share_tree *tree, struct share *share)
{
    struct share **at = &share->parent->first;
    while (*at != share)
        at = &(*at)->next;
    *at = share->next;
    weigh(tree, share->parent);
}

static struct share *find(const struct share_tree *tree, struct share *parent, uint64_t key,
                          uint32_t weight)
{
    struct share *share = parent->first;
    while (share && share->key != key)
        share = share->next;
    if (!share) {
        share = mem_lines(sizeof *share);
        share->key = key;
        put(tree, share, parent);
    }
    set_weight(tree, share, weight);
    return share;
}

static void attach(struct share_tree *tree, struct share *stream, const struct share_terms *terms)
{
    struct share *user = find(tree, &tree->whole, terms->uid, terms->user_weight);
    user->limit = terms->threads;
    struct share *job = find(tree, user, terms->job, terms->job_weight);
    put(tree, stream, job);
    job->running += stream->running;
    user->running += stream->running;
}

static void detach(struct share_tree *tree, struct share *stream)
{
    struct share *job = stream->parent, *user = job->parent;
    take(tree, stream);
    job->running -= stream->running;
    user->running -= stream->running;
    if (!job->first) {
        take(tree, job);
        free(job);
    }
    if (!user->first) {
        take(tree, user);
        free(user);
    }
}

void share_join(struct share_tree *tree, struct share *stream, const struct share_terms *terms)
{
    *stream = (struct share){.weight = 1};
    attach(tree, stream, terms);
}

void share_leave(struct share_tree *tree, struct share *stream)
{
    detach(tree, stream);
}

void share_set_terms(struct share_tree *tree, struct share *stream, const struct share_terms *terms)
{
    struct share *job = stream->parent, *user = job->parent;
    if (user->key != terms->uid || job->key != terms->job) {
        detach(tree, stream);
        attach(tree, stream, terms);
        return;
    }
    set_weight(tree, user, terms->user_weight);
    set_weight(tree, job, terms->job_weight);
    user->limit = terms->threads;
}

void share_begin(struct share *stream, double amount)
{
    for (struct share *share = stream; share->parent; share = share->parent) {
        struct share *parent = share->parent;
        if (share->had < parent->front - parent->credit)
            share->had = parent->front - parent->credit;
        if (share->had > parent->front)
            parent->front = share->had;
        share->had += amount / share->weight;
        share->running++;
    }
}

void share_end(struct share *stream, double more)
{
    for (struct share *share = stream; share->parent; share = share->parent) {
        share->had += more / share->weight;
        share->running--;
    }
}

/* Which stream of a job has had least is nobody's question. */
void share_wants(struct share_tree *tree, struct share *stream)
{
    for (const struct share *share = stream->parent; share->parent; share = share->parent) {
        struct share *parent = share->parent;
        if (parent->look == tree->looks && parent->least <= share->had)
            continue;
        parent->look = tree->looks;
        parent->least = share->had;
    }
}

bool share_is_fair(const struct share *stream)
{
    const struct share *job = stream->parent, *user = job->parent;
    return job->had <= user->least + user->credit &&
           user->had <= user->parent->least + user->parent->credit;
}

bool share_before(const struct share *a, const struct share *b)
{
    while (a->parent != b->parent)
        a = a->parent, b = b->parent;
    return a->had < b->had;
}
