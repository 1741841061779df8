/* The client library with batches on a GPU of the stand-in, against a daemon played by another
 * process of this test (fake_gpu.h). Each role of a client names the script of its daemon. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/dataload.h"
#include "cuda_rig.h"
#include "fake_gpu.h"

enum { BATCH = 4 }; /* rows */

static dataload *handle;
static dataload_options options = DATALOAD_OPTIONS_INIT;
static char path[FAKE_PATH];
static pid_t daemon_pid;

/* The faults of a test are its client's. */
static void start_daemon(const char *script)
{
    int peer;
    char settings[300];
    snprintf(settings, sizeof settings, "SCRIPT=%s STANDIN_FAULTS=none:1:1 STANDIN_INIT=0", script);
    daemon_pid = crig_spawn("daemon", settings, &peer);
    crig_send(peer, path, FAKE_PATH, -1);
    crig_receive(peer, path, FAKE_PATH);
    close(peer);
    options.socket = path;
}

static void end(void)
{
    dataload_detach(handle);
    handle = NULL;
    NEED(crig_wait(daemon_pid) == 0);
}

static void try(int expected, int got, const char *text)
{
    if (got != expected || !strstr(dataload_error(handle), text)) {
        fprintf(stderr, "%d, not %d: %s\n", got, expected, dataload_error(handle));
        _exit(2);
    }
}

static void attach(const char *script, int device)
{
    start_daemon(script);
    options.device = device;
    options.reconnect_ms = 0;
    try(0, dataload_attach("a-feed", &options, &handle), "");
}

static dataload_batch *take(uint64_t step)
{
    dataload_batch *batch;
    try(0, dataload_next(handle, 10000, &batch), "");
    NEED(dataload_batch_step(batch) == step);
    return batch;
}

static void check_field(const dataload_batch *batch, const char *name, uint64_t bytes, int value)
{
    dataload_tensor tensor;
    uint8_t back[1000];
    NEED(dataload_batch_tensor(batch, name, &tensor) == 0);
    NEED(tensor.bytes == bytes);
    crig_get(back, (uintptr_t)tensor.data, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        NEED(back[i] == value);
    for (uint64_t i = 0; tensor.offsets && i <= BATCH; i++)
        NEED(tensor.offsets[i] == i * FAKE_TEXT_ROW);
}

static void check_batch(const dataload_batch *batch)
{
    int value = (int)dataload_batch_step(batch) + 1;
    check_field(batch, "image", BATCH * 24, value);
    check_field(batch, "text", BATCH * FAKE_TEXT_ROW, value);
    check_field(batch, "index", BATCH * 8, value);
}

/* Its values are those of the feed's own conversion: tests/e2e/test_gpu_convert.py. */
static void check_convert_refused(const dataload_batch *batch)
{
    void *to = (void *)(uintptr_t)4096;
    const dataload_dtype dtype = DATALOAD_FLOAT32;
    int r = dataload_batch_convert(batch, "image", to, 1000, dtype, NULL, NULL, crig_stream);
    try(-EINVAL, r, "field image: only pictures of uint8");
    r = dataload_batch_convert(batch, "none", to, 1000, dtype, NULL, NULL, crig_stream);
    NEED(r == -ENOENT);
}

static dataload_info info_of(void)
{
    dataload_info info = {.size = sizeof info};
    NEED(dataload_get_info(handle, &info) == 0);
    return info;
}

static void check_copy_to(const dataload_batch *batch)
{
    uint8_t back[BATCH * 24];
    dlp_cu_pointer buffer;
    CU(0, cu.memory_alloc(&buffer, sizeof back));
    void *to = (void *)(uintptr_t)buffer;
    try(-ENOSPC, dataload_batch_copy_to(batch, "image", to, sizeof back - 1, crig_stream),
        "field image has 96 bytes, there is room for 95");
    try(0, dataload_batch_copy_to(batch, "image", to, sizeof back, crig_stream), "");
    crig_get(back, buffer, sizeof back);
    NEED(back[0] == dataload_batch_step(batch) + 1 && back[95] == back[0]);
    NEED(dataload_batch_copy_to(batch, "none", to, sizeof back, crig_stream) == -ENOENT);
    CU(0, cu.memory_free(buffer));
}

static void batches(int peer)
{
    (void)peer;
    dlp_cu_context now;
    crig_start(0);
    attach("batches", DATALOAD_GPU);
    dataload_info info = info_of();
    bool ipc = strcmp(getenv("KIND"), "ipc") == 0;
    NEED(info.memory == (ipc ? DATALOAD_IN_IPC : DATALOAD_IN_VMM) && info.device == 0);
    NEED(strcmp(info.memory_why, ipc ? "no VMM today" : "") == 0);
    for (uint64_t step = 0; step < 4; step++) {
        dataload_batch *batch = take(step);
        check_batch(batch);
        check_copy_to(batch);
        check_convert_refused(batch);
        try(0,
            step % 2 ? dataload_release(handle, batch)
                     : dataload_release_on(handle, batch, crig_stream),
            "");
        try(-EINVAL, dataload_release_on(handle, batch, crig_stream), "not lent");
        dataload_tensor tensor;
        NEED(dataload_batch_tensor(batch, "image", &tensor) == -EINVAL);
    }
    CU(0, cu.context_current(&now));
    NEED(now == crig_context);
    end();
    crig_stop();
}

/* No context is current, before and after. */
static void no_context(int peer)
{
    (void)peer;
    dlp_cu_context now;
    crig_start(0);
    CU(0, cu.context_pop(&now));
    attach("held", DATALOAD_AUTO);
    dataload_batch *batch = take(0);
    CU(0, cu.context_current(&now));
    NEED(!now && info_of().memory == DATALOAD_IN_VMM);
    CU(0, cu.context_push(crig_context));
    check_batch(batch);
    end();
    crig_stop();
}

static void second_gpu(int peer)
{
    (void)peer;
    dlp_cu_uuid second;
    crig_start(1);
    CU(0, cu.device_uuid(&second, 1));
    attach("held", DATALOAD_GPU);
    check_batch(take(0));
    NEED(info_of().device == 1 && memcmp(info_of().gpu, &second, 16) == 0);
    end();
    crig_stop();
}

static void behind_work(int peer)
{
    (void)peer;
    dlp_cu_stream other;
    crig_start(0);
    CU(0, cu.stream_create(&other, DLP_CU_STREAM_NON_BLOCKING, 0));
    attach("two", DATALOAD_GPU);
    dataload_batch *first = take(0), *second = take(1), *none;
    crig_gate(crig_stream);
    try(0, dataload_release_on(handle, first, crig_stream), "");
    try(0, dataload_release_on(handle, second, other), "");
    CU(0, cu.stream_synchronize(other));
    try(-ETIMEDOUT, dataload_next(handle, 50, &none), "");
    dataload_stats stats = {.size = sizeof stats};
    NEED(dataload_get_stats(handle, &stats) == 0 && stats.held == 0);
    crig_open();
    CU(0, cu.stream_synchronize(crig_stream));
    try(-ETIMEDOUT, dataload_next(handle, 0, &none), "");
    end();
    CU(0, cu.stream_destroy(other));
    crig_stop();
}

static void capture(int peer)
{
    (void)peer;
    dlp_cu_graph graph;
    dlp_cu_pointer buffer;
    crig_start(0);
    CU(0, cu.memory_alloc(&buffer, 96));
    attach("held", DATALOAD_GPU);
    dataload_batch *batch = take(0);
    CU(0, more.capture_begin(crig_stream, DLP_CU_CAPTURE_GLOBAL));
    try(-EBUSY, dataload_release_on(handle, batch, crig_stream), "still lent");
    void *to = (void *)(uintptr_t)buffer;
    try(-EBUSY, dataload_batch_copy_to(batch, "image", to, 96, crig_stream), "captured");
    CU(0, more.capture_end(crig_stream, &graph));
    CU(0, more.graph_destroy(graph));
    check_batch(batch);
    end();
    CU(0, cu.memory_free(buffer));
    crig_stop();
}

static void check_host(const dataload_batch *batch)
{
    dataload_tensor tensor;
    uint8_t back[96];
    NEED(dataload_batch_tensor(batch, "image", &tensor) == 0);
    NEED(((uint8_t *)tensor.data)[95] == 1);
    NEED(dataload_batch_copy_to(batch, "image", back, sizeof back, NULL) == 0 && back[95] == 1);
    int r = dataload_batch_convert(batch, "image", back, 96, DATALOAD_UINT8, NULL, NULL, NULL);
    try(-EOPNOTSUPP, r, "shared memory");
}

static void falls_back(const char *script, const char *why)
{
    attach(script, DATALOAD_AUTO);
    dataload_batch *batch = take(0);
    check_host(batch);
    dataload_info info = info_of();
    NEED(info.memory == DATALOAD_IN_HOST && info.device == -1);
    if (!strstr(info.memory_why, why))
        fprintf(stderr, "%s\n", info.memory_why);
    NEED(strstr(info.memory_why, why));
    try(0, dataload_release_on(handle, batch, NULL), "");
    end();
}

static void not_passed(int peer)
{
    (void)peer;
    crig_load();
    falls_back("not_passed", "the trainer cannot read it");
}

static void not_passed_after_seek(int peer)
{
    (void)peer;
    crig_load();
    attach("sought", DATALOAD_AUTO);
    try(0, dataload_set_epoch(handle, 7), "");
    dataload_batch *batch = take(0);
    NEED(dataload_batch_epoch(batch) == 7);
    check_host(batch);
    try(0, dataload_release(handle, batch), "");
    end();
}

static void ended_by_error(int peer)
{
    (void)peer;
    dataload_batch *none;
    crig_load();
    attach("ends", DATALOAD_GPU);
    try(-ECANCELED, dataload_next(handle, 10000, &none), "too many bad samples");
    end();
}

static void refused(int peer)
{
    (void)peer;
    dataload_batch *batch;
    crig_load();
    attach("refuses", DATALOAD_GPU);
    try(-ENODEV, dataload_next(handle, 10000, &batch), "the trainer has read other bytes");
    end();
}

static void failure(int peer)
{
    (void)peer;
    falls_back("failure", "the trainer cannot read it");
}

static void unreadable(int peer)
{
    (void)peer;
    start_daemon("unreadable");
    options.device = DATALOAD_AUTO;
    try(-EFAULT, dataload_attach("a-feed", &options, &handle), "cannot be read: cuMemcpyDtoHAsync");
    end();
}

static void wrong_kinds(int peer)
{
    (void)peer;
    falls_back("wrong_kinds", "the trainer cannot read it");
}

static void no_driver(int peer)
{
    (void)peer;
    falls_back("hosts", "cuInit: CUDA_ERROR_NO_DEVICE (100)");
    options.device = DATALOAD_GPU;
    try(-ENODEV, dataload_attach("a-feed", &options, &handle), "batches on a GPU: cuInit");
    dataload_detach(handle);
}

static void liar(int peer)
{
    (void)peer;
    start_daemon("liar");
    bool host = strcmp(getenv("LIE"), "unasked") == 0;
    options.device = host ? DATALOAD_HOST : DATALOAD_GPU;
    try(-EPROTO, dataload_attach("a-feed", &options, &handle), getenv("SAYS"));
    end();
}

/* Everything that the library asks of the driver before the first offer. */
static void no_start(int peer)
{
    (void)peer;
    options.device = DATALOAD_GPU;
    options.socket = "/nowhere";
    try(-ENODEV, dataload_attach("a-feed", &options, &handle), getenv("STEP"));
    dataload_detach(handle);
}

static void kill_daemon(void)
{
    kill(daemon_pid, SIGKILL);
    NEED(crig_wait(daemon_pid) == 128 + SIGKILL);
}

static void daemon_dies(int peer)
{
    (void)peer;
    dataload_batch *none;
    crig_start(0);
    start_daemon("victim");
    options.device = DATALOAD_AUTO;
    try(0, dataload_attach("a-feed", &options, &handle), "");
    dataload_batch *held = take(0);
    crig_gate(crig_stream);
    kill_daemon();
    try(-ETIMEDOUT, dataload_next(handle, 0, &none), "");
    NEED(info_of().memory != DATALOAD_IN_HOST && info_of().device == 0);
    start_daemon("back");
    dataload_batch *batch = take(1);
    dataload_tensor tensor;
    if (strcmp(getenv("KIND"), "ipc") == 0)
        NEED(dataload_batch_tensor(held, "image", &tensor) == -EOWNERDEAD);
    else
        NEED(dataload_batch_tensor(held, "image", &tensor) == 0);
    try(0, dataload_release_on(handle, held, crig_stream), "");
    crig_open();
    if (strcmp(getenv("KIND"), "vmm") == 0)
        check_batch(batch);
    try(0, dataload_release(handle, batch), "");
    end();
    crig_stop();
}

static void forked(int peer)
{
    (void)peer;
    crig_start(0);
    attach("held", DATALOAD_GPU);
    dataload_batch *batch = take(0);
    pid_t pid = fork();
    if (pid == 0) {
        dataload_tensor tensor;
        dataload_batch *none;
        int wrong = dataload_next(handle, 0, &none) != -ENOLCK ||
                    dataload_batch_tensor(batch, "image", &tensor) != -ENOLCK;
        dataload_detach(handle);
        _exit(wrong);
    }
    NEED(crig_wait(pid) == 0);
    check_batch(batch);
    end();
    crig_stop();
}

/* The context is lost with work on a batch given back. */
static void lost(int peer)
{
    (void)peer;
    dataload_batch *none;
    crig_start(0);
    attach("left", DATALOAD_GPU);
    dataload_batch *batch = take(0);
    crig_gate(crig_stream);
    try(0, dataload_release_on(handle, batch, crig_stream), "");
    try(-EFAULT, dataload_next(handle, 1000, &none), "cuEventQuery");
    crig_open();
    end();
}

#define FAULT(kind, step, result, call)                                                            \
    {                                                                                              \
        "fault_" step, failure,                                                                    \
            "KIND=" kind " STEP=" step " RESULT=" #result " STANDIN_FAULTS=" call ":" #result      \
    }
#define LIE(kind, lie, says)                                                                       \
    {                                                                                              \
        "lie_" lie, liar, "KIND=" kind " LIE=" lie " SAYS=" says                                   \
    }
#define NO_START(step, call)                                                                       \
    {                                                                                              \
        "no_start_" step, no_start, "STEP=" step " STANDIN_FAULTS=" call ":1:2"                    \
    }

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"daemon", fake_gpu_play, .is_peer = true},
        {"vmm", batches, "KIND=vmm STANDIN_JITTER=3"},
        {"ipc", batches, "KIND=ipc STANDIN_JITTER=3"},
        {"no_context", no_context, "KIND=vmm"},
        {"second_gpu", second_gpu, "KIND=vmm STANDIN_DEVICES=2 GPU=1"},
        {"behind_work", behind_work, "KIND=vmm"},
        {"capture", capture, "KIND=vmm"},
        {"not_passed", not_passed},
        {"not_passed_after_seek", not_passed_after_seek},
        {"ended_by_error", ended_by_error},
        {"refused", refused},
        {"wrong_kinds", wrong_kinds},
        {"unreadable", unreadable,
         "KIND=ipc STANDIN_FAULTS=cuMemcpyDtoHAsync_v2:1:!700 STANDIN_STRICT=0", .report = "leak"},
        {"no_driver", no_driver, "STANDIN_INIT=100"},
        {"dies_vmm", daemon_dies, "KIND=vmm"},
        {"dies_ipc", daemon_dies, "KIND=ipc"},
        {"forked", forked, "KIND=vmm"},
        {"lost", lost, "KIND=vmm STANDIN_FAULTS=cuEventQuery:1:!700"},
        {"lost_ipc", lost, "KIND=ipc STANDIN_FAULTS=cuEventQuery:1:!700 STANDIN_STRICT=0",
         .report = "leak"},
        LIE("vmm", "uuid", "another"),
        LIE("vmm", "short", "another"),
        LIE("vmm", "bytes", "smaller"),
        LIE("vmm", "nonce", "smaller"),
        LIE("ipc", "handle", "size"),
        LIE("vmm", "kind", "kind"),
        LIE("vmm", "descriptor", "descriptors"),
        LIE("vmm", "host", "instead"),
        LIE("vmm", "unasked", "asked"),
        FAULT("vmm", "cuMemImportFromShareableHandle", 400, "cuMemImportFromShareableHandle:1"),
        FAULT("vmm", "cuMemAddressReserve", 2, "cuMemAddressReserve:1"),
        FAULT("vmm", "cuMemMap", 2, "cuMemMap:1"),
        FAULT("vmm", "cuMemSetAccess", 801, "cuMemSetAccess:1"),
        FAULT("vmm", "cuMemcpyDtoHAsync", 1, "cuMemcpyDtoHAsync_v2:1"),
        FAULT("vmm", "cuStreamSynchronize", 999, "cuStreamSynchronize:1"),
        FAULT("ipc", "cuIpcOpenMemHandle", 400, "cuIpcOpenMemHandle_v2:1"),
        FAULT("ipc", "cuPointerGetAttribute", 1, "cuPointerGetAttribute:1"),
        FAULT("ipc", "cuCtxPushCurrent", 999, "cuCtxPushCurrent_v2:2"),
        NO_START("cuCtxGetCurrent", "cuCtxGetCurrent"),
        NO_START("cuDeviceGet", "cuDeviceGet"),
        NO_START("cuDeviceGetUuid", "cuDeviceGetUuid_v2"),
        NO_START("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain"),
        NO_START("cuCtxPushCurrent", "cuCtxPushCurrent_v2"),
        NO_START("cuStreamCreateWithPriority", "cuStreamCreateWithPriority"),
    };
    return crig_main(argc, argv, "client_cuda", roles, sizeof roles / sizeof *roles);
}
