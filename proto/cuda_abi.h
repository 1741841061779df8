/* The binary interface of the CUDA driver, as far as both ends use it: types, numbers and the table
 * of functions. Sizes, numbers and prototypes are those of NVIDIA's documentation of the driver API
 * and hold for every driver from 12.0 on; where the toolkit is installed, a test compares each of
 * them with its header. Names follow the driver's, in our spelling: CUstream is dlp_cu_stream. */
#ifndef DLP_CUDA_ABI_H
#define DLP_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned dlp_cu_result;            /* 0 = done; see cuda_result.h */
typedef int dlp_cu_device;                 /* place in the list that CUDA_VISIBLE_DEVICES leaves */
typedef unsigned long long dlp_cu_pointer; /* address in a GPU's memory; not for the CPU */
typedef unsigned long long dlp_cu_memory;  /* memory without an address yet */
typedef struct dlp_cu_context_object *dlp_cu_context;
typedef struct dlp_cu_stream_object *dlp_cu_stream;
typedef struct dlp_cu_event_object *dlp_cu_event;
typedef struct dlp_cu_module_object *dlp_cu_module;
typedef struct dlp_cu_function_object *dlp_cu_function;

/* clang-format off */
typedef enum { DLP_CU_MODE_DEFAULT = 0, DLP_CU_MODE_PROHIBITED = 2, DLP_CU_MODE_EXCLUSIVE = 3 } dlp_cu_mode;
typedef enum {
    DLP_CU_DEVICE_COMPUTE_MODE = 20, DLP_CU_DEVICE_MAJOR = 75, DLP_CU_DEVICE_MINOR = 76,
    DLP_CU_DEVICE_VMM = 102, DLP_CU_DEVICE_POSIX_FD = 103, DLP_CU_DEVICE_NUMA_NODE = 134,
} dlp_cu_device_attribute;
typedef enum {
    DLP_CU_POINTER_CONTEXT = 1, DLP_CU_POINTER_MEMORY_TYPE = 2, DLP_CU_POINTER_DEVICE = 9,
    DLP_CU_POINTER_IPC_CAPABLE = 10, DLP_CU_POINTER_START = 11, DLP_CU_POINTER_SIZE = 12,
} dlp_cu_pointer_attribute;
typedef enum { DLP_CU_HANDLE_NONE = 0, DLP_CU_HANDLE_POSIX_FD = 1 } dlp_cu_handle_type;
typedef enum { DLP_CU_ALLOCATION_PINNED = 1 } dlp_cu_allocation_type;
typedef enum { DLP_CU_LOCATION_DEVICE = 1 } dlp_cu_location_type;
typedef enum { DLP_CU_GRANULARITY_MINIMUM = 0, DLP_CU_GRANULARITY_RECOMMENDED = 1 } dlp_cu_granularity;
typedef enum { DLP_CU_ACCESS_NONE = 0, DLP_CU_ACCESS_READ = 1, DLP_CU_ACCESS_READWRITE = 3 } dlp_cu_access_flags;
typedef enum { DLP_CU_CAPTURE_NONE = 0, DLP_CU_CAPTURE_ACTIVE = 1, DLP_CU_CAPTURE_INVALIDATED = 2 } dlp_cu_capture;
enum { DLP_CU_STREAM_NON_BLOCKING = 1 };
enum { DLP_CU_EVENT_BLOCKING_SYNC = 1, DLP_CU_EVENT_DISABLE_TIMING = 2, DLP_CU_EVENT_INTERPROCESS = 4 };
enum { DLP_CU_IPC_LAZY_PEER_ACCESS = 1 }; /* the only flag that opening a handle takes */
enum { DLP_CU_HOST_PORTABLE = 1 };        /* pinned for all contexts */
enum { DLP_CU_MEMORY_HOST = 1, DLP_CU_MEMORY_DEVICE = 2 }; /* of DLP_CU_POINTER_MEMORY_TYPE */

typedef struct { char bytes[16]; } dlp_cu_uuid;
typedef struct { char bytes[64]; } dlp_cu_ipc_memory;
typedef struct { dlp_cu_location_type type; int id; } dlp_cu_location;
typedef struct { dlp_cu_location location; dlp_cu_access_flags flags; } dlp_cu_access;
typedef struct {
    dlp_cu_allocation_type type;
    dlp_cu_handle_type handle_types;
    dlp_cu_location location;
    void *windows; /* NULL */
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} dlp_cu_allocation;

/* X(member of the table, symbol, arguments). Only `_v2` symbols where there are two: the others are
 * the interface of CUDA 3 and 4, with other sizes or rules. */
#define DLP_CUDA_FUNCTIONS(X) \
    X(init, cuInit, (unsigned flags)) \
    X(driver_version, cuDriverGetVersion, (int *version)) \
    X(error_name, cuGetErrorName, (dlp_cu_result code, const char **name)) \
    X(device_count, cuDeviceGetCount, (int *count)) \
    X(device_get, cuDeviceGet, (dlp_cu_device *device, int ordinal)) \
    X(device_name, cuDeviceGetName, (char *name, int size, dlp_cu_device device)) \
    X(device_uuid, cuDeviceGetUuid_v2, (dlp_cu_uuid *uuid, dlp_cu_device device)) \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *bytes, dlp_cu_device device)) \
    X(device_attribute, cuDeviceGetAttribute, (int *value, dlp_cu_device_attribute attribute, dlp_cu_device device)) \
    X(device_bus_id, cuDeviceGetPCIBusId, (char *text, int size, dlp_cu_device device)) \
    X(context_retain, cuDevicePrimaryCtxRetain, (dlp_cu_context *context, dlp_cu_device device)) \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (dlp_cu_device device)) \
    X(context_state, cuDevicePrimaryCtxGetState, (dlp_cu_device device, unsigned *flags, int *active)) \
    X(context_current, cuCtxGetCurrent, (dlp_cu_context *context)) \
    X(context_device, cuCtxGetDevice, (dlp_cu_device *device)) \
    X(context_push, cuCtxPushCurrent_v2, (dlp_cu_context context)) \
    X(context_pop, cuCtxPopCurrent_v2, (dlp_cu_context *context)) \
    X(memory_info, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total)) \
    X(memory_granularity, cuMemGetAllocationGranularity, (size_t *bytes, const dlp_cu_allocation *what, dlp_cu_granularity which)) \
    X(memory_create, cuMemCreate, (dlp_cu_memory *memory, size_t size, const dlp_cu_allocation *what, unsigned long long flags)) \
    X(memory_release, cuMemRelease, (dlp_cu_memory memory)) \
    X(address_reserve, cuMemAddressReserve, (dlp_cu_pointer *at, size_t size, size_t align, dlp_cu_pointer wish, unsigned long long flags)) \
    X(address_free, cuMemAddressFree, (dlp_cu_pointer at, size_t size)) \
    X(memory_map, cuMemMap, (dlp_cu_pointer at, size_t size, size_t offset, dlp_cu_memory memory, unsigned long long flags)) \
    X(memory_unmap, cuMemUnmap, (dlp_cu_pointer at, size_t size)) \
    X(memory_access, cuMemSetAccess, (dlp_cu_pointer at, size_t size, const dlp_cu_access *access, size_t count)) \
    X(memory_export, cuMemExportToShareableHandle, (void *fd, dlp_cu_memory memory, dlp_cu_handle_type type, unsigned long long flags)) \
    X(memory_import, cuMemImportFromShareableHandle, (dlp_cu_memory *memory, void *fd, dlp_cu_handle_type type)) \
    X(memory_alloc, cuMemAlloc_v2, (dlp_cu_pointer *at, size_t size)) \
    X(memory_free, cuMemFree_v2, (dlp_cu_pointer at)) \
    X(ipc_get, cuIpcGetMemHandle, (dlp_cu_ipc_memory *handle, dlp_cu_pointer at)) \
    X(ipc_open, cuIpcOpenMemHandle_v2, (dlp_cu_pointer *at, dlp_cu_ipc_memory handle, unsigned flags)) \
    X(ipc_close, cuIpcCloseMemHandle, (dlp_cu_pointer at)) \
    X(pointer_attribute, cuPointerGetAttribute, (void *value, dlp_cu_pointer_attribute attribute, dlp_cu_pointer at)) \
    X(host_register, cuMemHostRegister_v2, (void *at, size_t size, unsigned flags)) \
    X(host_unregister, cuMemHostUnregister, (void *at)) \
    X(stream_create, cuStreamCreateWithPriority, (dlp_cu_stream *stream, unsigned flags, int priority)) \
    X(stream_destroy, cuStreamDestroy_v2, (dlp_cu_stream stream)) \
    X(stream_query, cuStreamQuery, (dlp_cu_stream stream)) \
    X(stream_synchronize, cuStreamSynchronize, (dlp_cu_stream stream)) \
    X(stream_capturing, cuStreamIsCapturing, (dlp_cu_stream stream, dlp_cu_capture *status)) \
    X(stream_context, cuStreamGetCtx, (dlp_cu_stream stream, dlp_cu_context *context)) \
    X(event_create, cuEventCreate, (dlp_cu_event *event, unsigned flags)) \
    X(event_destroy, cuEventDestroy_v2, (dlp_cu_event event)) \
    X(event_record, cuEventRecord, (dlp_cu_event event, dlp_cu_stream stream)) \
    X(event_query, cuEventQuery, (dlp_cu_event event)) \
    X(event_synchronize, cuEventSynchronize, (dlp_cu_event event)) \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (dlp_cu_pointer to, const void *from, size_t size, dlp_cu_stream stream)) \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, (void *to, dlp_cu_pointer from, size_t size, dlp_cu_stream stream)) \
    X(copy_on_device, cuMemcpyDtoDAsync_v2, (dlp_cu_pointer to, dlp_cu_pointer from, size_t size, dlp_cu_stream stream)) \
    X(memory_set, cuMemsetD8Async, (dlp_cu_pointer at, unsigned char value, size_t size, dlp_cu_stream stream)) \
    X(module_load, cuModuleLoadData, (dlp_cu_module *module, const void *image)) \
    X(module_unload, cuModuleUnload, (dlp_cu_module module)) \
    X(module_function, cuModuleGetFunction, (dlp_cu_function *function, dlp_cu_module module, const char *name)) \
    X(launch, cuLaunchKernel, (dlp_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, dlp_cu_stream stream, void **parameters, void **extra))
/* clang-format on */

#endif
