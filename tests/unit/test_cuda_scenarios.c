/* Whole hand-overs on the stand-in, by both ways, between processes that work, and that die. */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_rig.h"

enum { BATCH = 2 << 20, SLOTS = 2, BATCHES = 20, LAZY = DLP_CU_IPC_LAZY_PEER_ACCESS };
enum { SHARED = DLP_CU_EVENT_DISABLE_TIMING | DLP_CU_EVENT_INTERPROCESS };

/* By legacy handles: memory and two events a slot, all made by the giver. */
struct legacy {
    dlp_cu_ipc_memory memory;
    dlp_cu_ipc_event ready[SLOTS], free[SLOTS];
};

static unsigned char *staging[SLOTS];

static void make_staging(void)
{
    for (int i = 0; i < SLOTS; i++)
        CU(0, more.host_alloc((void **)&staging[i], BATCH, 0));
}

static void free_staging(void)
{
    for (int i = 0; i < SLOTS; i++)
        CU(0, more.host_free(staging[i]));
}

/* Values of batch n, all from the same byte. */
static void check(const unsigned char *bytes, unsigned n, unsigned *wrong)
{
    for (size_t i = 0; i < BATCH; i += 4093)
        if (bytes[i] != (unsigned char)(n + 1)) {
            ++*wrong;
            return;
        }
}

static void legacy_taker(int peer)
{
    struct legacy offer;
    dlp_cu_pointer at;
    dlp_cu_event ready[SLOTS], done[SLOTS];
    void *back;
    unsigned wrong = 0;
    crig_receive(peer, &offer, sizeof offer);
    crig_start(0);
    CU(0, more.host_alloc(&back, BATCH, 0));
    CU(0, cu.ipc_open(&at, offer.memory, LAZY));
    for (int i = 0; i < SLOTS; i++) {
        CU(0, more.ipc_open_event(&ready[i], offer.ready[i]));
        CU(0, more.ipc_open_event(&done[i], offer.free[i]));
    }
    for (unsigned n = 0; n < BATCHES; n++) {
        crig_listen(peer);
        CU(0, more.stream_wait(crig_stream, ready[n % SLOTS], 0));
        CU(0, cu.copy_to_host(back, at + n % SLOTS * BATCH, BATCH, crig_stream));
        CU(0, cu.event_record(done[n % SLOTS], crig_stream));
        crig_tell(peer);
        crig_sync();
        check(back, n, &wrong);
    }
    CU(0, cu.ipc_close(at));
    for (int i = 0; i < SLOTS; i++) {
        CU(0, cu.event_destroy(ready[i]));
        CU(0, cu.event_destroy(done[i]));
    }
    CU(0, more.host_free(back));
    crig_stop();
    crig_send(peer, &wrong, sizeof wrong, -1);
    crig_listen(peer);
}

struct giver {
    dlp_cu_pointer at;
    dlp_cu_event ready[SLOTS], free[SLOTS];
    struct legacy offer;
};

static void giver_start(struct giver *giver, int other)
{
    crig_start(0);
    make_staging();
    CU(0, cu.memory_alloc(&giver->at, (size_t)SLOTS * BATCH));
    CU(0, cu.ipc_get(&giver->offer.memory, giver->at));
    for (int i = 0; i < SLOTS; i++) {
        CU(0, cu.event_create(&giver->ready[i], SHARED));
        CU(0, cu.event_create(&giver->free[i], SHARED));
        CU(0, more.ipc_get_event(&giver->offer.ready[i], giver->ready[i]));
        CU(0, more.ipc_get_event(&giver->offer.free[i], giver->free[i]));
    }
    crig_send(other, &giver->offer, sizeof giver->offer, -1);
}

static void giver_stop(struct giver *giver)
{
    for (int i = 0; i < SLOTS; i++) {
        CU(0, cu.event_destroy(giver->ready[i]));
        CU(0, cu.event_destroy(giver->free[i]));
    }
    CU(0, cu.memory_free(giver->at));
    free_staging();
    crig_stop();
}

/* Returns how many batches came out wrong; hasty: staging is used again before its copy has run. */
static unsigned give_legacy(bool hasty)
{
    int other;
    unsigned wrong;
    struct giver giver;
    pid_t pid = crig_spawn("legacy_taker", NULL, &other);
    giver_start(&giver, other);
    for (unsigned n = 0; n < BATCHES; n++) {
        unsigned slot = n % SLOTS;
        if (n >= SLOTS) /* the taker has recorded its event: only now may we wait for it */
            crig_listen(other);
        memset(staging[slot], (int)n + 1, BATCH);
        CU(0, more.stream_wait(crig_stream, giver.free[slot], 0));
        if (hasty)
            crig_gate(crig_stream);
        CU(0, cu.copy_to_device(giver.at + slot * BATCH, staging[slot], BATCH, crig_stream));
        CU(0, cu.event_record(giver.ready[slot], crig_stream));
        if (hasty) {
            memset(staging[slot], 0xEE, BATCH);
            crig_open();
        }
        crig_tell(other);
        CU(0, cu.event_synchronize(giver.ready[slot]));
    }
    for (unsigned n = 0; n < SLOTS; n++)
        crig_listen(other);
    crig_receive(other, &wrong, sizeof wrong);
    giver_stop(&giver);
    crig_tell(other);
    NEED(crig_wait(pid) == 0);
    return wrong;
}

static void legacy(int peer)
{
    (void)peer;
    NEED(give_legacy(false) == 0);
}

static void legacy_hasty(int peer)
{
    (void)peer;
    NEED(give_legacy(true) == BATCHES);
}

/* Says that it has recorded its event behind work that will not end while it lives. */
static void recorder(int peer)
{
    struct legacy offer;
    dlp_cu_pointer at;
    dlp_cu_event done;
    static char back[100];
    crig_receive(peer, &offer, sizeof offer);
    crig_start(0);
    CU(0, cu.host_register(back, sizeof back, 0));
    CU(0, cu.ipc_open(&at, offer.memory, LAZY));
    CU(0, more.ipc_open_event(&done, offer.free[0]));
    CU(0, cu.copy_to_host(back, at, sizeof back, crig_stream));
    CU(0, cu.event_record(done, crig_stream));
    crig_tell(peer);
    pause();
}

static bool has_ended(pid_t pid, int timeout_ms)
{
    struct pollfd process = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    bool ended = poll(&process, 1, timeout_ms) == 1;
    close(process.fd);
    return ended;
}

/* What the hand-over must not rely on: an event whose recorder has died never completes. */
static void dead_recorder(int peer)
{
    (void)peer;
    int other;
    struct giver giver;
    pid_t pid = crig_spawn("recorder", "STANDIN_FAULTS=cuMemcpyDtoHAsync_v2:1:hang", &other);
    giver_start(&giver, other);
    crig_listen(other);
    CU(DLP_CU_NOT_READY, cu.event_query(giver.free[0]));
    kill(pid, SIGKILL);
    NEED(has_ended(pid, 10000));
    crig_wait(pid);
    usleep(300000);
    CU(DLP_CU_NOT_READY, cu.event_query(giver.free[0]));
    giver_stop(&giver);
}

/* By a descriptor: the host tells of what it has seen finished, and no event crosses. */
static dlp_cu_pointer take_mapping(int peer, dlp_cu_access_flags flags)
{
    char byte;
    dlp_cu_memory memory;
    int fd = crig_receive(peer, &byte, 1);
    NEED(fd >= 0);
    CU(0, cu.memory_import(&memory, (void *)(intptr_t)fd, DLP_CU_HANDLE_POSIX_FD));
    close(fd);
    dlp_cu_pointer at = crig_map(memory, (size_t)SLOTS * BATCH, flags);
    CU(0, cu.memory_release(memory));
    return at;
}

static void take_batches(int peer, dlp_cu_pointer at)
{
    static unsigned char back[BATCH];
    unsigned wrong = 0;
    for (unsigned n = 0; n < BATCHES; n++) {
        crig_listen(peer);
        crig_get(back, at + n % SLOTS * BATCH, BATCH);
        check(back, n, &wrong);
        crig_tell(peer);
    }
    crig_send(peer, &wrong, sizeof wrong, -1);
}

static void vmm_taker(int peer)
{
    crig_start(0);
    dlp_cu_pointer at = take_mapping(peer, DLP_CU_ACCESS_READ);
    take_batches(peer, at);
    crig_unmap(at, (size_t)SLOTS * BATCH);
    crig_stop();
}

/* Takes all, then writes where it may only read: its own context is lost by that. */
static void vmm_writer(int peer)
{
    crig_start(0);
    dlp_cu_pointer at = take_mapping(peer, DLP_CU_ACCESS_READ);
    take_batches(peer, at);
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.copy_to_device(at, "x", 1, crig_stream));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.stream_query(crig_stream));
}

static void give_mapping(int other, dlp_cu_pointer *at)
{
    int fd;
    dlp_cu_memory memory;
    const dlp_cu_allocation what = crig_allocation(0, DLP_CU_HANDLE_POSIX_FD);
    CU(0, cu.memory_create(&memory, (size_t)SLOTS * BATCH, &what, 0));
    *at = crig_map(memory, (size_t)SLOTS * BATCH, DLP_CU_ACCESS_READWRITE);
    CU(0, cu.memory_export(&fd, memory, DLP_CU_HANDLE_POSIX_FD, 0));
    CU(0, cu.memory_release(memory));
    crig_send(other, "", 1, fd);
    close(fd);
}

static void give_batches(int other, dlp_cu_pointer at)
{
    dlp_cu_event copied;
    unsigned wrong;
    make_staging();
    CU(0, cu.event_create(&copied, DLP_CU_EVENT_DISABLE_TIMING));
    for (unsigned n = 0; n < BATCHES; n++) {
        if (n >= SLOTS)
            crig_listen(other);
        memset(staging[n % SLOTS], (int)n + 1, BATCH);
        CU(0, cu.copy_to_device(at + n % SLOTS * BATCH, staging[n % SLOTS], BATCH, crig_stream));
        CU(0, cu.event_record(copied, crig_stream));
        CU(0, cu.event_synchronize(copied));
        crig_tell(other);
    }
    for (unsigned n = 0; n < SLOTS; n++)
        crig_listen(other);
    crig_receive(other, &wrong, sizeof wrong);
    NEED(wrong == 0);
    CU(0, cu.event_destroy(copied));
    free_staging();
}

static void give_vmm(const char *taker)
{
    int other;
    dlp_cu_pointer at;
    pid_t pid = crig_spawn(taker, NULL, &other);
    crig_start(0);
    give_mapping(other, &at);
    give_batches(other, at);
    NEED(crig_wait(pid) == 0);
    crig_unmap(at, (size_t)SLOTS * BATCH);
    crig_stop();
}

static void vmm(int peer)
{
    (void)peer;
    give_vmm("vmm_taker");
    give_vmm("vmm_writer");
}

/* In a PID namespace of its own, as in a container; -1 = not allowed here. */
static int enter_namespace(void)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        return -1;
    pid_t child = fork();
    if (child > 0)
        exit(crig_wait(child));
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
                   mount("proc", "/proc", "proc", 0, NULL) != 0
               ? -1
               : 0;
}

static void contained(int peer)
{
    struct legacy offer;
    dlp_cu_pointer at;
    dlp_cu_event event;
    bool allowed = enter_namespace() == 0;
    crig_send(peer, &allowed, sizeof allowed, -1);
    if (!allowed)
        return;
    crig_receive(peer, &offer, sizeof offer);
    crig_start(0);
    CU(DLP_CU_INVALID_HANDLE, cu.ipc_open(&at, offer.memory, LAZY));
    CU(DLP_CU_INVALID_HANDLE, more.ipc_open_event(&event, offer.free[0]));
    at = take_mapping(peer, DLP_CU_ACCESS_READ);
    take_batches(peer, at);
    crig_unmap(at, (size_t)SLOTS * BATCH);
    crig_stop();
}

static void pid_namespace(int peer)
{
    (void)peer;
    int other;
    bool allowed;
    struct giver giver;
    dlp_cu_pointer at;
    /* The leak detector cannot stop threads in another PID namespace. */
    pid_t pid = crig_spawn("contained", "ASAN_OPTIONS=detect_leaks=0", &other);
    crig_receive(other, &allowed, sizeof allowed);
    if (allowed) {
        giver_start(&giver, other);
        give_mapping(other, &at);
        free_staging();
        give_batches(other, at);
        make_staging();
        crig_unmap(at, (size_t)SLOTS * BATCH);
    }
    NEED(crig_wait(pid) == 0);
    if (allowed)
        giver_stop(&giver);
    else
        puts("pid_namespace: skipped, no right to make one");
}

/* Gives by both ways, then waits for its end. */
static void victim(int peer)
{
    struct giver giver;
    dlp_cu_pointer at;
    giver_start(&giver, peer);
    give_mapping(peer, &at);
    crig_put(giver.at, "legacy", 7);
    crig_put(at, "mapped", 7);
    crig_tell(peer);
    pause();
}

/* Lends by both ways to us and is killed; *at is the mapping, *legacy the legacy one. */
static struct legacy outlive(dlp_cu_pointer *at, dlp_cu_pointer *by_handle)
{
    int other;
    struct legacy offer;
    char text[8];
    pid_t pid = crig_spawn("victim", NULL, &other);
    crig_receive(other, &offer, sizeof offer);
    crig_start(0);
    *at = take_mapping(other, DLP_CU_ACCESS_READ);
    crig_listen(other);
    CU(0, cu.ipc_open(by_handle, offer.memory, LAZY));
    crig_get(text, *by_handle, 7);
    NEED(strcmp(text, "legacy") == 0);
    kill(pid, SIGKILL);
    NEED(crig_wait(pid) == 128 + SIGKILL);
    crig_get(text, *at, 7);
    NEED(strcmp(text, "mapped") == 0);
    return offer;
}

static void giver_dies(int peer)
{
    (void)peer;
    char text[8];
    dlp_cu_pointer at, by_handle, again;
    struct legacy offer = outlive(&at, &by_handle);
    CU(DLP_CU_INVALID_HANDLE, cu.ipc_open(&again, offer.memory, LAZY));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.copy_to_host(text, by_handle, 7, crig_stream));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.stream_query(crig_stream));
}

static void giver_dies_kept(int peer)
{
    (void)peer;
    char text[8];
    dlp_cu_pointer at, by_handle;
    outlive(&at, &by_handle);
    crig_get(text, by_handle, 7);
    NEED(strcmp(text, "legacy") == 0);
    CU(0, cu.ipc_close(by_handle));
    crig_unmap(at, (size_t)SLOTS * BATCH);
    crig_stop();
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"legacy", legacy, "STANDIN_MB_PER_S=1000 STANDIN_OP_US=200"},
        {"legacy_jitter", legacy, "STANDIN_JITTER=3"},
        {"legacy_hasty", legacy_hasty},
        {"legacy_taker", legacy_taker, .is_peer = true},
        {"recorder", recorder, .is_peer = true},
        {"dead_recorder", dead_recorder},
        {"vmm", vmm, "STANDIN_MB_PER_S=1000 STANDIN_OP_US=200"},
        {"vmm_taker", vmm_taker, .is_peer = true},
        {"vmm_writer", vmm_writer, .is_peer = true},
        {"pid_namespace", pid_namespace},
        {"contained", contained, .is_peer = true},
        {"victim", victim, .is_peer = true},
        {"giver_dies", giver_dies},
        {"giver_dies_kept", giver_dies_kept, "STANDIN_PEER_DEATH=keep"},
    };
    return crig_main(argc, argv, "cuda_scenarios", roles, sizeof roles / sizeof *roles);
}
