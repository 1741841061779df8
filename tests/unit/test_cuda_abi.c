/* Our declarations of the CUDA driver against the toolkit's header (at compile time) and against
 * its stub of the driver, which exports what every driver does. Skipped without a toolkit. */
#include <stdio.h>

#ifndef CUDA_TOOLKIT_STUB

int main(void)
{
    puts("skipped: no CUDA toolkit was found when this was built");
    return 77;
}

#else

#include <check.h>
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_standin/standin_more.h"
#include "proto/cuda_result.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define SAME_FIELD(ours, a, theirs, b)                                                             \
    _Static_assert(offsetof(ours, a) == offsetof(theirs, b) &&                                     \
                       sizeof(((ours *)0)->a) == sizeof(((theirs *)0)->b),                         \
                   #ours "." #a)
#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs), #ours)

#define X(code, name, err, fate, cause) SAME(DLP_CU_##name, CUDA_ERROR_##name);
DLP_CU_RESULTS(X)
#undef X
SAME(DLP_CU_SUCCESS, CUDA_SUCCESS);
SAME(DLP_CU_MODE_DEFAULT, CU_COMPUTEMODE_DEFAULT);
SAME(DLP_CU_MODE_PROHIBITED, CU_COMPUTEMODE_PROHIBITED);
SAME(DLP_CU_MODE_EXCLUSIVE, CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
SAME(DLP_CU_DEVICE_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME(DLP_CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(DLP_CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(DLP_CU_DEVICE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(DLP_CU_DEVICE_POSIX_FD, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
#if CUDA_VERSION >= 12030
SAME(DLP_CU_DEVICE_NUMA_NODE, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
#endif
SAME(DLP_CU_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(DLP_CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(DLP_CU_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(DLP_CU_POINTER_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(DLP_CU_POINTER_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(DLP_CU_POINTER_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(DLP_CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(DLP_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(DLP_CU_HANDLE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME(DLP_CU_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(DLP_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(DLP_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(DLP_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(DLP_CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(DLP_CU_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(DLP_CU_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(DLP_CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(DLP_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(DLP_CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(DLP_CU_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(DLP_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(DLP_CU_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
SAME(DLP_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(DLP_CU_EVENT_INTERPROCESS, CU_EVENT_INTERPROCESS);
SAME(DLP_CU_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(DLP_CU_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);

SAME_SIZE(dlp_cu_result, CUresult);
SAME_SIZE(dlp_cu_device, CUdevice);
SAME_SIZE(dlp_cu_pointer, CUdeviceptr);
SAME_SIZE(dlp_cu_memory, CUmemGenericAllocationHandle);
SAME_SIZE(dlp_cu_uuid, CUuuid);
SAME_SIZE(dlp_cu_ipc_memory, CUipcMemHandle);
SAME_SIZE(dlp_cu_ipc_event, CUipcEventHandle);
SAME_SIZE(dlp_cu_device_attribute, CUdevice_attribute);
SAME_SIZE(dlp_cu_pointer_attribute, CUpointer_attribute);
SAME_SIZE(dlp_cu_handle_type, CUmemAllocationHandleType);
SAME_SIZE(dlp_cu_granularity, CUmemAllocationGranularity_flags);
SAME_SIZE(dlp_cu_capture, CUstreamCaptureStatus);
SAME_SIZE(dlp_cu_location, CUmemLocation);
SAME_FIELD(dlp_cu_location, type, CUmemLocation, type);
SAME_FIELD(dlp_cu_location, id, CUmemLocation, id);
SAME_SIZE(dlp_cu_access, CUmemAccessDesc);
SAME_FIELD(dlp_cu_access, location, CUmemAccessDesc, location);
SAME_FIELD(dlp_cu_access, flags, CUmemAccessDesc, flags);
SAME_SIZE(dlp_cu_allocation, CUmemAllocationProp);
SAME_FIELD(dlp_cu_allocation, type, CUmemAllocationProp, type);
SAME_FIELD(dlp_cu_allocation, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(dlp_cu_allocation, location, CUmemAllocationProp, location);
SAME_FIELD(dlp_cu_allocation, windows, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(dlp_cu_allocation, flags.compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_FIELD(dlp_cu_allocation, flags.rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_FIELD(dlp_cu_allocation, flags.usage, CUmemAllocationProp, allocFlags.usage);

/* The prototypes: our table, read once more with their types for ours. */
#define dlp_cu_result CUresult
#define dlp_cu_device CUdevice
#define dlp_cu_pointer CUdeviceptr
#define dlp_cu_memory CUmemGenericAllocationHandle
#define dlp_cu_context CUcontext
#define dlp_cu_stream CUstream
#define dlp_cu_event CUevent
#define dlp_cu_module CUmodule
#define dlp_cu_function CUfunction
#define dlp_cu_device_attribute CUdevice_attribute
#define dlp_cu_pointer_attribute CUpointer_attribute
#define dlp_cu_handle_type CUmemAllocationHandleType
#define dlp_cu_granularity CUmemAllocationGranularity_flags
#define dlp_cu_capture CUstreamCaptureStatus
#define dlp_cu_uuid CUuuid
#define dlp_cu_ipc_memory CUipcMemHandle
#define dlp_cu_access CUmemAccessDesc
#define dlp_cu_allocation CUmemAllocationProp
#define dlp_cu_ipc_event CUipcEventHandle
#define dlp_cu_graph CUgraph
#define dlp_cu_host_function CUhostFn
#define dlp_cu_capture_mode CUstreamCaptureMode
#define X(member, symbol, arguments)                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult arguments), #symbol);
DLP_CUDA_FUNCTIONS(X)
STANDIN_MORE_FUNCTIONS(X)
#undef X

/* All that a library exports, each name between line ends. */
static char *exports(const char *path)
{
    char command[600];
    size_t size = 0, room = 1 << 20;
    char *text = calloc(1, room);
    snprintf(command, sizeof command, "nm -D --defined-only '%s' | awk '{ print $NF }'", path);
    FILE *pipe = popen(command, "r"); /* NOLINT: a path of this build */
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_nonnull(pipe);
    text[size++] = '\n';
    size += fread(text + size, 1, room - size - 1, pipe);
    ck_assert_int_eq(pclose(pipe), 0);
    ck_assert_uint_lt(size, room - 1);
    return text;
}

/* The toolkit's stub has the names of every driver, the stand-in has what tests need of them. */
START_TEST(exported)
{
    const char *path = (const char *[]){CUDA_TOOLKIT_STUB, CUDA_STANDIN}[_i];
    char *names = exports(path);
#define HAS(symbol)                                                                                \
    ck_assert_msg(strstr(names, "\n" #symbol "\n"), "%s does not export %s", path, #symbol);
#define X(member, symbol, arguments) HAS(symbol)
    DLP_CUDA_FUNCTIONS(X)
    STANDIN_MORE_FUNCTIONS(X)
#undef X
    STANDIN_OLD_FUNCTIONS(HAS)
    free(names);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_abi");
    TCase *tcase = tcase_create("stub");
    tcase_add_loop_test(tcase, exported, 0, 2);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#endif
