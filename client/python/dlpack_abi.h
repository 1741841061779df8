/* The DLPack interface, as Array API consumers (PyTorch, JAX, NumPy) read it: both kinds of managed
 * tensors. Declared here because Debian's headers know only the older kind. */
#ifndef DLPY_DLPACK_ABI_H
#define DLPY_DLPACK_ABI_H

#include <stdint.h>

#define DLPACK_VERSION_MAJOR 1
#define DLPACK_VERSION_MINOR 0

enum dlpack_device_type { DLPACK_CPU = 1, DLPACK_CUDA = 2 };
enum dlpack_type_code { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4 };

#define DLPACK_READ_ONLY 1UL
#define DLPACK_IS_COPIED 2UL

struct dlpack_device {
    int32_t type, id;
};

struct dlpack_dtype {
    uint8_t code, bits;
    uint16_t lanes;
};

struct dlpack_tensor {
    void *data;
    struct dlpack_device device;
    int32_t ndim;
    struct dlpack_dtype dtype;
    int64_t *shape, *strides; /* strides in elements */
    uint64_t byte_offset;
};

/* In a capsule named "dltensor". */
struct dlpack_managed {
    struct dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
};

/* In a capsule named "dltensor_versioned". */
struct dlpack_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

#endif
