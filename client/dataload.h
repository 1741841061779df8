/* dataload: the trainer's side of dataloadd.
 *
 * A handle is one attachment of one rank to one feed. It may be used by one thread at a time.
 * The library starts no thread, sets no signal handler and refuses to work in a forked child
 * (-ENOLCK, "opened by process N"). Functions return 0 or a positive result, or a negative errno;
 * the text is dataload_error(). Option structs carry their size first, so that they can grow:
 * initialise them with the macros below. */
#ifndef DATALOAD_H
#define DATALOAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DATALOAD_API
#define DATALOAD_API __attribute__((visibility("default")))
#endif

#define DATALOAD_UNSET (-1) /* take the job's, else the feed's value */
#define DATALOAD_EPOCH_END                                                                         \
    1 /* dataload_next: the epoch is over; the next call goes on with the next one */
#define DATALOAD_FOREVER (-1) /* time-out in milliseconds */

typedef struct dataload dataload;             /* a handle */
typedef struct dataload_batch dataload_batch; /* a lent batch */

typedef struct dataload_options {
    size_t size;        /* sizeof(dataload_options) */
    const char *socket; /* NULL: $DATALOADD_SOCKET, the user's daemon, the system's */
    const char *job;    /* NULL: from Slurm, torchrun, mpirun, or unique to this process */
    int64_t rank;       /* DATALOAD_UNSET: the lowest free rank of a job of this node */
    int64_t world;      /* DATALOAD_UNSET: 1 for a new job */
    int64_t batch;      /* rows per trainer */
    int64_t seed;
    int64_t epoch;    /* first epoch */
    int64_t slots;    /* batches in memory, >= 2 */
    int timeout_ms;   /* of the attach, counted from the last progress report; default 60000;
                       < 0: none */
    int reconnect_ms; /* how long to look for a restarted daemon; 0 = error at once; default 30000
                       */
    int probe;        /* 1: measuring or showing: a job of its own, lowest priority */
    const char *program; /* shown in status; NULL: the process's name */
    /* Called about each second during an attach that takes long; may be NULL. */
    void (*progress)(void *context, const char *text, uint64_t done, uint64_t total);
    void *context;
    /* Where to begin: the text of a resume token (its seed and place go before seed and epoch
     * above), or "last": after what this rank, or the whole job that has just ended, had released.
     * NULL: at the job's start. Refused (-EINVAL) when the token is of another data set, shuffle,
     * lanes or tail, or when the ranks of a job would start from different places. */
    const char *resume;
    /* Of a feed with share: mirror: all trainers of a group read the same batches, each rank its
     * own, whatever their jobs are. Who comes later begins where the group is (info.epoch,
     * info.step), and a note says so. NULL: "default". Refused for other feeds. */
    const char *group;
    /* Where batches are to lie: DATALOAD_HOST, memory shared with the daemon; DATALOAD_GPU, on the
     * GPU of the calling thread's current CUDA context (the first visible one where there is none),
     * or the attach fails; DATALOAD_AUTO, there, else in shared memory (info.memory, memory_why).
     * The library uses the GPU's primary context, as PyTorch and the CUDA run time do, and leaves
     * the thread's current context as it was. */
    int device;
    /* Asked when a signal has come during an attach: not 0 ends it by -EINTR. May be NULL. */
    int (*interrupted)(void *context);
    /* 1: 'dataloadctl replay' may have it handed batches again, in which what it has written is
     * still, to measure it without waits; all ranks as many, then the one that was due. */
    int allow_replay;
    /* A feed of the caller's own, which the daemon need not be able to open: `feed` is NULL then.
     * One entry of `feeds` in dataloadd.conf(5), without source, folder, exclude and allow, as a
     * text; and the paths of its tar shards, in order. The library opens them, a few at a time, and
     * passes them on; again after a restart of the daemon, from within dataload_next, which waits
     * for storage then. All ranks of a job give the same. NULL: `feed` is the daemon's. */
    const char *recipe;
    const char *const *files;
    size_t nfiles;
} dataload_options;

#define DATALOAD_HOST 0
#define DATALOAD_GPU 1
#define DATALOAD_AUTO 2

#define DATALOAD_OPTIONS_INIT                                                                      \
    {                                                                                              \
        .size = sizeof(dataload_options), .rank = DATALOAD_UNSET, .world = DATALOAD_UNSET,         \
        .batch = DATALOAD_UNSET, .seed = DATALOAD_UNSET, .epoch = DATALOAD_UNSET,                  \
        .slots = DATALOAD_UNSET, .timeout_ms = 60000, .reconnect_ms = 30000                        \
    }

/* How batches reach this process. IN_VMM, IN_IPC: on a GPU, by a descriptor or an IPC handle. */
typedef enum dataload_memory { DATALOAD_IN_HOST, DATALOAD_IN_VMM, DATALOAD_IN_IPC } dataload_memory;

typedef enum dataload_dtype {
    DATALOAD_UINT8 = 1,
    DATALOAD_INT32 = 2,
    DATALOAD_INT64 = 3,
    DATALOAD_UINT64 = 4,
    DATALOAD_FLOAT16 = 5,
    DATALOAD_BFLOAT16 = 6,
    DATALOAD_FLOAT32 = 7
} dataload_dtype;

/* A view of one field of a batch; valid until the batch is released. Dense: shape [rows, ...],
 * C order. Ragged (offsets != NULL): row r is data[offsets[r]] .. data[offsets[r + 1]]. The views
 * of a mirror feed (dataload_info.shared) are read by other trainers too and are read-only: a write
 * is SIGSEGV; copy what is to be changed.
 *
 * On a GPU (info.memory), `data` is an address of that GPU, complete when the batch is handed out:
 * no stream has to wait for it. The fields "valid" and "index" lie there too. `offsets` are for the
 * CPU. A write to views of a mirror feed makes the context unusable (CUDA_ERROR_ILLEGAL_ADDRESS),
 * or, by IPC handle, changes what others read. */
typedef struct dataload_tensor {
    const char *name;
    dataload_dtype dtype;
    uint32_t ndim;
    uint64_t shape[8];
    void *data;
    uint64_t bytes;
    const uint64_t *offsets;
} dataload_tensor;

typedef struct dataload_info {
    size_t size; /* set by the caller */
    const char *job;
    const char *plan_id;     /* 16 hex digits: equal on every node of a job */
    const char *fingerprint; /* of the data set */
    const char *transform;   /* in words */
    uint32_t rank, world, batch, slots;
    uint64_t seed, records;
    uint64_t slot_bytes;
    uint64_t epoch, step; /* of the next batch */
    const char *started;  /* where it began and why, in words: "resumed from token: ..." */
    int shared;           /* 1: a mirror feed: views are read-only */
    /* Of a GPU that was asked for. Settled once the first batch has come. */
    dataload_memory memory;
    int device;             /* number of the GPU in this process, -1: shared memory */
    unsigned char gpu[16];  /* its UUID */
    const char *memory_why; /* why no better kind, or fewer slots; "": nothing to tell */
    const char *feed;       /* as the daemon calls it: "~UID/NAME" if it is the caller's own */
} dataload_info;

typedef struct dataload_stats {
    size_t size;                      /* set by the caller */
    uint64_t batches, samples, bytes; /* handed out */
    uint64_t wait_ns;                 /* this trainer waited in dataload_next */
    uint64_t hold_ns;                 /* batches were held */
    uint64_t stalls;                  /* waits over 1 ms */
    uint64_t longest_stall_ns;
    uint64_t elapsed_ns; /* since attach */
    uint64_t reconnects;
    uint32_t ready, held; /* now */
    uint64_t skipped;     /* batches that passed this trainer by (lag: skip) */
    uint64_t replayed;    /* batches handed out again (allow_replay): not among `batches` */
} dataload_stats;

/* Attaches to a feed. On error *handle is still set (to a dead handle) so that
 * dataload_error(*handle) gives the text; free it with dataload_detach in any case. -ECONNREFUSED:
 * no daemon is running; -ENOENT: it has no such feed; -EACCES: the caller may not use it; -ENODEV:
 * batches cannot lie on a GPU, and options.device says that they have to; -ESHUTDOWN: it drains;
 * -EIO: a shard cannot be read; -EOPNOTSUPP: it is too old for a feed of the caller's own;
 * -ECONNRESET: it has ended meanwhile, and none has served us within reconnect_ms. */
DATALOAD_API int dataload_attach(const char *feed, const dataload_options *options,
                                 dataload **handle);
/* Gives everything back and frees the handle; NULL is fine. Batches not released become invalid. */
DATALOAD_API void dataload_detach(dataload *handle);

/* The next batch. timeout_ms: 0 = do not wait, DATALOAD_FOREVER. 0 = *batch is lent to
 * the caller, DATALOAD_EPOCH_END, -ETIMEDOUT (nothing lost, call again), -EDEADLK (the caller holds
 * all slots), -EBADMSG (bad_samples: fail; the next call goes on), -EINTR (a signal handler of the
 * caller ran). These end the attachment: -ECONNRESET (the daemon has gone for longer than
 * reconnect_ms), -ESTALE (it has come back with another plan, or a shard of the caller's own feed
 * has changed or gone; or the group of a feed with lag: detach has gone on without this trainer),
 * -ECANCELED (bad_limit), -ECONNABORTED (dataloadctl detach has ended the job), -EPROTO. Steps
 * follow each other, but for a feed with lag: skip: what a trainer is too slow for passes it by
 * (dataload_stats.skipped), also the rest of an epoch, which still ends by one DATALOAD_EPOCH_END.
 */
DATALOAD_API int dataload_next(dataload *handle, int timeout_ms, dataload_batch **batch);
/* Gives a batch back; its views are invalid from here on. Of a batch on a GPU, all work on it has
 * to have ended: the caller has synchronised its streams. */
DATALOAD_API int dataload_release(dataload *handle, dataload_batch *batch);
/* Gives back a batch on a GPU behind what is queued on `stream` (a CUstream of the primary context;
 * NULL: the legacy default stream) so far; does not wait. The slot is free once that work has ended
 * and a later call on the handle has seen it: have at least three slots. The batch stays lent on
 * error, as -EBUSY while the stream is captured into a graph. In shared memory it is
 * dataload_release. */
DATALOAD_API int dataload_release_on(dataload *handle, dataload_batch *batch, void *stream);

/* Readable when dataload_next would have something to do without waiting; for poll loops: call
 * dataload_next(handle, 0, ...) until it gives -ETIMEDOUT. The same descriptor for the life of the
 * handle, which owns it. */
DATALOAD_API int dataload_fd(dataload *handle);

/* Steps of this rank in an epoch. The epoch in which a resumed job began has those of its rest. */
DATALOAD_API int64_t dataload_steps(dataload *handle, uint64_t epoch);
/* The next pass is this epoch; what was filled ahead for another is dropped. -ETIMEDOUT, -EINTR: it
 * is asked for, and the next batch will be of it. -EINVAL: over 2^24 - 1. A resumed job's first
 * epoch is the rest of it, also when it is chosen again; choosing it before the first batch changes
 * nothing. -EBUSY: other trainers read the same batches (share: mirror), and their epochs follow
 * each other: nothing has changed, and the next batch is the one that would have come. */
DATALOAD_API int dataload_set_epoch(dataload *handle, uint64_t epoch);

DATALOAD_API int dataload_get_info(dataload *handle, dataload_info *info);
DATALOAD_API int dataload_get_stats(dataload *handle, dataload_stats *stats);
/* Warnings of the attach, one by one: NULL after the last. */
DATALOAD_API const char *dataload_note(dataload *handle, uint32_t number);

DATALOAD_API uint64_t dataload_batch_epoch(const dataload_batch *batch);
DATALOAD_API uint64_t dataload_batch_step(const dataload_batch *batch);
/* 1: handed out before (allow_replay). No step of the epoch; epoch and step are those it had. */
DATALOAD_API int dataload_batch_is_replay(const dataload_batch *batch);
/* Rows present, and rows not flagged invalid. */
DATALOAD_API uint32_t dataload_batch_rows(const dataload_batch *batch);
DATALOAD_API uint32_t dataload_batch_valid(const dataload_batch *batch);
/* Resume tokens: where a run goes on, as a text of less than DATALOAD_TOKEN_MAX bytes to keep with
 * the trainer's own checkpoint and to give to `resume` of a later attach, with any world and batch.
 * Opaque; no round trip. Both return the length of the text, or -ENOSPC when size is too small
 * (DATALOAD_TOKEN_MAX always does). After the last batch of an epoch it is the next epoch's start.
 *
 * Of a lent batch: just after it; -ENODATA of one handed out again, which is no step. */
#define DATALOAD_TOKEN_MAX 1024
DATALOAD_API int dataload_batch_token(const dataload_batch *batch, char *text, size_t size);
/* Of the handle: after the last batch that dataload_next has handed out, held or released, however
 * many are filled ahead or served again (before the first: where the attach began; after
 * dataload_set_epoch: that epoch's start). Also after the attachment has ended by an error. */
DATALOAD_API int dataload_token(dataload *handle, char *text, size_t size);

/* Field by name, or by number (-ENOENT after the last). Besides the feed's fields there are "valid"
 * (uint8) and "index" (int64, sample id). -EINVAL after the release, -ENOLCK in a forked child,
 * -EPROTO when the offsets of a ragged field are damaged, -EOWNERDEAD when the daemon has gone and
 * the batch was in memory that goes with it (DATALOAD_IN_IPC). */
DATALOAD_API int dataload_batch_tensor(const dataload_batch *batch, const char *name,
                                       dataload_tensor *tensor);
DATALOAD_API int dataload_batch_tensor_at(const dataload_batch *batch, uint32_t number,
                                          dataload_tensor *tensor);

/* Copies a field's data to memory of the caller: of the GPU, behind what is queued on `stream` (as
 * of dataload_release_on) and without waiting; in shared memory, memory of the CPU, at once. For
 * buffers that do not move, as CUDA graphs need them: -EBUSY while the stream is captured. bytes:
 * room there; -ENOSPC when the field is larger. Else as dataload_batch_tensor. */
DATALOAD_API int dataload_batch_copy_to(const dataload_batch *batch, const char *name, void *to,
                                        uint64_t bytes, void *stream);
/* Converts a field of pictures, uint8 [rows, height, width, 3] on a GPU, to [rows, 3, height,
 * width] in the caller's memory there, as copy_to copies: DATALOAD_UINT8 as they are; _FLOAT32,
 * _FLOAT16, _BFLOAT16: (x / 255 - mean) / std by channel, as the feed's `output` gives it (NULL: 0
 * and 1). */
DATALOAD_API int dataload_batch_convert(const dataload_batch *batch, const char *name, void *to,
                                        uint64_t bytes, dataload_dtype dtype, const float *mean,
                                        const float *std, void *stream);

/* Text of the last error of a handle (never NULL), valid until the next call. */
DATALOAD_API const char *dataload_error(const dataload *handle);
DATALOAD_API const char *dataload_version(void);

#ifdef __cplusplus
}
#endif
#endif
