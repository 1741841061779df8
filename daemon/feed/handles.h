/* The shards that one reader has open: the most recently used ones, few enough for the process's
 * limit of descriptors. Owner: one reader thread. */
#ifndef HANDLES_H
#define HANDLES_H

#include "store/dataset.h"

struct handles;

struct handles *handles_new(const struct dataset *dataset);
void handles_free(struct handles *handles);
/* How many are open at the most: a shard that was got is open until as many others were, or until
 * handles_clear. */
uint32_t handles_room(const struct handles *handles);
/* The open shard, borrowed; NULL where it is not open. */
struct shard *handles_find(struct handles *handles, uint32_t shard);
/* The same, opened where it is not; NULL with the reason. -EMFILE or -ENFILE: handles_clear may
 * help. */
struct shard *handles_get(struct handles *handles, uint32_t shard, struct error *err);
/* Closes the longest unused ones, so that so many can be put without. */
void handles_make_room(struct handles *handles, uint32_t count);
/* Takes over one that the caller has opened. */
void handles_put(struct handles *handles, uint32_t number, struct shard *shard);
void handles_clear(struct handles *handles); /* closes all */

#endif
