/* Reads records from storage: wanted places are added, then all are read in one go, shard by shard
 * in the order of their bytes; many at a time while storage makes a reader wait. Faults make
 * samples bad, never fail the whole. Owner: one reader thread. */
#ifndef FETCH_H
#define FETCH_H

#include "feed/recipe.h"
#include "feed/sample.h"

struct fetch;

/* interrupted: looked at between reads; when it is set fetch_run returns early, and what was to be
 * read is void. */
struct fetch *fetch_new(const struct recipe *recipe, struct ration *ration,
                        const _Atomic bool *interrupted);
void fetch_free(struct fetch *fetch);
/* What share of storage it has; without this it is of the user and job 0. */
void fetch_set_terms(struct fetch *fetch, const struct share_terms *terms);

/* The sample of a place, to be filled by fetch_run; NULL: no memory now. */
struct sample *fetch_add(struct fetch *fetch, struct plan_place place, enum ration_use use);
void fetch_run(struct fetch *fetch);
/* Of late, reads had to wait for storage. */
bool fetch_waits(const struct fetch *fetch);
/* These records of one shard will be wanted soon. */
void fetch_advise(struct fetch *fetch, struct plan_place first, struct plan_place last);

#endif
