/* Writing a set of tar shards: DIR/shard-000000.tar and so on. Each is written under a temporary
 * name and all get their names together at the end: a run that fails or is stopped leaves none.
 * The set belongs to one thread; shards of it are written by any number of threads, one each. */
#ifndef PACK_WRITE_H
#define PACK_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct pack_set {
    char *dir; /* absolute */
};

/* Makes the directory where needed. -EEXIST when it holds tar files already, -EINVAL when its path
 * has characters that a source pattern would expand. */
int pack_set_open(struct pack_set *set, const char *dir, struct error *err);
void pack_set_close(struct pack_set *set);
/* Writes classes.txt, a name a line, and gives shards 0 .. shards - 1 their names. */
int pack_set_publish(const struct pack_set *set, uint32_t shards, char *const *classes,
                     uint32_t nclasses, struct error *err);
/* Takes away what was written of the set, under temporary or final names. */
void pack_set_discard(const struct pack_set *set, uint32_t shards);
/* The feed for the daemon's configuration, to stdout. */
void pack_set_print_feed(const struct pack_set *set, const char *name, uint32_t shards,
                         uint32_t nclasses);

struct pack_shard;

int pack_shard_open(const struct pack_set *set, uint32_t number, struct pack_shard **out,
                    struct error *err);
/* Members KEY.jpg and KEY.cls (the class as a decimal number). */
int pack_shard_record(struct pack_shard *shard, const char *key, const void *jpeg, uint64_t size,
                      uint32_t cls, struct error *err);
/* Ends the tar and makes it durable; frees the shard also when that fails. NULL is fine. */
int pack_shard_close(struct pack_shard *shard, struct error *err);
/* Bytes that such a record takes in the tar. */
uint64_t pack_record_bytes(size_t key_length, uint64_t size);

#endif
