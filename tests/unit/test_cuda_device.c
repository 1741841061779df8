/* The stand-in: GPUs, contexts, what every call demands first, faults and reports. */
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_rig.h"

static void devices(int peer)
{
    (void)peer;
    int count, value;
    size_t bytes;
    char name[64];
    dlp_cu_uuid uuid, other;
    dlp_cu_device device;
    crig_load();
    CU(0, cu.device_count(&count));
    NEED(count == 2);
    CU(0, cu.device_get(&device, 1));
    CU(DLP_CU_INVALID_DEVICE, cu.device_get(&device, 2));
    CU(0, cu.device_name(name, sizeof name, 1));
    NEED(strcmp(name, "Stand-in GPU 1") == 0);
    CU(0, cu.device_uuid(&uuid, 0));
    CU(0, cu.device_uuid(&other, 1));
    NEED(memcmp(&uuid, &other, sizeof uuid) != 0);
    CU(0, cu.device_memory(&bytes, 0));
    NEED(bytes == 64 << 20);
    CU(0, cu.device_attribute(&value, DLP_CU_DEVICE_VMM, 0));
    NEED(value == 1);
    CU(0, cu.device_attribute(&value, DLP_CU_DEVICE_POSIX_FD, 0));
    NEED(value == 0);
    CU(0, cu.device_attribute(&value, DLP_CU_DEVICE_COMPUTE_MODE, 0));
    NEED(value == DLP_CU_MODE_DEFAULT);
    CU(0, cu.device_bus_id(name, sizeof name, 1));
    NEED(strcmp(name, "0000:11:00.0") == 0);
}

static void one_visible(int peer)
{
    (void)peer;
    int count;
    dlp_cu_uuid uuid;
    crig_load();
    CU(0, cu.device_count(&count));
    NEED(count == 1);
    CU(0, cu.device_uuid(&uuid, 0));
    NEED(uuid.bytes[15] == 2);
}

static void order_turned(int peer)
{
    (void)peer;
    int count;
    dlp_cu_uuid uuid;
    crig_load();
    CU(0, cu.device_count(&count));
    NEED(count == 2); /* 7 does not exist, and what follows it is not seen */
    CU(0, cu.device_uuid(&uuid, 0));
    NEED(uuid.bytes[15] == 1);
}

static void given_uuids(int peer)
{
    (void)peer;
    dlp_cu_uuid uuid;
    crig_load();
    CU(0, cu.device_uuid(&uuid, 1));
    NEED((unsigned char)uuid.bytes[0] == 0xFE && (unsigned char)uuid.bytes[15] == 0x10);
}

static void forked(int peer)
{
    (void)peer;
    int count, version;
    const char *name;
    crig_load();
    pid_t child = fork();
    if (child == 0) /* nothing of CUDA works in a forked child */
        _exit(cu.init(0) == DLP_CU_NOT_INITIALIZED && cu.device_count(&count) == 3 &&
                      cu.driver_version(&version) == 3
                  ? 0
                  : 1);
    NEED(crig_wait(child) == 0);
    CU(0, cu.error_name(700, &name));
    NEED(strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
    CU(0, more.error_string(700, &name));
    CU(DLP_CU_INVALID_VALUE, cu.error_name(12345, &name));
    CU(DLP_CU_INVALID_VALUE, cu.init(1));
}

static void not_initialised(int peer)
{
    (void)peer;
    int count;
    dlp_cu_result (*device_count)(int *count);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&device_count = dlsym(library, "cuDeviceGetCount");
    CU(DLP_CU_NOT_INITIALIZED, device_count(&count));
    dlclose(library);
}

static void no_context(int peer)
{
    (void)peer;
    dlp_cu_context context;
    dlp_cu_device device;
    dlp_cu_pointer at;
    dlp_cu_stream stream;
    dlp_cu_event event;
    crig_load();
    CU(0, cu.context_current(&context));
    NEED(context == NULL);
    CU(DLP_CU_INVALID_CONTEXT, cu.context_device(&device));
    CU(DLP_CU_INVALID_CONTEXT, cu.context_pop(&context));
    CU(DLP_CU_INVALID_CONTEXT, cu.memory_alloc(&at, 100));
    CU(DLP_CU_INVALID_CONTEXT, cu.stream_create(&stream, 0, 0));
    CU(DLP_CU_INVALID_CONTEXT, cu.event_create(&event, 0));
    CU(DLP_CU_INVALID_CONTEXT, cu.context_push(NULL));
    CU(DLP_CU_INVALID_CONTEXT, cu.context_release(0));
}

static void contexts(int peer)
{
    (void)peer;
    unsigned flags;
    int active;
    dlp_cu_context first, second, got;
    dlp_cu_device device;
    crig_load();
    CU(0, cu.context_state(0, &flags, &active));
    NEED(!active);
    CU(0, cu.context_retain(&first, 0));
    CU(0, cu.context_retain(&got, 0));
    NEED(got == first);
    CU(0, cu.context_retain(&second, 1));
    CU(0, cu.context_push(first));
    CU(0, cu.context_push(second));
    CU(0, cu.context_device(&device));
    NEED(device == 1);
    CU(0, cu.context_pop(&got));
    NEED(got == second);
    CU(0, cu.context_current(&got));
    NEED(got == first);
    CU(0, cu.context_release(0));
    CU(0, cu.context_state(0, &flags, &active));
    NEED(active);
    CU(0, cu.context_release(0));
    CU(DLP_CU_CONTEXT_IS_DESTROYED, cu.context_device(&device));
    CU(0, cu.context_release(1));
    CU(DLP_CU_INVALID_CONTEXT, cu.context_push(second));
}

static void prohibited(int peer)
{
    (void)peer;
    crig_load();
    CU(DLP_CU_DEVICE_UNAVAILABLE, cu.context_retain(&crig_context, 0));
}

static void exclusive_other(int peer)
{
    prohibited(peer);
    crig_tell(peer);
    crig_listen(peer);
    crig_start(0);
    crig_stop();
}

/* One process at a time; a second context of the same one is fine. */
static void exclusive(int peer)
{
    int other;
    crig_start(0);
    CU(0, cu.context_retain(&crig_context, 0));
    pid_t pid = crig_spawn("exclusive_other", NULL, &other);
    crig_listen(other);
    CU(0, cu.context_release(0));
    crig_stop();
    crig_tell(other);
    NEED(crig_wait(pid) == 0);
    (void)peer;
}

static void plain_fault(int peer)
{
    (void)peer;
    size_t free_bytes, total;
    crig_start(0);
    CU(0, cu.memory_info(&free_bytes, &total));
    CU(0, cu.memory_info(&free_bytes, &total));
    CU(DLP_CU_OPERATING_SYSTEM, cu.memory_info(&free_bytes, &total));
    CU(0, cu.memory_info(&free_bytes, &total));
    CU(DLP_CU_UNKNOWN, cu.stream_query(crig_stream));
    CU(DLP_CU_UNKNOWN, cu.stream_query(crig_stream));
    crig_stop();
}

/* After it the context answers everything with it, and its leaks are not the program's. */
static void sticky_fault(int peer)
{
    (void)peer;
    dlp_cu_pointer at;
    dlp_cu_event event;
    int count;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, 3 << 20));
    CU(0, cu.event_create(&event, 0));
    CU(DLP_CU_ECC_UNCORRECTABLE, cu.event_query(event));
    CU(DLP_CU_ECC_UNCORRECTABLE, cu.event_query(event));
    CU(DLP_CU_ECC_UNCORRECTABLE, cu.memory_free(at));
    CU(DLP_CU_ECC_UNCORRECTABLE, cu.device_count(&count));
    CU(DLP_CU_ECC_UNCORRECTABLE, cu.context_retain(&crig_context, 0));
    CU(0, cu.context_pop(&crig_context));
    CU(DLP_CU_ECC_UNCORRECTABLE, cu.context_release(0));
}

static void other_lives(int peer)
{
    (void)peer;
    dlp_cu_context second;
    crig_start(0);
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.stream_query(crig_stream));
    CU(0, cu.context_pop(&crig_context));
    CU(0, cu.context_retain(&second, 1));
    CU(0, cu.context_push(second));
    CU(0, cu.stream_create(&crig_stream, 0, 0));
    crig_sync();
    CU(0, cu.stream_destroy(crig_stream));
    CU(0, cu.context_release(1));
}

static void context_leaks(int peer)
{
    (void)peer;
    crig_start(0);
}

static void released_full(int peer)
{
    (void)peer;
    dlp_cu_event event;
    crig_start(0);
    CU(0, cu.event_create(&event, 0));
    CU(0, cu.stream_destroy(crig_stream));
    CU(0, cu.context_release(0));
}

static void old_interface(int peer)
{
    (void)peer;
    crig_load();
    void (*old)(void);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&old = dlsym(library, "cuMemAlloc");
    NEED(old != NULL);
    old();
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"devices", devices, "STANDIN_DEVICES=2 STANDIN_MEMORY_MB=64 STANDIN_POSIX_FD=0"},
        {"one_visible", one_visible, "STANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=2"},
        {"visible_uuid", one_visible,
         "STANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=GPU-5ca1ab1e-0000-4000-8000-000000000002"},
        {"order_turned", order_turned, "STANDIN_DEVICES=3 CUDA_VISIBLE_DEVICES=1,0,7,2"},
        {"given_uuids", given_uuids,
         "STANDIN_DEVICES=2 STANDIN_UUIDS=00112233445566778899aabbccddeeff,"
         "fedcba98765432100123456789abcd10"},
        {"not_initialised", not_initialised},
        {"forked", forked},
        {"no_context", no_context},
        {"contexts", contexts, "STANDIN_DEVICES=2"},
        {"prohibited", prohibited, "STANDIN_COMPUTE_MODE=2"},
        {"exclusive", exclusive, "STANDIN_COMPUTE_MODE=3"},
        {"exclusive_other", exclusive_other, .is_peer = true},
        {"plain_fault", plain_fault, "STANDIN_FAULTS=cuMemGetInfo_v2:3:304,cuStreamQuery:*:999"},
        {"sticky_fault", sticky_fault, "STANDIN_FAULTS=cuEventQuery:1:!214"},
        {"other_lives", other_lives, "STANDIN_DEVICES=2 STANDIN_FAULTS=cuStreamQuery:1:!700"},
        {"context_leaks", context_leaks, NULL, 99,
         "leak: the context of GPU 0 is retained 1 times"},
        {"leaks_allowed", context_leaks, "STANDIN_STRICT=0", 0, "leak: 1 streams of GPU 0"},
        {"released_full", released_full, NULL, 99, "leak: 1 events of GPU 0"},
        {"old_interface", old_interface, NULL, 128 + 6,
         "cuMemAlloc of the old interface was called"},
    };
    return crig_main(argc, argv, "cuda_device", roles, sizeof roles / sizeof *roles);
}
