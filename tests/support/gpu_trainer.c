#include "gpu_trainer.h"

#include <check.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/uploaders.h"

#define UUIDS "01010101010101010101010101010101,02020202020202020202020202020202"

uint8_t gtr_uuid[16], gtr_other_uuid[16];

/* The trainer's driver: maps what it is given and reads bytes of it. */
struct reading {
    uint64_t offset, bytes;
    bool scribbles; /* over them, instead */
};

struct mapping {
    uint64_t bytes;
    int gpu;
    dlp_cu_access_flags access;
    dlp_cu_ipc_memory handle; /* without a descriptor */
};

static dlp_cu_pointer map(const struct mapping *it, int fd)
{
    dlp_cu_memory memory;
    dlp_cu_pointer at;
    if (fd < 0) {
        CU(0, cu.ipc_open(&at, it->handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
        return at;
    }
    CU(0, cu.memory_import(&memory, (void *)(intptr_t)fd, DLP_CU_HANDLE_POSIX_FD));
    close(fd);
    at = crig_map(memory, it->bytes, it->access);
    CU(0, cu.memory_release(memory));
    return at;
}

static void scribble(dlp_cu_pointer at, uint64_t bytes)
{
    static uint8_t noise[4096];
    memset(noise, 0xee, sizeof noise);
    for (uint64_t done = 0; done < bytes; done += sizeof noise)
        crig_put(at + done, noise, bytes - done < sizeof noise ? bytes - done : sizeof noise);
}

static void read_all(int peer)
{
    struct mapping mapping;
    struct reading it;
    static uint8_t back[1 << 16];
    int fd = crig_receive(peer, &mapping, sizeof mapping);
    crig_start(mapping.gpu);
    dlp_cu_pointer at = map(&mapping, fd);
    while (crig_receive(peer, &it, sizeof it), it.bytes) {
        if (it.scribbles) {
            scribble(at + it.offset, it.bytes);
            crig_tell(peer);
            continue;
        }
        crig_get(back, at + it.offset, it.bytes);
        crig_send(peer, back, it.bytes, -1);
    }
    if (fd < 0)
        CU(0, cu.ipc_close(at));
    else
        crig_unmap(at, mapping.bytes);
    crig_tell(peer);
    crig_stop();
}

void gtr_ask(struct gtr *trainer, uint64_t offset, void *to, uint64_t bytes)
{
    struct reading it = {.offset = offset, .bytes = bytes};
    crig_send(trainer->socket, &it, sizeof it, -1);
    if (bytes)
        crig_receive(trainer->socket, to, bytes);
}

void gtr_await_offer(struct gtr *trainer)
{
    const Dlp__Envelope *env = rig_await(trainer->peer, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    trainer->offer = env->attach_reply;
    trainer->offer_nonce = env->attach_reply->nonce_offset;
    trainer->number = env->attach_reply->offer;
    ck_assert_uint_eq(env->id, GTR_ATTACH_ID);
}

Dlp__Attach gtr_wish(const uint8_t *of, bool only)
{
    Dlp__Attach message = rig_attach("small");
    message.gpu = (ProtobufCBinaryData){16, (uint8_t *)of};
    message.gpu_only = only;
    return message;
}

void gtr_say_attach(struct gtr *trainer, pid_t pid, Dlp__Attach message)
{
    *trainer = (struct gtr){.peer = rig_greeted(pid)};
    SAY(trainer->peer, GTR_ATTACH_ID, ATTACH, attach, &message);
}

void gtr_map_offer(struct gtr *trainer, enum dlp_memory kind)
{
    const Dlp__AttachReply *offer = trainer->offer;
    struct mapping mapping = {.bytes = offer->arena_bytes,
                              .access =
                                  offer->shared ? DLP_CU_ACCESS_READ : DLP_CU_ACCESS_READWRITE};
    ck_assert_uint_eq(offer->memory, kind);
    ck_assert_uint_eq(offer->gpu.len, 16);
    mapping.gpu = memcmp(offer->gpu.data, gtr_uuid, 16) != 0;
    ck_assert_int_eq(memcmp(offer->gpu.data, mapping.gpu ? gtr_other_uuid : gtr_uuid, 16), 0);
    ck_assert_uint_ge(offer->nonce_offset, offer->slots * offer->slot_bytes);
    ck_assert_uint_le(offer->nonce_offset + DLP_NONCE, offer->arena_bytes);
    if (kind == DLP_MEMORY_IPC) {
        ck_assert_uint_eq(offer->ipc_handle.len, sizeof mapping.handle);
        memcpy(&mapping.handle, offer->ipc_handle.data, sizeof mapping.handle);
    }
    ck_assert_int_eq(trainer->peer->fd >= 0, kind == DLP_MEMORY_VMM);
    if (!trainer->pid)
        trainer->pid = crig_spawn("trainer", NULL, &trainer->socket);
    crig_send(trainer->socket, &mapping, sizeof mapping, trainer->peer->fd);
}

void gtr_say_check(struct gtr *trainer, const void *nonce, size_t size)
{
    Dlp__ArenaCheck message = DLP__ARENA_CHECK__INIT;
    message.nonce = (ProtobufCBinaryData){size, (uint8_t *)nonce};
    message.step = "cuMemMap";
    message.result = size ? 0 : 205;
    message.offer = trainer->number;
    SAY(trainer->peer, 0, ARENA_CHECK, arena_check, &message);
}

void gtr_check_offer_of(struct gtr *trainer, enum dlp_memory kind)
{
    uint8_t nonce[DLP_NONCE];
    gtr_map_offer(trainer, kind);
    gtr_ask(trainer, trainer->offer->nonce_offset, nonce, sizeof nonce);
    gtr_say_check(trainer, nonce, sizeof nonce);
}

void gtr_check_offer(struct gtr *trainer)
{
    gtr_check_offer_of(trainer, DLP_MEMORY_VMM);
}

void gtr_attach(struct gtr *trainer, pid_t pid, Dlp__Attach message)
{
    gtr_say_attach(trainer, pid, message);
    gtr_await_offer(trainer);
    gtr_check_offer(trainer);
}

void gtr_scribble(struct gtr *trainer)
{
    struct reading it = {.bytes = trainer->offer->slots * trainer->offer->slot_bytes,
                         .scribbles = true};
    crig_send(trainer->socket, &it, sizeof it, -1);
    crig_listen(trainer->socket);
}

uint64_t gtr_lent(void)
{
    struct uploader_state state;
    const char *name = "GPU-01010101-0101-0101-0101-010101010101";
    ck_assert(uploaders_state(rig_control->options.uploaders, name, &state));
    return state.lent;
}

void gtr_await_nothing_lent(void)
{
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    while (gtr_lent() && clock_ns() < end)
        usleep(10000);
    ck_assert_uint_eq(gtr_lent(), 0);
}

void gtr_unmap(struct gtr *trainer)
{
    gtr_ask(trainer, 0, NULL, 0);
    crig_listen(trainer->socket);
}

void gtr_leave(struct gtr *trainer)
{
    if (trainer->pid) {
        gtr_unmap(trainer);
        ck_assert_int_eq(crig_wait(trainer->pid), 0);
        close(trainer->socket);
    }
    rig_peer_free(trainer->peer);
}

static uint64_t tensor_offset(const struct gtr *trainer, const char *name)
{
    for (size_t i = 0; i < trainer->offer->n_tensors; i++)
        if (strcmp(trainer->offer->tensors[i]->name, name) == 0)
            return trainer->offer->tensors[i]->offset;
    ck_abort_msg("no tensor %s", name);
}

/* The records are labelled with their ids. */
void gtr_take_batches(struct gtr *trainer, unsigned count)
{
    int64_t label[RIG_BATCH], index[RIG_BATCH];
    for (unsigned n = 0; n < count; n++) {
        const Dlp__BatchReady *ready = rig_next_ready(trainer->peer);
        uint64_t at = ready->slot * trainer->offer->slot_bytes;
        rig_take(trainer->peer, ready, 0);
        gtr_ask(trainer, at + tensor_offset(trainer, "label"), label, sizeof label);
        gtr_ask(trainer, at + tensor_offset(trainer, "index"), index, sizeof index);
        for (int r = 0; r < RIG_BATCH; r++) {
            ck_assert_int_ge(index[r], 0);
            ck_assert_int_lt(index[r], RIG_RECORDS);
            ck_assert_int_eq(label[r], index[r]);
            ck_assert(r == 0 || index[r] != index[r - 1]);
        }
        rig_release(trainer->peer, ready->slot, ready->generation, 0);
    }
}
void gtr_expect_host(struct gtr *trainer, const char *why)
{
    gtr_await_offer(trainer);
    ck_assert_uint_eq(trainer->offer->memory, DLP_MEMORY_HOST);
    ck_assert_uint_eq(trainer->offer->gpu.len, 0);
    ck_assert_msg(strstr(trainer->offer->memory_why, why), "%s", trainer->offer->memory_why);
    rig_next_ready(trainer->peer);
    rig_peer_free(trainer->peer);
    rig_wait_until_free();
}

/* By a handle: the daemon watches the process that maps. */
void gtr_say_attach_watched(struct gtr *trainer, Dlp__Attach message)
{
    int socket;
    pid_t pid = crig_spawn("trainer", NULL, &socket);
    *trainer = (struct gtr){.peer = rig_greeted(pid), .pid = pid, .socket = socket};
    trainer->life = pidfd_open(pid, 0);
    ck_assert_int_ge(trainer->life, 0);
    trainer->peer->session->life = trainer->life;
    SAY(trainer->peer, GTR_ATTACH_ID, ATTACH, attach, &message);
}

void gtr_setup(void)
{
    setenv("STANDIN_DEVICES", "2", 1);
    setenv("STANDIN_UUIDS", UUIDS, 1);
    memset(gtr_uuid, 1, sizeof gtr_uuid);
    memset(gtr_other_uuid, 2, sizeof gtr_other_uuid);
}

int gtr_main(int argc, char **argv)
{
    static const struct crig_role roles[] = {{"trainer", read_all, .is_peer = true}};
    return crig_main(argc, argv, "trainer", roles, 1);
}
