/* A stand-in for libcuda.so.1 in tests: real processes, real asynchrony, strict rules, no GPU.
 *
 * This header: settings, how a call enters and leaves, contexts, reports. One lock guards all
 * state; stream threads drop it while they copy. Everything here is called with it held, except
 * where said. docs/cuda.md lists the rules and the settings. */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/cuda_abi.h"
#include "proto/cuda_result.h"
#include "standin_more.h"

#define X(member, symbol, arguments)                                                               \
    __attribute__((visibility("default"))) dlp_cu_result symbol arguments;
DLP_CUDA_FUNCTIONS(X)
STANDIN_MORE_FUNCTIONS(X)
#undef X

enum { SI_DEVICES = 16, SI_GRANULE = 2 << 20, SI_PAGE = 4096 };

/* What the environment asks for: STANDIN_<NAME>. Read by cuInit. */
struct si_knobs {
    unsigned devices;  /* DEVICES=1: GPUs of the machine */
    uint64_t memory;   /* MEMORY_MB=1024: of each */
    int mode;          /* COMPUTE_MODE=0 */
    bool vmm, fd, ipc; /* VMM=1, POSIX_FD=1, IPC=1: what the GPUs offer */
    unsigned init;     /* INIT=0: what cuInit returns; 34 = a stub, 100 = no GPU, ... */
    /* VERSION=13000: of cuDriverGetVersion */
    unsigned init_s;     /* INIT_S=0: how long cuInit takes */
    unsigned mb_per_s;   /* MB_PER_S=0: of copies; 0 = as fast as may be */
    unsigned op_us;      /* OP_US=0: each operation of a stream takes this longer */
    unsigned jitter;     /* JITTER=0: seed of random delays up to 200 us; 0 = none */
    unsigned hang_s;     /* HANG_S=30: a call that waits longer aborts the process */
    bool keep;           /* PEER_DEATH=poison: or keep, memory whose exporter has died */
    bool dirty;          /* DIRTY=0: new memory has somebody's bytes in it */
    bool strict;         /* STRICT=1: leaks and broken rules end the process with status 99 */
    char domain[32];     /* DOMAIN=0: processes of one domain share the GPUs' memory */
    const char *report;  /* REPORT: file for reports, else stderr */
    const char *uuids;   /* UUIDS: 32 hex digits each, by commas */
    const char *visible; /* CUDA_VISIBLE_DEVICES */
};
extern struct si_knobs si_knobs;
void si_knobs_read(void);

/* Faults: STANDIN_FAULTS=function:nth:code,... with nth a number or `*`; code a number, `!number`
 * (then the context is lost with it), `@number` (the operation fails when it runs), `hang` (it
 * never ends) or `stay` (the call does not return). */
enum {
    SI_FAULT_HANG = 1 << 30,
    SI_FAULT_LATER = 1 << 29,
    SI_FAULT_STICKY = 1 << 28,
    SI_FAULT_STAY = 1 << 27
};
void si_faults_read(const char *text);
unsigned si_fault(const char *function); /* counts the call; 0 = none */

/* A primary context; one for each visible GPU. */
struct si_context {
    unsigned device;   /* ordinal that the program sees */
    unsigned physical; /* place among all GPUs */
    dlp_cu_uuid uuid;
    int retained;
    int exclusive; /* socket whose name is the claim on a GPU of exclusive mode, -1 none */
    dlp_cu_result sticky;
};
extern struct si_context si_contexts[SI_DEVICES];
extern unsigned si_visible; /* GPUs that CUDA_VISIBLE_DEVICES leaves */
void si_devices_init(void);
struct si_context *si_current(void); /* NULL = none */
/* NULL where the GPU is not visible here. */
struct si_context *si_context_of_uuid(const char uuid[16]);

/* How each call starts and ends: takes the lock, or returns the code that the caller gets. */
enum si_needs { SI_NOTHING, SI_EVEN_LOST, SI_INITIALISED, SI_IN_CONTEXT };
dlp_cu_result si_enter(const char *function, enum si_needs needs, int *locked);
void si_leave(const int *locked);
unsigned si_later(void); /* fault that this call's operation has to show when it runs */
#define SI_ENTER(needs)                                                                            \
    __attribute__((cleanup(si_leave))) int si_locked = 0;                                          \
    dlp_cu_result si_refused = si_enter(__func__, needs, &si_locked);                              \
    if (si_refused)                                                                                \
    return si_refused

extern pthread_mutex_t si_lock;
extern pthread_cond_t si_progress; /* an operation was queued or has ended */
/* Waits for progress, for at most slice_us; aborts with a dump when the wait that began at `since`
 * (si_now()) is longer than the hang limit. */
void si_wait(const char *function, double since, unsigned slice_us);
double si_now(void); /* seconds; without lock */

/* A broken rule or a leak: one line, and status 99 at exit. */
void si_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A rule that no program may break: says so and aborts. */
void si_abort(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
bool si_in_callback(bool set); /* of this thread */

/* What a context still owns, by kind; called at its end and at exit. Each module adds its own. */
void si_leaks_memory(const struct si_context *context);
void si_leaks_streams(const struct si_context *context);
void si_leaks_modules(const struct si_context *context);
void si_leaks_process(void); /* what belongs to no context */

#endif
