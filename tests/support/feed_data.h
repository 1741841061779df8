/* A small data set in tar shards on disk, and the feed that reads it: for tests of feeds.
 *
 * Record number g of all has key "rGGGGG", a JPEG of a size of its own, label text g, and a text of
 * g % 37 bytes. Fields: "image" (random_resized_crop 16, flip), "label", "text". */
#ifndef FEED_DATA_H
#define FEED_DATA_H

#include "feed/spec.h"

struct feed_data_recipe {
    uint32_t shards, records;   /* records of a shard */
    const uint32_t *cut_images; /* records whose JPEG lacks its second half */
    uint32_t ncut;
    const uint32_t *bad_labels; /* records with label "cat" */
    uint32_t nbad;
    uint32_t longest; /* bytes of record 0's text instead; 0 = as usual */
};

struct feed_data {
    char dir[64];
    uint32_t shards;
    struct feed_spec spec; /* to be changed before feed_data_open */
    struct dataset *dataset;
};

struct feed_data *feed_data_new(const struct feed_data_recipe *recipe);
void feed_data_open(struct feed_data *data);
void feed_data_free(struct feed_data *data);                        /* and removes the files */
char *feed_data_path(const struct feed_data *data, uint32_t shard); /* to be freed */

#endif
