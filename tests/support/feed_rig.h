/* A feed with all it needs (loop, mailbox, budget, workers) and a consumer that notes what it gets:
 * for tests. Everything on the calling thread. With FEED_RIG_CUDA in the environment the batches
 * lie on GPU 0, that of UUID 0101..., and are read back from there. */
#ifndef FEED_RIG_H
#define FEED_RIG_H

#include "device/uploaders.h"
#include "feed/feed.h"
#include "feed_data.h"

struct rig_batch {
    struct feed_batch ready;
    int64_t *index, *label; /* by row; rows of the layout, also those past the end */
    uint8_t *valid;
    uint64_t *image, *text; /* hashes */
    int32_t *shape;         /* of images of their own size, else NULL */
};

struct rig_bad {
    enum bad_class cls;
    char key[32], shard[100];
    struct feed_place place;
};

struct rig_options {
    unsigned threads;      /* 0 = 2 */
    uint64_t memory;       /* 0 = 256 MiB */
    uint64_t decode;       /* memory for decoding, beside it; 0 = 8 MiB */
    uint32_t rank, world;  /* 0 = 1 */
    uint32_t batch, slots; /* 0 = 16, 4 */
    uint64_t start_epoch, start_position;
    struct feed_place first;
    bool keep;                   /* batches are not released */
    bool take_none;              /* batches are neither held nor released */
    bool shared;                 /* as of a mirror group */
    struct uploader_times times; /* 0 = uploader_times */
};

struct rig {
    struct rig_options options;
    uv_loop_t loop;
    uv_timer_t tick;
    struct mailbox *mailbox;
    struct budget *budget;
    struct orphans *orphans;
    struct workers *workers;
    struct feed *feed;
    uint8_t *memory; /* of the slots; on a GPU a copy of those that were READY */
    struct uploaders *uploaders;
    struct uploaders_gpu gpu; /* no uploader: shared memory; else, and what follows: */
    dlp_cu_pointer at;        /* mapping of the slots */
    uint64_t mapped;
    dlp_cu_stream stream;
    struct feed_batch read[DLP_SLOTS_MAX]; /* to be given back when the loop has turned */
    uint32_t nread;
    struct rig_batch *batches;
    uint32_t nbatches;
    struct rig_bad *bad;
    uint32_t nbad;
    struct feed_place failed[16];
    char failed_text[16][300];
    uint32_t nfailed;
    struct error stopped;
    bool closed;
    uint64_t kept; /* bytes that stay in the budget: of a GPU that is lost */
    void (*on_ready)(struct rig *rig, const struct feed_batch *batch); /* may be NULL */
};

struct rig *rig_new(const struct feed_data *data, const struct rig_options *options);
/* The loop runs until so many batches have come in all, or the feed has stopped. */
void rig_run(struct rig *rig, uint32_t batches);
void rig_trim(struct rig *rig, uint32_t batches); /* forgets later ones */
void rig_idle(struct rig *rig, uint64_t ms);      /* the loop runs for a while */
void rig_free(struct rig *rig);                   /* closes the feed */
/* Hash over all rows of all batches and their places. */
uint64_t rig_hash(const struct rig *rig);
/* Checks that batches from number `from` on are those of the plan, from `place` on: places, ids,
 * labels where valid, flags. */
void rig_check_order(const struct rig *rig, const struct feed_data *data, uint32_t from,
                     struct feed_place place);

#endif
