/* The stand-in: legacy handles of memory and of events. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cuda_rig.h"
#include "cuda_standin/standin_peer.h"

enum { MIB = 1 << 20, SIZE = 4 * MIB, LAZY = DLP_CU_IPC_LAZY_PEER_ACCESS };

static dlp_cu_pointer lend(dlp_cu_ipc_memory *handle, const char *text)
{
    dlp_cu_pointer at;
    CU(0, cu.memory_alloc(&at, SIZE));
    crig_put(at, text, strlen(text) + 1);
    CU(0, cu.ipc_get(handle, at));
    return at;
}

static void own(int peer)
{
    (void)peer;
    dlp_cu_ipc_memory handle;
    dlp_cu_pointer at, copy;
    crig_start(0);
    at = lend(&handle, "mine");
    CU(DLP_CU_INVALID_CONTEXT, cu.ipc_open(&copy, handle, LAZY));
    CU(DLP_CU_INVALID_VALUE, cu.ipc_open(&copy, handle, 0));
    CU(DLP_CU_INVALID_VALUE, cu.ipc_close(at));
    handle.bytes[0] ^= 1;
    CU(DLP_CU_INVALID_VALUE, cu.ipc_open(&copy, handle, LAZY));
    memset(&handle, 0, sizeof handle);
    CU(DLP_CU_INVALID_VALUE, cu.ipc_open(&copy, handle, LAZY));
    CU(0, cu.memory_free(at));
    CU(DLP_CU_INVALID_VALUE, cu.ipc_get(&handle, at));
    crig_stop();
}

/* Memory of cuMemCreate cannot be lent this way, and says so when asked. */
static void other_kinds(int peer)
{
    (void)peer;
    int capable;
    dlp_cu_ipc_memory handle;
    dlp_cu_memory memory;
    const dlp_cu_allocation what = crig_allocation(0, DLP_CU_HANDLE_POSIX_FD);
    crig_start(0);
    CU(0, cu.memory_create(&memory, SIZE, &what, 0));
    dlp_cu_pointer at = crig_map(memory, SIZE, DLP_CU_ACCESS_READWRITE);
    CU(DLP_CU_INVALID_VALUE, cu.ipc_get(&handle, at));
    CU(0, cu.pointer_attribute(&capable, DLP_CU_POINTER_IPC_CAPABLE, at));
    NEED(!capable);
    crig_unmap(at, SIZE);
    CU(0, cu.memory_release(memory));
    crig_stop();
}

/* What the exporter tells the opener to find out. */
struct offer {
    dlp_cu_ipc_memory handle, interior;
    size_t offset;
};

static void opener(int peer)
{
    struct offer offer;
    char text[8];
    dlp_cu_pointer at, again;
    dlp_cu_ipc_memory handle;
    dlp_cu_context second;
    crig_receive(peer, &offer, sizeof offer);
    crig_start(0);
    CU(0, cu.ipc_open(&at, offer.handle, LAZY));
    CU(0, cu.ipc_open(&again, offer.interior, LAZY));
    NEED(again == at); /* the whole block, whichever of its addresses was exported */
    crig_get(text, at + offer.offset, 5);
    NEED(strcmp(text, "lent") == 0);
    CU(DLP_CU_INVALID_VALUE, cu.memory_free(at));
    CU(DLP_CU_INVALID_VALUE, cu.ipc_get(&handle, at));
    CU(DLP_CU_INVALID_VALUE, cu.ipc_close(at + 1));
    CU(0, cu.context_retain(&second, 1));
    CU(0, cu.context_push(second));
    CU(DLP_CU_INVALID_CONTEXT, cu.ipc_open(&again, offer.handle, LAZY));
    CU(0, cu.context_pop(&second));
    CU(0, cu.context_release(1));
    CU(0, cu.ipc_close(at));
    crig_get(text, at + offer.offset, 5); /* open once more */
    CU(0, cu.ipc_close(at));
    CU(DLP_CU_INVALID_VALUE, cu.ipc_close(at));
    crig_stop();
}

static void lend_to(const char *role, const char *settings, const struct offer *offer)
{
    int other;
    pid_t pid = crig_spawn(role, settings, &other);
    crig_send(other, offer, sizeof *offer, -1);
    NEED(crig_wait(pid) == 0);
    close(other);
}

static void opened(int peer)
{
    (void)peer;
    struct offer offer = {.offset = 0};
    crig_start(0);
    dlp_cu_pointer at = lend(&offer.handle, "lent");
    CU(0, cu.ipc_get(&offer.interior, at + 12345));
    lend_to("opener", NULL, &offer);
    CU(0, cu.memory_free(at));
    crig_stop();
}

static void small_opened(int peer)
{
    (void)peer;
    struct offer offer;
    dlp_cu_pointer at;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, 1000));
    crig_put(at, "lent", 5);
    offer.offset = at % (2 * MIB);
    NEED(offer.offset > 0);
    CU(0, cu.ipc_get(&offer.handle, at));
    offer.interior = offer.handle;
    lend_to("opener", NULL, &offer);
    CU(0, cu.memory_free(at));
    crig_stop();
}

/* Ends with the code that opening gives. */
static void refused_there(int peer)
{
    struct offer offer;
    dlp_cu_pointer at;
    crig_receive(peer, &offer, sizeof offer);
    crig_start(0);
    CU((dlp_cu_result)offer.offset, cu.ipc_open(&at, offer.handle, LAZY));
    crig_stop();
}

static void other_user(int peer)
{
    NEED(setuid(65534) == 0);
    refused_there(peer);
}

static void refused(int peer)
{
    (void)peer;
    struct offer offer;
    crig_start(0);
    dlp_cu_pointer at = lend(&offer.handle, "lent");
    offer.offset = DLP_CU_PEER_ACCESS_UNSUPPORTED;
    lend_to("refused_there", "CUDA_VISIBLE_DEVICES=1,0", &offer);
    offer.offset = DLP_CU_INVALID_DEVICE;
    lend_to("refused_there", "CUDA_VISIBLE_DEVICES=1", &offer);
    offer.offset = DLP_CU_NOT_SUPPORTED;
    lend_to("refused_there", "STANDIN_IPC=0", &offer);
    offer.offset = DLP_CU_MAP_FAILED;
    if (geteuid() == 0)
        lend_to("other_user", NULL, &offer);
    CU(0, cu.memory_free(at));
    offer.offset = DLP_CU_INVALID_HANDLE;
    lend_to("refused_there", NULL, &offer);
    crig_stop();
}

static void lender(int peer)
{
    struct offer offer = {.offset = 0};
    crig_start(0);
    lend(&offer.handle, "lent");
    crig_send(peer, &offer, sizeof offer, -1);
    pause();
}

static struct offer borrow(pid_t *pid, int *other)
{
    struct offer offer;
    *pid = crig_spawn("lender", NULL, other);
    crig_receive(*other, &offer, sizeof offer);
    return offer;
}

/* The process that has the exporter's number now is another one: it began at another time. */
static void number_used_again(int peer)
{
    (void)peer;
    pid_t pid;
    int other;
    dlp_cu_pointer at;
    struct offer offer = borrow(&pid, &other);
    crig_start(0);
    offer.handle.bytes[offsetof(struct si_peer_handle, started)] ^= 1;
    CU(DLP_CU_INVALID_HANDLE, cu.ipc_open(&at, offer.handle, LAZY));
    crig_stop();
    kill(pid, SIGKILL);
    crig_wait(pid);
}

static void exporter_gone(int peer)
{
    (void)peer;
    pid_t pid;
    int other;
    dlp_cu_pointer at;
    struct offer offer = borrow(&pid, &other);
    kill(pid, SIGKILL);
    crig_wait(pid);
    crig_start(0);
    CU(DLP_CU_INVALID_HANDLE, cu.ipc_open(&at, offer.handle, LAZY));
    crig_stop();
}

/* Frees what another has open. */
static void careless(int peer)
{
    struct offer offer = {.offset = 0};
    crig_start(0);
    dlp_cu_pointer at = lend(&offer.handle, "lent");
    crig_send(peer, &offer, sizeof offer, -1);
    crig_listen(peer);
    CU(0, cu.memory_free(at));
    crig_tell(peer);
    crig_stop();
}

static void freed_while_open(int peer)
{
    (void)peer;
    int other;
    char text[8];
    dlp_cu_pointer at;
    struct offer offer;
    pid_t pid = crig_spawn("careless", NULL, &other);
    crig_receive(other, &offer, sizeof offer);
    crig_start(0);
    CU(0, cu.ipc_open(&at, offer.handle, LAZY));
    crig_get(text, at, 5);
    crig_tell(other);
    crig_listen(other);
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.copy_to_host(text, at, 5, crig_stream));
    NEED(crig_wait(pid) == 99);
}

static void not_offered(int peer)
{
    (void)peer;
    dlp_cu_ipc_memory handle;
    dlp_cu_pointer at;
    int capable;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, SIZE));
    CU(DLP_CU_NOT_SUPPORTED, cu.ipc_get(&handle, at));
    CU(0, cu.pointer_attribute(&capable, DLP_CU_POINTER_IPC_CAPABLE, at));
    NEED(!capable);
    CU(0, cu.memory_free(at));
    crig_stop();
}

static void left_open(int peer)
{
    (void)peer;
    pid_t pid;
    int other;
    dlp_cu_pointer at;
    struct offer offer = borrow(&pid, &other);
    crig_start(0);
    CU(0, cu.ipc_open(&at, offer.handle, LAZY));
    crig_stop();
    kill(pid, SIGKILL);
    crig_wait(pid);
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"own", own},
        {"other_kinds", other_kinds},
        {"opened", opened, "STANDIN_DEVICES=2"},
        {"small_opened", small_opened, "STANDIN_DEVICES=2"},
        {"opener", opener, .is_peer = true},
        {"refused", refused, "STANDIN_DEVICES=2"},
        {"refused_there", refused_there, .is_peer = true},
        {"other_user", other_user, .is_peer = true},
        {"lender", lender, .is_peer = true},
        {"number_used_again", number_used_again},
        {"exporter_gone", exporter_gone},
        {"careless", careless, .is_peer = true},
        {"freed_while_open", freed_while_open, NULL, 0, "freed while another process has them"},
        {"not_offered", not_offered, "STANDIN_IPC=0"},
        {"left_open", left_open, NULL, 99, "leak: 1 memory handles are open on GPU 0"},
    };
    return crig_main(argc, argv, "cuda_ipc", roles, sizeof roles / sizeof *roles);
}
