/* The stand-in: streams, callbacks, captures, and work that fails or never ends. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cuda_rig.h"

static char pinned[4096];

static dlp_cu_pointer start(void)
{
    dlp_cu_pointer at;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, sizeof pinned));
    CU(0, cu.host_register(pinned, sizeof pinned, 0));
    return at;
}

static void stop(dlp_cu_pointer at)
{
    CU(0, cu.host_unregister(pinned));
    CU(0, cu.memory_free(at));
    crig_stop();
}

static void handles(int peer)
{
    (void)peer;
    dlp_cu_pointer at = start();
    dlp_cu_event event;
    dlp_cu_stream gone;
    dlp_cu_context context;
    CU(0, cu.stream_context(crig_stream, &context));
    NEED(context == crig_context);
    CU(0, cu.event_create(&event, DLP_CU_EVENT_DISABLE_TIMING));
    CU(DLP_CU_INVALID_HANDLE, cu.copy_to_device(at, pinned, 1, NULL));
    CU(DLP_CU_INVALID_HANDLE, cu.stream_synchronize(NULL));
    CU(DLP_CU_INVALID_HANDLE, cu.stream_query((dlp_cu_stream)(uintptr_t)2));
    CU(DLP_CU_INVALID_HANDLE, cu.event_record(event, NULL));
    CU(DLP_CU_INVALID_HANDLE, cu.event_record(NULL, crig_stream));
    CU(0, cu.stream_create(&gone, 0, -1));
    CU(0, cu.stream_destroy(gone));
    CU(DLP_CU_INVALID_HANDLE, cu.stream_query(gone));
    CU(DLP_CU_INVALID_HANDLE, cu.stream_destroy(gone));
    CU(DLP_CU_INVALID_VALUE, cu.stream_create(&gone, 8, 0));
    CU(0, cu.event_destroy(event));
    stop(at);
}

static void in_order(int peer)
{
    (void)peer;
    static char back[4096];
    dlp_cu_pointer at = start();
    memset(pinned, 7, sizeof pinned);
    crig_gate(crig_stream);
    for (size_t i = 0; i < 20; i++) {
        CU(0, cu.copy_to_device(at + 100 * i, pinned, 100, crig_stream));
        CU(0, cu.copy_on_device(at + 3000, at + 100 * i, 100, crig_stream));
    }
    CU(DLP_CU_NOT_READY, cu.stream_query(crig_stream));
    crig_open();
    crig_sync();
    CU(0, cu.stream_query(crig_stream));
    crig_get(back, at + 3000, 100);
    NEED(memcmp(back, pinned, 100) == 0);
    stop(at);
}

/* Destroying a stream does not wait for it, and does not end its work. */
static void destroyed_at_work(int peer)
{
    (void)peer;
    dlp_cu_pointer at = start();
    dlp_cu_stream stream;
    dlp_cu_event event;
    char back = 0;
    *pinned = 5;
    CU(0, cu.event_create(&event, DLP_CU_EVENT_DISABLE_TIMING));
    CU(0, cu.stream_create(&stream, 0, 0));
    crig_gate(stream);
    CU(0, cu.copy_to_device(at, pinned, 1, stream));
    CU(0, cu.event_record(event, stream));
    CU(0, cu.stream_destroy(stream));
    CU(DLP_CU_NOT_READY, cu.event_query(event));
    crig_open();
    CU(0, cu.event_synchronize(event));
    crig_get(&back, at, 1);
    NEED(back == 5);
    CU(0, cu.event_destroy(event));
    stop(at);
}

static dlp_cu_result inside = 0;

static void calls_cuda(void *data)
{
    int count;
    inside = cu.device_count(&count);
    *(int *)data = 1;
}

static void callback(int peer)
{
    (void)peer;
    int called = 0;
    crig_start(0);
    CU(0, more.host_call(crig_stream, calls_cuda, &called));
    crig_sync();
    NEED(called && inside == DLP_CU_NOT_PERMITTED);
    crig_stop();
}

/* The call is fine, the work is not: as on a GPU. */
static void fails_later(int peer)
{
    (void)peer;
    int called = 0;
    dlp_cu_pointer at = start();
    dlp_cu_event event;
    CU(0, cu.event_create(&event, DLP_CU_EVENT_DISABLE_TIMING));
    CU(0, cu.copy_to_device(at, pinned, 1, crig_stream));
    CU(0, cu.copy_to_device(at, pinned, 1, crig_stream));
    CU(0, cu.event_record(event, crig_stream));
    CU(0, more.host_call(crig_stream, calls_cuda, &called)); /* not after an error */
    CU(DLP_CU_LAUNCH_FAILED, cu.stream_synchronize(crig_stream));
    CU(DLP_CU_LAUNCH_FAILED, cu.event_query(event));
    NEED(!called);
}

static void never_ends(int peer)
{
    (void)peer;
    dlp_cu_pointer at = start();
    CU(0, cu.copy_to_device(at, pinned, 1, crig_stream));
    usleep(100000);
    CU(DLP_CU_NOT_READY, cu.stream_query(crig_stream));
    signal(SIGABRT, SIG_DFL);
    crig_sync();
}

static void captured(int peer)
{
    (void)peer;
    dlp_cu_pointer at = start();
    dlp_cu_capture status;
    dlp_cu_graph graph;
    dlp_cu_event event;
    CU(0, cu.event_create(&event, DLP_CU_EVENT_DISABLE_TIMING));
    CU(0, cu.stream_capturing(crig_stream, &status));
    NEED(status == DLP_CU_CAPTURE_NONE);
    CU(0, more.capture_begin(crig_stream, DLP_CU_CAPTURE_GLOBAL));
    CU(0, cu.stream_capturing(crig_stream, &status));
    NEED(status == DLP_CU_CAPTURE_ACTIVE);
    CU(0, cu.copy_to_device(at, pinned, 10, crig_stream));
    CU(0, cu.event_record(event, crig_stream));
    CU(DLP_CU_CAPTURED_EVENT, cu.event_query(event));
    CU(DLP_CU_STREAM_CAPTURE_UNSUPPORTED, cu.stream_query(crig_stream));
    CU(0, more.capture_end(crig_stream, &graph));
    CU(0, more.graph_destroy(graph));
    CU(0, cu.event_record(event, crig_stream));
    CU(0, cu.event_synchronize(event));
    CU(0, more.capture_begin(crig_stream, DLP_CU_CAPTURE_GLOBAL));
    CU(DLP_CU_STREAM_CAPTURE_UNSUPPORTED, cu.stream_synchronize(crig_stream));
    CU(0, cu.stream_capturing(crig_stream, &status));
    NEED(status == DLP_CU_CAPTURE_INVALIDATED);
    CU(DLP_CU_STREAM_CAPTURE_INVALIDATED, more.capture_end(crig_stream, &graph));
    CU(0, cu.event_destroy(event));
    stop(at);
}

/* What gives memory back waits for all that is queued. */
static void drained(int peer)
{
    (void)peer;
    dlp_cu_pointer at = start(), other;
    CU(0, cu.memory_alloc(&other, 100));
    CU(0, cu.copy_to_device(at, pinned, 100, crig_stream));
    CU(0, cu.memory_free(other));
    CU(0, cu.stream_query(crig_stream));
    CU(0, cu.copy_to_device(at, pinned, 100, crig_stream));
    CU(0, cu.host_unregister(pinned));
    CU(0, cu.stream_query(crig_stream));
    CU(0, cu.host_register(pinned, sizeof pinned, 0));
    stop(at);
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"handles", handles},
        {"in_order", in_order, "STANDIN_OP_US=500 STANDIN_JITTER=5"},
        {"destroyed_at_work", destroyed_at_work},
        {"callback", callback},
        {"fails_later", fails_later,
         "STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:2:@719 STANDIN_OP_US=9000"},
        {"never_ends", never_ends, "STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:1:hang STANDIN_HANG_S=1",
         128 + SIGABRT, "cuStreamSynchronize has waited for 1 s"},
        {"hang_dump", never_ends, "STANDIN_FAULTS=cuMemcpyHtoDAsync_v2:1:hang STANDIN_HANG_S=1",
         128 + SIGABRT, "runs copy to the GPU"},
        {"captured", captured},
        {"drained", drained, "STANDIN_OP_US=20000"},
    };
    return crig_main(argc, argv, "cuda_stream", roles, sizeof roles / sizeof *roles);
}
