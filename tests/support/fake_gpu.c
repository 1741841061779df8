#include "fake_gpu.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_rig.h"
#undef NEED /* that of the rig and that of the player do the same */
#include "fake_daemon.h"
#include "proto/errors.h"
#include "proto/frames.h"

enum { ARENA = 4 << 20 };

static struct fake fake;
static uint64_t attach_id;
static uint8_t uuid[16], nonce[DLP_NONCE], handle_bytes[64], slot_bytes[1 << 16];
static dlp_cu_pointer arena;

static int gpu(void)
{
    return getenv("GPU") != NULL;
}

static void hear_attach(void)
{
    Dlp__Envelope *env = fake_hear(&fake, DLP__ENVELOPE__BODY_ATTACH);
    attach_id = env->id;
    NEED(env->attach->gpu.len == 0 || env->attach->gpu.len == sizeof uuid);
    if (env->attach->gpu.len)
        memcpy(uuid, env->attach->gpu.data, sizeof uuid);
    dlp_frame_free(env);
}

/* Memory of a GPU with a nonce in its last bytes, and what the reply says of it. */
static int make(enum dlp_memory kind)
{
    int fd = -1;
    fake.reply.memory = kind;
    fake.reply.gpu = (ProtobufCBinaryData){sizeof uuid, uuid};
    fake.reply.arena_bytes = ARENA;
    fake.reply.nonce_offset = ARENA - DLP_NONCE;
    fake.reply.offer++;
    fake.reply.memory_why = kind == DLP_MEMORY_IPC ? "no VMM today" : "";
    if (kind == DLP_MEMORY_VMM) {
        dlp_cu_memory memory;
        const dlp_cu_allocation what = crig_allocation(gpu(), DLP_CU_HANDLE_POSIX_FD);
        CU(0, cu.memory_create(&memory, ARENA, &what, 0));
        CU(0, cu.memory_export(&fd, memory, DLP_CU_HANDLE_POSIX_FD, 0));
        arena = crig_map(memory, ARENA, DLP_CU_ACCESS_READWRITE);
        CU(0, cu.memory_release(memory));
    } else {
        CU(0, cu.memory_alloc(&arena, ARENA));
        CU(0, cu.ipc_get((dlp_cu_ipc_memory *)(void *)handle_bytes, arena));
        fake.reply.ipc_handle = (ProtobufCBinaryData){sizeof handle_bytes, handle_bytes};
    }
    for (unsigned i = 0; i < sizeof nonce; i++)
        nonce[i] = (uint8_t)(i * 7 + kind);
    crig_put(arena + ARENA - DLP_NONCE, nonce, sizeof nonce);
    return fd;
}

static void unmake(void)
{
    if (fake.reply.memory == DLP_MEMORY_VMM)
        crig_unmap(arena, ARENA);
    else
        CU(0, cu.memory_free(arena));
}

static void say_offer(int fd)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = attach_id;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_REPLY;
    env.attach_reply = &fake.reply;
    fake_say(&fake, &env, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
}

static void hear_nonce(void)
{
    Dlp__Envelope *env = fake_hear(&fake, DLP__ENVELOPE__BODY_ARENA_CHECK);
    NEED(env->arena_check->offer == fake.reply.offer);
    NEED(env->arena_check->nonce.len == DLP_NONCE);
    NEED(memcmp(env->arena_check->nonce.data, nonce, DLP_NONCE) == 0);
    dlp_frame_free(env);
}

static void hear_failure(const char *step, int result)
{
    Dlp__Envelope *env = fake_hear(&fake, DLP__ENVELOPE__BODY_ARENA_CHECK);
    if (env->arena_check->nonce.len || strcmp(env->arena_check->step, step) != 0 ||
        env->arena_check->result != result)
        fprintf(stderr, "%s gave %d\n", env->arena_check->step, env->arena_check->result);
    NEED(env->arena_check->nonce.len == 0);
    NEED(strcmp(env->arena_check->step, step) == 0);
    NEED(env->arena_check->result == result);
    dlp_frame_free(env);
}

static void say_host(void)
{
    uint64_t last = fake.id;
    fake.reply.memory = DLP_MEMORY_HOST;
    fake.reply.memory_why = "the trainer cannot read it";
    fake.id = attach_id;
    fake_reply(&fake);
    fake.id = last;
}

/* Every byte of a slot is its step; its texts have FAKE_TEXT_ROW bytes. */
static void fill_batch(uint32_t slot, uint64_t step)
{
    const struct dlp_layout *layout = &fake.layout;
    uint64_t offsets[FAKE_BATCH + 1];
    for (uint64_t i = 0; i <= FAKE_BATCH; i++)
        offsets[i] = i * FAKE_TEXT_ROW;
    memset(slot_bytes, (int)step + 1, layout->slot_bytes);
    memcpy(slot_bytes + layout->tensors[2].offset, offsets, sizeof offsets);
    if (fake.reply.memory == DLP_MEMORY_HOST)
        memcpy(fake.arena + slot * layout->slot_bytes, slot_bytes, layout->slot_bytes);
    else
        crig_put(arena + slot * layout->slot_bytes, slot_bytes, layout->slot_bytes);
}

static void say_batch(uint32_t slot, uint64_t generation, uint64_t step)
{
    fill_batch(slot, step);
    fake_ready(&fake, slot, generation, 0, step);
}

static void hear_release(uint32_t slot, uint64_t generation)
{
    Dlp__Envelope *env = fake_hear(&fake, DLP__ENVELOPE__BODY_RELEASE);
    NEED(env->release->slot == slot && env->release->generation == generation);
    dlp_frame_free(env);
}

static void attach_gpu(enum dlp_memory kind)
{
    fake_hello(&fake);
    hear_attach();
    say_offer(make(kind));
    hear_nonce();
}

static enum dlp_memory wanted(void)
{
    return strcmp(getenv("KIND"), "ipc") == 0 ? DLP_MEMORY_IPC : DLP_MEMORY_VMM;
}

static void daemon_batches(void)
{
    attach_gpu(wanted());
    for (uint32_t step = 0; step < 4; step++) {
        say_batch(step % FAKE_SLOTS, step + 1, step);
        fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
        hear_release(step % FAKE_SLOTS, step + 1);
    }
    fake_detached(&fake);
    unmake();
}

/* Its slots come back in the order in which the work on them ends. */
static void daemon_two(void)
{
    attach_gpu(wanted());
    say_batch(0, 1, 0);
    say_batch(1, 1, 1);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    hear_release(1, 1);
    hear_release(0, 1);
    fake_detached(&fake);
    unmake();
}

static void daemon_held(void)
{
    attach_gpu(wanted());
    say_batch(0, 1, 0);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(&fake);
    unmake();
}

static void daemon_left(void)
{
    attach_gpu(wanted());
    say_batch(0, 1, 0);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    fake_heard_end(&fake);
    if (wanted() == DLP_MEMORY_VMM) /* else the client has it mapped */
        unmake();
}

/* What was read does not count: shared memory it is. */
static void daemon_not_passed(void)
{
    fake_hello(&fake);
    hear_attach();
    say_offer(make(DLP_MEMORY_VMM));
    hear_nonce();
    fake.id = attach_id; /* of the report */
    fake_progress(&fake, "waiting for the trainer");
    unmake();
    say_host();
    say_batch(0, 1, 0);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    hear_release(0, 1);
    fake_detached(&fake);
}

/* The same where an epoch was chosen before it was told. */
static void daemon_sought(void)
{
    fake_hello(&fake);
    hear_attach();
    say_offer(make(DLP_MEMORY_VMM));
    hear_nonce();
    fake_heard(&fake, DLP__ENVELOPE__BODY_SEEK);
    unmake();
    say_host();
    Dlp__Envelope *env = fake_hear(&fake, DLP__ENVELOPE__BODY_SEEK);
    NEED(env->seek->epoch == 7);
    fake_seek_reply(&fake, env->id);
    dlp_frame_free(env);
    fill_batch(0, 0);
    fake_ready(&fake, 0, 1, 7, 0);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    hear_release(0, 1);
    fake_detached(&fake);
}

/* An error ends it: the client says all the same that it has unmapped what is to be freed. */
static void daemon_ends(void)
{
    attach_gpu(DLP_MEMORY_IPC);
    fake_error(&fake, 0, DLP_ERROR_BAD_LIMIT, "too many bad samples");
    fake_heard(&fake, DLP__ENVELOPE__BODY_DETACH);
    unmake();
    fake_heard_end(&fake);
}

static void daemon_refuses(void)
{
    fake_hello(&fake);
    hear_attach();
    say_offer(make(DLP_MEMORY_VMM));
    hear_nonce();
    fake_error(&fake, attach_id, DLP_ERROR_GPU, "the trainer has read other bytes");
    fake_heard_end(&fake);
    unmake();
}

static void finish_on_host(void)
{
    unmake();
    say_host();
    say_batch(0, 1, 0);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    hear_release(0, 1);
    fake_detached(&fake);
}

static void daemon_failure(void)
{
    fake_hello(&fake);
    hear_attach();
    say_offer(make(wanted()));
    hear_failure(getenv("STEP"), atoi(getenv("RESULT")));
    finish_on_host();
}

/* The client's context is lost with it: nothing says that the memory may be freed. */
static void daemon_unreadable(void)
{
    fake_hello(&fake);
    hear_attach();
    say_offer(make(DLP_MEMORY_IPC));
    fake_heard_end(&fake);
}

/* A file is no memory of a GPU, and the memory is smaller than was said. */
static void daemon_wrong_kinds(void)
{
    fake_hello(&fake);
    hear_attach();
    int fd = make(DLP_MEMORY_VMM);
    say_offer(memfd_create("no", MFD_CLOEXEC));
    hear_failure("cuMemImportFromShareableHandle", DLP_CU_INVALID_VALUE);
    fake.reply.arena_bytes = 2 * ARENA;
    say_offer(fd);
    hear_failure("cuMemMap", DLP_CU_INVALID_VALUE);
    unmake();
    make(DLP_MEMORY_IPC);
    fake.reply.arena_bytes = 2 * ARENA;
    say_offer(-1);
    hear_failure("cuPointerGetAttribute", DLP_CU_INVALID_VALUE);
    memset(handle_bytes, 1, sizeof handle_bytes);
    say_offer(-1);
    hear_failure("cuIpcOpenMemHandle", DLP_CU_INVALID_VALUE);
    finish_on_host();
}

static void daemon_liar(void)
{
    const char *lie = getenv("LIE");
    fake_hello(&fake);
    hear_attach();
    int fd = make(wanted());
    if (strcmp(lie, "uuid") == 0)
        uuid[3] ^= 1;
    else if (strcmp(lie, "short") == 0)
        fake.reply.gpu.len = 15;
    else if (strcmp(lie, "bytes") == 0)
        fake.reply.arena_bytes = FAKE_SLOTS * fake.layout.slot_bytes - 1;
    else if (strcmp(lie, "nonce") == 0)
        fake.reply.nonce_offset = UINT64_MAX - 3;
    else if (strcmp(lie, "handle") == 0)
        fake.reply.ipc_handle.len = 63;
    else if (strcmp(lie, "kind") == 0)
        fake.reply.memory = 3;
    else if (strcmp(lie, "descriptor") == 0)
        fake.reply.memory = DLP_MEMORY_IPC;
    else if (strcmp(lie, "host") == 0)
        fake.reply.memory = DLP_MEMORY_HOST;
    say_offer(fd);
    fake_heard_end(&fake);
    fake.reply.memory = wanted();
    unmake();
}

/* Is killed while it waits. */
static void daemon_victim(void)
{
    attach_gpu(wanted());
    say_batch(0, 1, 0);
    say_batch(1, 1, 1);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    pause();
}

static void daemon_back(void)
{
    fake_hello(&fake);
    Dlp__Envelope *env = fake_hear(&fake, DLP__ENVELOPE__BODY_ATTACH);
    NEED(env->attach->gpu_only && env->attach->gpu.len == sizeof uuid);
    memcpy(uuid, env->attach->gpu.data, sizeof uuid);
    attach_id = env->id;
    NEED(env->attach->resume && env->attach->resume->step == 1);
    dlp_frame_free(env);
    fake.reply.step = 1;
    say_offer(make(wanted()));
    hear_nonce();
    say_batch(0, 1, 1);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    hear_release(0, 1);
    fake_detached(&fake);
    unmake();
}

static void daemon_hosts(void)
{
    fake_hello(&fake);
    hear_attach();
    fake_reply(&fake);
    say_batch(0, 1, 0);
    fake_heard(&fake, DLP__ENVELOPE__BODY_TAKE);
    hear_release(0, 1);
    fake_detached(&fake);
}

static const struct {
    const char *name;
    void (*run)(void);
} scripts[] = {
    {"batches", daemon_batches},
    {"two", daemon_two},
    {"left", daemon_left},
    {"held", daemon_held},
    {"not_passed", daemon_not_passed},
    {"sought", daemon_sought},
    {"ends", daemon_ends},
    {"refuses", daemon_refuses},
    {"failure", daemon_failure},
    {"unreadable", daemon_unreadable},
    {"wrong_kinds", daemon_wrong_kinds},
    {"liar", daemon_liar},
    {"victim", daemon_victim},
    {"back", daemon_back},
    {"hosts", daemon_hosts},
};

/* Listens where it is told to, or at a place of its own, and says where. */
void fake_gpu_play(int peer)
{
    char path[sizeof fake.path];
    crig_receive(peer, path, sizeof path);
    crig_start(gpu());
    fake_init(&fake);
    if (*path) {
        fake_silence(&fake);
        unlink(fake.path);
        memcpy(fake.path, path, sizeof path);
        fake_listen(&fake);
    }
    crig_send(peer, fake.path, sizeof fake.path, -1);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (strcmp(scripts[i].name, getenv("SCRIPT")) == 0)
            scripts[i].run();
    fake_close(&fake);
    close(fake.listener);
    unlink(fake.path);
    if (fake.arena)
        munmap(fake.arena, (size_t)fake.memory);
    crig_stop();
}
