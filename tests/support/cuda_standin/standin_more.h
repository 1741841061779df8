/* Functions of the CUDA driver that the stand-in offers beyond those of our table: what a trainer
 * or a test calls by itself. */
#ifndef STANDIN_MORE_H
#define STANDIN_MORE_H

#include "proto/cuda_abi.h"

/* clang-format off */
typedef struct { char bytes[64]; } dlp_cu_ipc_event;
typedef struct dlp_cu_graph_object *dlp_cu_graph;
typedef void (*dlp_cu_host_function)(void *data);
typedef enum { DLP_CU_CAPTURE_GLOBAL = 0 } dlp_cu_capture_mode;

#define STANDIN_MORE_FUNCTIONS(X) \
    X(error_string, cuGetErrorString, (dlp_cu_result code, const char **text)) \
    X(host_alloc, cuMemHostAlloc, (void **at, size_t size, unsigned flags)) \
    X(host_free, cuMemFreeHost, (void *at)) \
    X(address_range, cuMemGetAddressRange_v2, (dlp_cu_pointer *base, size_t *size, dlp_cu_pointer at)) \
    X(ipc_get_event, cuIpcGetEventHandle, (dlp_cu_ipc_event *handle, dlp_cu_event event)) \
    X(ipc_open_event, cuIpcOpenEventHandle, (dlp_cu_event *event, dlp_cu_ipc_event handle)) \
    X(stream_wait, cuStreamWaitEvent, (dlp_cu_stream stream, dlp_cu_event event, unsigned flags)) \
    X(host_call, cuLaunchHostFunc, (dlp_cu_stream stream, dlp_cu_host_function function, void *data)) \
    X(capture_begin, cuStreamBeginCapture_v2, (dlp_cu_stream stream, dlp_cu_capture_mode mode)) \
    X(capture_end, cuStreamEndCapture, (dlp_cu_stream stream, dlp_cu_graph *graph)) \
    X(graph_destroy, cuGraphDestroy, (dlp_cu_graph graph))

/* The same without _v2: another interface, which nobody should call. */
#define STANDIN_OLD_FUNCTIONS(X) \
    X(cuDeviceGetUuid) X(cuDeviceTotalMem) X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent) X(cuCtxPopCurrent) \
    X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemGetAddressRange) X(cuMemHostRegister) \
    X(cuIpcOpenMemHandle) X(cuStreamDestroy) X(cuEventDestroy) X(cuStreamBeginCapture) \
    X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync)
/* clang-format on */

#endif
