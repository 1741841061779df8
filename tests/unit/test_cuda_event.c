/* The stand-in: events, within a process and between processes. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cuda_rig.h"

enum { PLAIN = DLP_CU_EVENT_DISABLE_TIMING, SHARED = PLAIN | DLP_CU_EVENT_INTERPROCESS };

static char pinned[4096];

/* Queues a copy that waits for crig_open. */
static void work(dlp_cu_pointer at, dlp_cu_stream stream)
{
    crig_gate(stream);
    CU(0, cu.copy_to_device(at, pinned, sizeof pinned, stream));
}

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

static void marks(int peer)
{
    (void)peer;
    dlp_cu_pointer at = start();
    dlp_cu_event event;
    CU(DLP_CU_INVALID_VALUE, cu.event_create(&event, DLP_CU_EVENT_INTERPROCESS));
    CU(DLP_CU_INVALID_VALUE, cu.event_create(&event, 8));
    CU(0, cu.event_create(&event, PLAIN));
    CU(0, cu.event_query(event)); /* never recorded = complete */
    CU(0, cu.event_synchronize(event));
    work(at, crig_stream);
    CU(0, cu.event_record(event, crig_stream));
    CU(DLP_CU_NOT_READY, cu.event_query(event));
    crig_open();
    CU(0, cu.event_synchronize(event));
    CU(0, cu.event_query(event));
    work(at, crig_stream);
    CU(0, cu.event_record(event, crig_stream)); /* recorded anew: complete no longer */
    CU(DLP_CU_NOT_READY, cu.event_query(event));
    crig_open();
    crig_sync();
    CU(0, cu.event_query(event));
    work(at, crig_stream);
    CU(0, cu.event_record(event, crig_stream));
    CU(0, cu.event_destroy(event)); /* with its mark still to come */
    CU(DLP_CU_INVALID_HANDLE, cu.event_query(event));
    CU(DLP_CU_INVALID_HANDLE, cu.event_destroy(event));
    crig_open();
    stop(at);
}

/* A stream waits for what was recorded when it was told to, not for what comes later. */
static void waits(int peer)
{
    (void)peer;
    char back = 0;
    dlp_cu_pointer at = start();
    dlp_cu_stream second;
    dlp_cu_event event;
    CU(0, cu.stream_create(&second, DLP_CU_STREAM_NON_BLOCKING, 0));
    CU(0, cu.event_create(&event, PLAIN));
    *pinned = 3;
    CU(0, more.stream_wait(second, event, 0)); /* unrecorded: passes at once */
    CU(0, cu.stream_synchronize(second));
    work(at, crig_stream);
    CU(0, cu.event_record(event, crig_stream));
    CU(0, more.stream_wait(second, event, 0));
    CU(0, cu.copy_on_device(at + 100, at, 1, second));
    work(at, crig_stream);
    CU(0, cu.event_record(event, crig_stream));
    CU(DLP_CU_NOT_READY, cu.stream_query(second));
    crig_open(); /* the second gate stays shut meanwhile */
    CU(0, cu.copy_to_host(&back, at + 100, 1, second));
    CU(0, cu.stream_synchronize(second));
    NEED(back == 3);
    CU(DLP_CU_NOT_READY, cu.event_query(event));
    crig_open();
    crig_sync();
    CU(DLP_CU_INVALID_VALUE, more.stream_wait(second, event, 4));
    CU(0, cu.event_destroy(event));
    CU(0, cu.stream_destroy(second));
    stop(at);
}

static void not_shared(int peer)
{
    (void)peer;
    dlp_cu_event event;
    dlp_cu_ipc_event handle;
    crig_start(0);
    CU(0, cu.event_create(&event, PLAIN));
    CU(DLP_CU_INVALID_HANDLE, more.ipc_get_event(&handle, event));
    CU(0, cu.event_destroy(event));
    memset(&handle, 0, sizeof handle);
    CU(DLP_CU_INVALID_VALUE, more.ipc_open_event(&event, handle));
    CU(0, cu.event_create(&event, SHARED));
    CU(0, more.ipc_get_event(&handle, event));
    dlp_cu_event other;
    CU(DLP_CU_INVALID_CONTEXT, more.ipc_open_event(&other, handle));
    CU(0, cu.event_destroy(event));
    crig_stop();
}

static void other_context(int peer)
{
    (void)peer;
    dlp_cu_event event;
    dlp_cu_stream stream;
    dlp_cu_context second;
    crig_start(0);
    CU(0, cu.event_create(&event, PLAIN));
    CU(0, cu.context_retain(&second, 1));
    CU(0, cu.context_push(second));
    CU(0, cu.stream_create(&stream, 0, 0));
    CU(DLP_CU_INVALID_HANDLE, cu.event_record(event, stream));
    CU(DLP_CU_INVALID_HANDLE, cu.event_query(event));
    CU(0, cu.stream_destroy(stream));
    CU(0, cu.context_pop(&second));
    CU(0, cu.context_release(1));
    CU(0, cu.event_destroy(event));
    crig_stop();
}

static dlp_cu_event take_event(int peer)
{
    dlp_cu_ipc_event handle;
    dlp_cu_event event;
    crig_receive(peer, &handle, sizeof handle);
    CU(0, more.ipc_open_event(&event, handle));
    return event;
}

/* Records behind work of its own and says so. */
static void recorder(int peer)
{
    dlp_cu_pointer at = start();
    dlp_cu_event event = take_event(peer);
    work(at, crig_stream);
    CU(0, cu.event_record(event, crig_stream));
    crig_tell(peer);
    crig_listen(peer);
    crig_open();
    crig_sync();
    crig_tell(peer);
    crig_listen(peer);
    CU(0, cu.event_destroy(event));
    stop(at);
}

static dlp_cu_event give_event(int other)
{
    dlp_cu_event event;
    dlp_cu_ipc_event handle;
    CU(0, cu.event_create(&event, SHARED));
    CU(0, more.ipc_get_event(&handle, event));
    crig_send(other, &handle, sizeof handle, -1);
    return event;
}

static void recorded_there(int peer)
{
    (void)peer;
    int other;
    crig_start(0);
    pid_t pid = crig_spawn("recorder", NULL, &other);
    dlp_cu_event event = give_event(other);
    crig_listen(other);
    CU(DLP_CU_NOT_READY, cu.event_query(event));
    crig_tell(other);
    CU(0, cu.event_synchronize(event));
    crig_listen(other);
    CU(0, cu.event_query(event));
    crig_tell(other);
    NEED(crig_wait(pid) == 0);
    CU(0, cu.event_destroy(event));
    crig_stop();
}

static void late_user(int peer)
{
    crig_start(0);
    dlp_cu_event event = take_event(peer);
    CU(0, cu.event_query(event));
    crig_tell(peer);
    crig_listen(peer);
    CU(DLP_CU_INVALID_HANDLE, cu.event_query(event));
    CU(DLP_CU_INVALID_HANDLE, cu.event_record(event, crig_stream));
    CU(0, cu.event_destroy(event));
    crig_stop();
}

static void destroyed_there(int peer)
{
    (void)peer;
    int other;
    crig_start(0);
    pid_t pid = crig_spawn("late_user", NULL, &other);
    dlp_cu_event event = give_event(other);
    crig_listen(other);
    CU(0, cu.event_destroy(event));
    crig_tell(other);
    NEED(crig_wait(pid) == 99);
    crig_stop();
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"marks", marks},
        {"waits", waits},
        {"not_shared", not_shared},
        {"other_context", other_context, "STANDIN_DEVICES=2"},
        {"recorder", recorder, .is_peer = true},
        {"recorded_there", recorded_there},
        {"late_user", late_user, .is_peer = true},
        {"destroyed_there", destroyed_there, NULL, 0, "used after its exporter has destroyed it"},
    };
    return crig_main(argc, argv, "cuda_event", roles, sizeof roles / sizeof *roles);
}
