/* Record indexes kept between runs: one file a shard under <directory>/index, named by a hash of
 * the shard's identity, so that copies of a shard share one, and a changed shard finds none. Only
 * files that we wrote ourselves are used: ours by owner, writable by nobody else, no links, and
 * their stamp must be that of the shard. Bounded: those not used for the longest time go first. Any
 * thread; many processes may share the directory.
 *
 * A shard may have a file of marks (store/marks.h) beside its index, named alike. It is sparse, and
 * counts with its whole length; within the bound such files go before any index. One that a data
 * set has taken into use in the last two seconds stays, even if the bound is then kept only next
 * time. What is in them is not looked at here, and must be trusted by nobody. */
#ifndef INDEX_CACHE_H
#define INDEX_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/index.h"

struct index_cache;

/* Makes the directory where it is missing. */
int index_cache_open(const char *directory, uint64_t bytes, struct index_cache **out,
                     struct error *err);
void index_cache_close(struct index_cache *cache); /* NULL is fine */

/* The one lock of a set of shards, so that two processes do not index the same at a time: tries for
 * it and returns its descriptor, to be closed; -EAGAIN while another has it. */
int index_cache_try_lock(struct index_cache *cache, uint64_t set, struct error *err);

/* The index of the shard with this stamp. -ENOENT: there is none; -ENOMEM; other errors: the file
 * found is not a good one, and was removed. */
int index_cache_get(struct index_cache *cache, const char *format, const struct index_stamp *stamp,
                    struct index **out, struct error *err);
int index_cache_put(struct index_cache *cache, const char *format, const struct index *index,
                    struct error *err);
/* Makes the files of marks of these shards, `sizes` bytes each, where they are missing and the
 * bound leaves room; for it those of others go that were not used for the longest time. *made:
 * bytes of those that are there now. */
int index_cache_make_marks(struct index_cache *cache, const char *format,
                           const struct index_stamp *const *stamps, const uint64_t *sizes,
                           size_t count, uint64_t *made, struct error *err);
/* Its descriptor, for reading or writing; -ENOENT: there is none. */
int index_cache_open_marks(struct index_cache *cache, const char *format,
                           const struct index_stamp *stamp, bool writing);
/* For a shard that is found to differ from its index although its stamp is the same. */
void index_cache_forget(struct index_cache *cache, const char *format,
                        const struct index_stamp *stamp);
/* Removes the oldest over the bound, and what a broken-off write left behind. Returns the bytes
 * that stay. */
uint64_t index_cache_trim(struct index_cache *cache);

#endif
