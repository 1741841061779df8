/* Memory on a GPU that is filled and lent by the daemon's device layer, on the stand-in: a client
 * reads what was copied, and what fails leaves nothing behind. */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cuda_rig.h"
#include "device/arena_cuda.h"
#include "device/staging.h"
#include "device/uploaders.h"

enum { SLOTS = 4, SLOT_BYTES = 3 * 4096, BATCHES = 40, CALL_MS = 300 };

static const uint8_t first_uuid[UPLOADERS_UUID] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
#define UUIDS "STANDIN_UUIDS=01010101010101010101010101010101"

static struct uploaders *uploaders;
static struct uploaders_gpu gpu;
static struct budget *budget;
static struct error err;

static void start(uint64_t copy_ms, uint64_t idle_ms)
{
    const struct uploader_times times = {.copy_ns = copy_ms * CLOCK_MS,
                                         .idle_ns = idle_ms * CLOCK_MS,
                                         .call_ns = CALL_MS * CLOCK_MS};
    uploaders = uploaders_new(&times);
    budget = budget_new(64 << 20, 1 << 20);
    NEED(uploaders_find(uploaders, first_uuid, &gpu, &err) == 0);
}

static void stop(void)
{
    NEED(budget_used(budget, BUDGET_SLOTS) == 0);
    NEED(uploaders_free(uploaders, UINT64_MAX));
    budget_free(budget);
}

struct copy {
    struct upload upload;
    struct error err;
    sem_t over;
};

static void copied(struct upload *upload, const struct error *why)
{
    struct copy *copy = (struct copy *)(void *)((char *)upload - offsetof(struct copy, upload));
    copy->err = why ? *why : (struct error){0};
    sem_post(&copy->over);
}

static void begin_copy(struct copy *copy, dlp_cu_pointer to, const void *from)
{
    copy->upload = (struct upload){.to = to, .from = from, .bytes = SLOT_BYTES, .done = copied};
    sem_init(&copy->over, 0, 0);
    uploader_copy(gpu.uploader, &copy->upload);
}

static void end_copy(struct copy *copy)
{
    while (sem_wait(&copy->over) < 0)
        continue;
}

/* The other side. */
struct offer {
    uint64_t bytes, nonce_offset;
    uint8_t nonce[DLP_NONCE];
};

static void client(int peer)
{
    struct offer offer;
    uint8_t nonce[DLP_NONCE];
    static uint8_t slot[SLOT_BYTES];
    dlp_cu_memory memory;
    int fd = crig_receive(peer, &offer, sizeof offer);
    NEED(fd >= 0);
    crig_start(0);
    CU(0, cu.memory_import(&memory, (void *)(intptr_t)fd, DLP_CU_HANDLE_POSIX_FD));
    close(fd);
    dlp_cu_pointer at = crig_map(memory, offer.bytes, DLP_CU_ACCESS_READ);
    CU(0, cu.memory_release(memory));
    crig_get(nonce, at + offer.nonce_offset, sizeof nonce);
    NEED(memcmp(nonce, offer.nonce, sizeof nonce) == 0);
    for (unsigned n = 0; n < BATCHES; n++) {
        crig_listen(peer);
        crig_get(slot, at + n % SLOTS * SLOT_BYTES, sizeof slot);
        for (size_t i = 0; i < sizeof slot; i++)
            NEED(slot[i] == (uint8_t)(n + 1));
        crig_tell(peer);
    }
    crig_unmap(at, offer.bytes);
    crig_stop();
}

static struct arena_cuda *lend(int peer)
{
    struct arena_cuda *arena;
    NEED(arena_cuda_new(gpu.uploader, DLP_MEMORY_VMM, SLOTS, SLOT_BYTES, &arena, &err) == 0);
    const struct arena_cuda_offer *its = arena_cuda_offer(arena);
    struct offer offer = {its->bytes, its->nonce_offset, {0}};
    NEED(its->nonce_offset >= (uint64_t)SLOTS * SLOT_BYTES);
    NEED(its->nonce_offset + DLP_NONCE <= its->bytes);
    memcpy(offer.nonce, its->nonce, sizeof offer.nonce);
    crig_send(peer, &offer, sizeof offer, its->fd);
    return arena;
}

/* The stand-in's GPUs are next to node 0. */
static void check_node(const struct staging *staging)
{
    int mode = -1;
    unsigned long nodes[16] = {0}, first[16] = {1};
    void *at = staging_slot(staging, 0);
    if (syscall(SYS_get_mempolicy, &mode, nodes, 1024, at, MPOL_F_ADDR) < 0 ||
        syscall(SYS_mbind, at, SLOT_BYTES, MPOL_PREFERRED, first, 1024, 0) < 0)
        return; /* not on this machine */
    NEED(mode == MPOL_PREFERRED && nodes[0] == 1);
}

/* Each batch from the slot of staging that comes free first. */
static void lends(int peer)
{
    int other;
    uint32_t slot;
    struct copy copy;
    struct staging *staging;
    pid_t pid = crig_spawn("client", NULL, &other);
    (void)peer;
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(staging_new(budget, gpu.uploader, STAGING_SLOTS, SLOT_BYTES, &staging, &err) == 0);
    for (uint32_t i = 0; i < STAGING_SLOTS; i++)
        NEED(staging_reserve(staging, i, &err) == 0);
    NEED(budget_used(budget, BUDGET_SLOTS) == STAGING_SLOTS * SLOT_BYTES);
    check_node(staging);
    struct arena_cuda *arena = lend(other);
    for (unsigned n = 0; n < BATCHES; n++) {
        NEED(slots_take(staging_slots(staging), &slot) == 0);
        memset(staging_slot(staging, slot), (int)n + 1, SLOT_BYTES);
        begin_copy(&copy, arena_cuda_slot(arena, n % SLOTS), staging_slot(staging, slot));
        end_copy(&copy);
        NEED(copy.err.code == 0);
        slots_drop(staging_slots(staging), slot);
        crig_tell(other);
        crig_listen(other);
    }
    NEED(crig_wait(pid) == 0);
    arena_cuda_free(arena);
    staging_free(staging);
    uploader_drop(gpu.uploader);
    stop();
}

/* Many copies at once end in their order, whatever the room on the stream. */
static void queues(int peer)
{
    static struct copy copies[30];
    static uint8_t from[SLOT_BYTES];
    struct arena_cuda *arena;
    (void)peer;
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(arena_cuda_new(gpu.uploader, DLP_MEMORY_VMM, SLOTS, SLOT_BYTES, &arena, &err) == 0);
    for (int i = 0; i < 30; i++)
        begin_copy(&copies[i], arena_cuda_slot(arena, 0), from);
    end_copy(&copies[29]);
    for (int i = 0; i < 29; i++)
        NEED(sem_trywait(&copies[i].over) == 0 && copies[i].err.code == 0);
    struct uploader_state state;
    uploader_state(gpu.uploader, &state);
    NEED(state.copied == 30ULL * SLOT_BYTES && state.active && !state.lost);
    arena_cuda_free(arena);
    uploader_drop(gpu.uploader);
    stop();
}

static size_t free_bytes(void)
{
    size_t room = 0, all = 0;
    crig_start(0);
    CU(0, cu.memory_info(&room, &all));
    crig_stop();
    return room;
}

/* Whatever fails, nothing is left of it, and the next try works. */
static void leave_nothing(enum dlp_memory kind)
{
    struct arena_cuda *arena = NULL;
    start(10000, 60000);
    int held = uploader_hold(gpu.uploader, &err);
    if (held == 0) {
        int code = arena_cuda_new(gpu.uploader, kind, SLOTS, SLOT_BYTES, &arena, &err);
        bool full = strstr(err.text, ": cuMemCreate: CUDA_ERROR_OUT") ||
                    strstr(err.text, ": cuMemAlloc: CUDA_ERROR_OUT");
        NEED(code == (full ? -ENOSPC : -ENODEV) && !arena);
    }
    NEED(strstr(err.text, "GPU-01010101-0101-0101-0101-010101010101: cu") == err.text);
    NEED(strstr(err.text, "CUDA_ERROR"));
    if (held != 0)
        NEED(uploader_hold(gpu.uploader, &err) == 0);
    size_t room = free_bytes();
    NEED(arena_cuda_new(gpu.uploader, kind, SLOTS, SLOT_BYTES, &arena, &err) == 0);
    NEED(free_bytes() == room - arena_cuda_offer(arena)->bytes);
    arena_cuda_free(arena);
    NEED(free_bytes() == room);
    uploader_drop(gpu.uploader);
    stop();
}

static void leaves_nothing(int peer)
{
    (void)peer;
    leave_nothing(DLP_MEMORY_VMM);
}

static void leaves_nothing_by_handle(int peer)
{
    (void)peer;
    leave_nothing(DLP_MEMORY_IPC);
}

/* A client may read all of what it is lent before anything was copied there. */
static void is_clear(enum dlp_memory kind)
{
    struct arena_cuda *arena;
    static uint8_t bytes[SLOTS * SLOT_BYTES];
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(arena_cuda_new(gpu.uploader, kind, SLOTS, SLOT_BYTES, &arena, &err) == 0);
    const struct arena_cuda_offer *its = arena_cuda_offer(arena);
    uint64_t rest = its->nonce_offset + DLP_NONCE;
    NEED(its->bytes % (2 << 20) == 0); /* a handle passes whole blocks on */
    crig_start(0);
    for (uint64_t at = 0; at < its->bytes; at = at ? at + sizeof bytes : rest) {
        uint64_t size = at ? its->bytes - at : its->nonce_offset;
        size = size < sizeof bytes ? size : sizeof bytes;
        crig_get(bytes, arena_cuda_slot(arena, 0) + at, size);
        for (uint64_t i = 0; i < size; i++)
            NEED(!bytes[i]);
    }
    crig_stop();
    arena_cuda_free(arena);
    uploader_drop(gpu.uploader);
    stop();
}

static void new_memory_is_clear(int peer)
{
    (void)peer;
    is_clear(DLP_MEMORY_VMM);
    is_clear(DLP_MEMORY_IPC);
}

static void too_large(int peer)
{
    struct arena_cuda *arena;
    (void)peer;
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(arena_cuda_new(gpu.uploader, DLP_MEMORY_VMM, 64, 1 << 20, &arena, &err) == -ENOSPC);
    NEED(strstr(err.text, "64 slots of 1.0 MB take 69.2 MB of its memory, and 16.8 MB of 16.8 MB"));
    uploader_drop(gpu.uploader);
    stop();
}

/* Pinning fails: copies come out right all the same. */
static void not_pinned(int peer)
{
    lends(peer);
}

/* What a client sees of a GPU that is lost: each copy fails, and so does all that follows. */
static void lost(uint64_t copy_ms, const char *why)
{
    static struct copy copies[12];
    struct staging *staging;
    struct arena_cuda *arena;
    struct uploader_state state;
    start(copy_ms, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(staging_new(budget, gpu.uploader, 1, SLOT_BYTES, &staging, &err) == 0);
    NEED(staging_reserve(staging, 0, &err) == 0);
    NEED(arena_cuda_new(gpu.uploader, DLP_MEMORY_VMM, SLOTS, SLOT_BYTES, &arena, &err) == 0);
    for (int i = 0; i < 12; i++)
        begin_copy(&copies[i], arena_cuda_slot(arena, 0), staging_slot(staging, 0));
    for (int i = 0; i < 12; i++)
        end_copy(&copies[i]);
    NEED(copies[11].err.code == -ENODEV && strstr(copies[11].err.text, why));
    uploader_state(gpu.uploader, &state);
    NEED(state.lost && strcmp(state.why, copies[11].err.text) == 0);
    NEED(uploader_hold(gpu.uploader, &err) == -ENODEV && strstr(err.text, why));
    arena_cuda_free(arena);
    staging_free(staging);
    uploader_drop(gpu.uploader);
    NEED(budget_used(budget, BUDGET_SLOTS) == SLOT_BYTES); /* a copy may read it still */
    NEED(uploaders_free(uploaders, UINT64_MAX));
    budget_free(budget);
}

static void hangs(int peer)
{
    (void)peer;
    lost(200, "a copy has not ended within 0.2 s");
}

static void dies(int peer)
{
    (void)peer;
    lost(10000, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

static void dies_late(int peer)
{
    (void)peer;
    lost(10000, "CUDA_ERROR_LAUNCH_FAILED (719)");
}

static void not_recorded(int peer)
{
    (void)peer;
    lost(10000, "cuEventRecord: CUDA_ERROR_UNKNOWN (999)");
}

/* A call that does not return: whoever waits for it is told so, and so is all that follows. */
static void *watch(void *context)
{
    struct uploader_state state;
    (void)context;
    do {
        usleep(10000);
        uploaders_watch(uploaders);
        uploader_state(gpu.uploader, &state);
    } while (!state.lost);
    return NULL;
}

static pthread_t watch_begin(void)
{
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, watch, NULL) == 0);
    return thread;
}

static void never_freed(void)
{
    NEED(uploader_hold(gpu.uploader, &err) == -ENODEV);
    NEED(strstr(err.text, "its driver has not returned from a call within 0.3 s"));
    NEED(!uploaders_free(uploaders, UINT64_MAX));
    _exit(0);
}

static void stays_in_context(int peer)
{
    (void)peer;
    start(10000, 60000);
    pthread_t thread = watch_begin();
    NEED(uploader_hold(gpu.uploader, &err) == -ENODEV);
    pthread_join(thread, NULL);
    never_freed();
}

static void stays_in_allocation(int peer)
{
    struct arena_cuda *arena = NULL;
    (void)peer;
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    pthread_t thread = watch_begin();
    NEED(arena_cuda_new(gpu.uploader, DLP_MEMORY_VMM, SLOTS, SLOT_BYTES, &arena, &err) == -ENODEV);
    pthread_join(thread, NULL);
    never_freed();
}

/* Also those copies end that come to it later, and what they are copied from stays. */
static void stays_in_copy(int peer)
{
    static struct copy copies[12];
    struct staging *staging;
    struct arena_cuda *arena;
    (void)peer;
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(staging_new(budget, gpu.uploader, 1, SLOT_BYTES, &staging, &err) == 0);
    NEED(staging_reserve(staging, 0, &err) == 0);
    NEED(arena_cuda_new(gpu.uploader, DLP_MEMORY_VMM, SLOTS, SLOT_BYTES, &arena, &err) == 0);
    for (int i = 0; i < 12; i++) {
        begin_copy(&copies[i], arena_cuda_slot(arena, 0), staging_slot(staging, 0));
        if (i == 10)
            pthread_join(watch_begin(), NULL);
    }
    for (int i = 0; i < 12; i++)
        end_copy(&copies[i]);
    NEED(copies[11].err.code == -ENODEV);
    arena_cuda_free(arena);
    staging_free(staging);
    uploader_drop(gpu.uploader);
    NEED(budget_used(budget, BUDGET_SLOTS) == SLOT_BYTES);
    never_freed();
}

/* Nobody is waited for when there is no time left. */
static void no_time_left(int peer)
{
    (void)peer;
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    uploader_drop(gpu.uploader);
    NEED(!uploaders_free(uploaders, 0)); /* its thread is in cuStreamDestroy */
    _exit(0);
}

/* One copy that cannot be made is that feed's loss alone. */
static void one_fails(int peer)
{
    struct copy bad, good;
    static uint8_t from[SLOT_BYTES];
    struct arena_cuda *arena;
    (void)peer;
    start(10000, 60000);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(arena_cuda_new(gpu.uploader, DLP_MEMORY_VMM, SLOTS, SLOT_BYTES, &arena, &err) == 0);
    begin_copy(&bad, arena_cuda_slot(arena, 0), from);
    begin_copy(&good, arena_cuda_slot(arena, 1), from);
    end_copy(&bad);
    end_copy(&good);
    NEED(bad.err.code == -ENODEV && good.err.code == 0);
    arena_cuda_free(arena);
    uploader_drop(gpu.uploader);
    stop();
}

static bool active(void)
{
    unsigned flags;
    int is = -1;
    CU(0, cu.context_state(0, &flags, &is));
    return is;
}

/* The context comes with the first who holds the GPU, and goes some time after the last. */
static void idles(int peer)
{
    (void)peer;
    crig_load();
    start(10000, 50);
    NEED(!active());
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    uploader_drop(gpu.uploader);
    usleep(200000);
    NEED(active());
    uploader_drop(gpu.uploader);
    for (int i = 0; i < 30000 && active(); i++)
        usleep(10000);
    NEED(!active());
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(active());
    uploader_drop(gpu.uploader);
    stop();
}

static void lets_go(int peer)
{
    (void)peer;
    static const char *const name = "GPU-01010101-0101-0101-0101-010101010101";
    struct uploader_state state;
    crig_load();
    start(10000, 60000);
    NEED(uploaders_let_go(uploaders, name) == 0);
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(uploaders_let_go(uploaders, name) == 1);
    NEED(active());
    uploader_drop(gpu.uploader);
    NEED(uploaders_let_go(uploaders, name) == 0);
    NEED(uploaders_state(uploaders, name, &state) && !state.active);
    for (int i = 0; i < 30000 && active(); i++)
        usleep(10000);
    NEED(!active());
    NEED(uploader_hold(gpu.uploader, &err) == 0);
    NEED(active());
    uploader_drop(gpu.uploader);
    stop();
}

static void finds(const char *uuid_byte, const char *why)
{
    uint8_t uuid[UPLOADERS_UUID];
    memset(uuid, *uuid_byte, sizeof uuid);
    uploaders = uploaders_new(&uploader_times);
    NEED(uploaders_find(uploaders, uuid, &gpu, &err) == -ENODEV);
    NEED(strstr(err.text, why));
    NEED(uploaders_free(uploaders, UINT64_MAX));
}

static void not_here(int peer)
{
    (void)peer;
    finds("\2", "GPU-02020202-0202-0202-0202-020202020202: the daemon does not see this GPU; it "
                "sees 1 GPU");
}

static void hidden(int peer)
{
    (void)peer;
    finds("\2", "it sees 1 GPU, and its CUDA_VISIBLE_DEVICES is 0");
}

static void exclusive(int peer)
{
    (void)peer;
    finds("\1", "EXCLUSIVE_PROCESS");
}

static void prohibited(int peer)
{
    (void)peer;
    finds("\1", "PROHIBITED");
}

static void stub(int peer)
{
    (void)peer;
    finds("\1", "CUDA_ERROR_STUB_LIBRARY");
}

int main(int argc, char **argv)
{
#define FAULT(name, call)                                                                          \
    {                                                                                              \
        name, leaves_nothing, UUIDS " STANDIN_FAULTS=" call                                        \
    }
    static const struct crig_role roles[] = {
        {"client", client, .is_peer = true},
        {"lends", lends, UUIDS " STANDIN_OP_US=200 STANDIN_JITTER=5"},
        {"queues", queues, UUIDS " STANDIN_OP_US=50"},
        {"not_pinned", not_pinned, UUIDS " STANDIN_FAULTS=cuMemHostRegister_v2:*:304"},
        {"new_memory_is_clear", new_memory_is_clear, UUIDS " STANDIN_DIRTY=1"},
        {"too_large", too_large, UUIDS " STANDIN_MEMORY_MB=16"},
        FAULT("fault_retain", "cuDevicePrimaryCtxRetain:1:2"),
        FAULT("fault_push", "cuCtxPushCurrent_v2:1:999"),
        FAULT("fault_stream", "cuStreamCreateWithPriority:1:2"),
        FAULT("fault_event", "cuEventCreate:3:2"),
        FAULT("fault_granularity", "cuMemGetAllocationGranularity:1:801"),
        FAULT("fault_info", "cuMemGetInfo_v2:1:999"),
        FAULT("fault_create", "cuMemCreate:1:2"),
        FAULT("fault_reserve", "cuMemAddressReserve:1:2"),
        FAULT("fault_map", "cuMemMap:1:2"),
        FAULT("fault_access", "cuMemSetAccess:1:2"),
        FAULT("fault_clear", "cuMemsetD8Async:1:2"),
        FAULT("fault_nonce", "cuMemcpyHtoDAsync_v2:1:2"),
        {"fault_alloc", leaves_nothing_by_handle, UUIDS " STANDIN_FAULTS=cuMemAlloc_v2:1:2"},
        {"fault_handle", leaves_nothing_by_handle, UUIDS " STANDIN_FAULTS=cuIpcGetMemHandle:1:1"},
        FAULT("fault_export", "cuMemExportToShareableHandle:1:304"),
        {"hangs", hangs, UUIDS " STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:2:hang", 99, "leak"},
        {"dies", dies, UUIDS " STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:4:!700"},
        {"dies_late", dies_late, UUIDS " STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:4:@719"},
        {"not_recorded", not_recorded, UUIDS " STANDIN_FAULTS=cuEventRecord:3:999", 99, "leak"},
        {"stays_in_context", stays_in_context,
         UUIDS " STANDIN_FAULTS=cuDevicePrimaryCtxRetain:1:stay"},
        {"stays_in_allocation", stays_in_allocation, UUIDS " STANDIN_FAULTS=cuMemCreate:1:stay"},
        {"stays_in_copy", stays_in_copy, UUIDS " STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:4:stay"},
        {"no_time_left", no_time_left, UUIDS " STANDIN_FAULTS=cuStreamDestroy_v2:1:stay"},
        {"one_fails", one_fails, UUIDS " STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:2:1"},
        {"idles", idles, UUIDS},
        {"lets_go", lets_go, UUIDS},
        {"not_here", not_here, UUIDS},
        {"hidden", hidden,
         "STANDIN_DEVICES=2 CUDA_VISIBLE_DEVICES=0 "
         "STANDIN_UUIDS=01010101010101010101010101010101,02020202020202020202020202020202"},
        {"exclusive", exclusive, UUIDS " STANDIN_COMPUTE_MODE=3"},
        {"prohibited", prohibited, UUIDS " STANDIN_COMPUTE_MODE=2"},
        {"stub", stub, "STANDIN_INIT=34"},
    };
    return crig_main(argc, argv, "cuda_upload", roles, sizeof roles / sizeof *roles);
}
