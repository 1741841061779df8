/* One shard as a data set sees it: which of its records enter the plan for the fields asked for,
 * and why the others do not. Private to the data set. Immutable once chosen. */
#ifndef DATASET_SHARD_H
#define DATASET_SHARD_H

#include "store/dataset.h"
#include "store/exclude.h"
#include "store/index.h"
#include "store/names.h"

struct dataset_shard_fault {
    uint32_t cls;
    uint32_t record; /* UINT32_MAX = of the shard */
    uint64_t offset;
    uint32_t reason; /* number in `reasons` */
};

struct dataset_shard {
    char *path;
    struct index *index;
    struct index_stamp
        stamp;         /* of the file that was opened: its inode may differ from the index's */
    uint64_t first_id; /* sample id of its record 0 */
    /* Records that are not in the plan, ascending; and the bytes of those before each of them. */
    uint32_t *excluded;
    uint64_t *excluded_before; /* nexcluded + 1 */
    uint64_t nexcluded, excluded_room, before_room;
    uint64_t unwanted; /* of these, those that the list of keys to leave out names */
    uint32_t *wanted; /* suffix numbers of all fields' `from`, in order; UINT32_MAX = not in here */
    uint64_t part_max[DATASET_FIELDS_MAX];
    uint64_t digest[2]; /* XXH3-128 over the records of the plan */
    struct dataset_shard_fault *faults;
    uint64_t nfaults, faults_room;
    uint64_t faults_before; /* of the shards before this one */
    struct names reasons;
    bool chosen; /* and its memory is counted */
};

/* Chooses the records; unwanted may be NULL. -ENOMEM. */
int dataset_shard_choose(struct dataset_shard *shard, const struct dataset_field *fields,
                         size_t nfields, struct exclude *unwanted);
void dataset_shard_done(struct dataset_shard *shard);
/* Memory of what was found in choosing, beside the index. */
uint64_t dataset_shard_memory(const struct dataset_shard *shard);

uint64_t dataset_shard_count(const struct dataset_shard *shard); /* of the plan */
/* Number in the index of record j of the plan; how many are excluded before it to *excluded. */
uint32_t dataset_shard_number(const struct dataset_shard *shard, uint64_t j, uint64_t *excluded);
/* The part of a field; wanted = the field's first entry there. NULL: the record has none. */
const struct index_part *dataset_shard_part(const struct dataset_shard *shard, uint32_t record,
                                            const uint32_t *wanted, size_t nfrom);

#endif
