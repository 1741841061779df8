/* What the CUDA driver's results mean for us: name, errno, likely cause in words, and whether the
 * context is lost with it. One table; pure. */
#ifndef DLP_CUDA_RESULT_H
#define DLP_CUDA_RESULT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/cuda_abi.h"

enum { DLP_CU_KEPT, DLP_CU_LOST }; /* LOST: every later call in this context fails with it too */

/* clang-format off */
/* X(code, name after CUDA_ERROR_, errno, context kept or lost, likely cause) */
#define DLP_CU_RESULTS(X) \
    X(1,   INVALID_VALUE,       EINVAL,     KEPT, "a value, size or address is wrong, or the memory is not of the kind that this call takes") \
    X(2,   OUT_OF_MEMORY,       ENOMEM,     KEPT, "the GPU's memory is full") \
    X(3,   NOT_INITIALIZED,     EPERM,      KEPT, "the driver was not initialised in this process; a forked child cannot use CUDA") \
    X(4,   DEINITIALIZED,       ESHUTDOWN,  KEPT, "the driver is shutting down with the process") \
    X(34,  STUB_LIBRARY,        ENODEV,     KEPT, "the toolkit's stub of the driver was loaded; take its folder out of LD_LIBRARY_PATH") \
    X(36,  CALL_REQUIRES_NEWER_DRIVER, EOPNOTSUPP, KEPT, "the driver is too old for this call") \
    X(46,  DEVICE_UNAVAILABLE,  EBUSY,      KEPT, "the GPU's compute mode allows one process only, or none") \
    X(100, NO_DEVICE,           ENODEV,     KEPT, "no NVIDIA GPU is visible; see nvidia-smi, CUDA_VISIBLE_DEVICES and the container's devices") \
    X(101, INVALID_DEVICE,      ENODEV,     KEPT, "there is no GPU of that number") \
    X(200, INVALID_IMAGE,       ENOEXEC,    KEPT, "the kernels' image is not one") \
    X(201, INVALID_CONTEXT,     EINVAL,     KEPT, "no context is current, or the memory belongs to this very process or to another context") \
    X(205, MAP_FAILED,          EACCES,     KEPT, "the memory could not be mapped; the other process may belong to another user or container") \
    X(206, UNMAP_FAILED,        EIO,        KEPT, "the memory could not be unmapped") \
    X(208, ALREADY_MAPPED,      EEXIST,     KEPT, "the memory is mapped already") \
    X(209, NO_BINARY_FOR_GPU,   ENOEXEC,    KEPT, "the kernels were not built for this GPU") \
    X(214, ECC_UNCORRECTABLE,   EIO,        LOST, "the GPU's memory has an error that cannot be corrected; see nvidia-smi -q -d ECC") \
    X(217, PEER_ACCESS_UNSUPPORTED, EXDEV,  KEPT, "the GPUs cannot reach each other's memory") \
    X(218, INVALID_PTX,         ENOEXEC,    KEPT, "the driver's compiler refused the kernels") \
    X(220, NVLINK_UNCORRECTABLE, EIO,       LOST, "NVLink has an error that cannot be corrected") \
    X(221, JIT_COMPILER_NOT_FOUND, ENOEXEC, KEPT, "libnvidia-ptxjitcompiler is not installed") \
    X(222, UNSUPPORTED_PTX_VERSION, ENOEXEC, KEPT, "the driver is older than the toolkit that made the kernels") \
    X(304, OPERATING_SYSTEM,    EIO,        KEPT, "a call of the operating system failed; see the limits of open files and locked memory") \
    X(400, INVALID_HANDLE,      EBADF,      KEPT, "the handle is no longer valid here: its owner has gone, or it is of another context, container or PID namespace") \
    X(500, NOT_FOUND,           ENOENT,     KEPT, "the image has no kernel of that name") \
    X(600, NOT_READY,           EAGAIN,     KEPT, "the work has not finished yet") \
    X(700, ILLEGAL_ADDRESS,     EFAULT,     LOST, "a kernel or copy used memory that it may not use; the process must be started anew") \
    X(702, LAUNCH_TIMEOUT,      ETIMEDOUT,  LOST, "a kernel ran too long") \
    X(709, CONTEXT_IS_DESTROYED, EINVAL,    KEPT, "the context was released before") \
    X(710, ASSERT,              EFAULT,     LOST, "an assertion failed in a kernel") \
    X(712, HOST_MEMORY_ALREADY_REGISTERED, EEXIST, KEPT, "the host memory is pinned already") \
    X(713, HOST_MEMORY_NOT_REGISTERED, ENOENT, KEPT, "the host memory is not pinned") \
    X(714, HARDWARE_STACK_ERROR, EFAULT,    LOST, "a kernel broke its stack") \
    X(715, ILLEGAL_INSTRUCTION, EFAULT,     LOST, "a kernel met an illegal instruction") \
    X(716, MISALIGNED_ADDRESS,  EFAULT,     LOST, "a kernel used an address that is not aligned") \
    X(718, INVALID_PC,          EFAULT,     LOST, "a kernel jumped to nowhere") \
    X(719, LAUNCH_FAILED,       EIO,        LOST, "a kernel died; the process must be started anew") \
    X(800, NOT_PERMITTED,       EPERM,      KEPT, "the call is not allowed here, as in a callback of a stream") \
    X(801, NOT_SUPPORTED,       EOPNOTSUPP, KEPT, "this GPU, driver or system (WSL, Tegra, virtual GPUs) does not offer it") \
    X(802, SYSTEM_NOT_READY,    ENODEV,     KEPT, "the system is not ready yet; is nvidia-fabricmanager running?") \
    X(803, SYSTEM_DRIVER_MISMATCH, ENODEV,  KEPT, "the kernel module and libcuda differ in version; was the driver upgraded without a reboot?") \
    X(804, COMPAT_NOT_SUPPORTED_ON_DEVICE, ENODEV, KEPT, "a compatibility package of the driver is installed that this GPU does not support") \
    X(805, MPS_CONNECTION_FAILED, ENODEV,   KEPT, "the MPS server cannot be reached; is nvidia-cuda-mps-control running?") \
    X(900, STREAM_CAPTURE_UNSUPPORTED, EBUSY, KEPT, "the call is not allowed while the stream is being captured into a graph") \
    X(901, STREAM_CAPTURE_INVALIDATED, EBUSY, KEPT, "the capture of the stream was broken before") \
    X(907, CAPTURED_EVENT,      EBUSY,      KEPT, "the event was recorded into a graph") \
    X(909, TIMEOUT,             ETIMEDOUT,  KEPT, "the driver waited too long") \
    X(999, UNKNOWN,             EIO,        KEPT, "the driver does not say; see the kernel's log for Xid")
/* clang-format on */

enum {
    DLP_CU_SUCCESS = 0,
#define X(code, name, err, fate, cause) DLP_CU_##name = (code),
    DLP_CU_RESULTS(X)
#undef X
};

/* "CUDA_ERROR_OUT_OF_MEMORY"; "CUDA_SUCCESS" for 0; NULL for a code that is not in the table. */
const char *dlp_cu_result_name(dlp_cu_result code);
/* Likely cause in words; a general one for an unknown code. */
const char *dlp_cu_result_cause(dlp_cu_result code);
/* Positive errno, 0 for success, EIO for an unknown code. */
int dlp_cu_result_errno(dlp_cu_result code);
/* Nothing more can be done in the context. */
bool dlp_cu_result_lost(dlp_cu_result code);

/* One line: "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2): the GPU's memory is full". The symbol is
 * that of the call. Returns the negative errno. */
int dlp_cu_result_explain(dlp_cu_result code, const char *symbol, char *text, size_t size);

#endif
