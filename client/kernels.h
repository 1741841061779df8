/* The GPU's code, as it is built into the library: kernels/nchw.cu. Constants; any thread. */
#ifndef DLC_KERNELS_H
#define DLC_KERNELS_H

#include "client/device.h"

/* Loads it into the context, which is current: binaries for the GPU where they were built, else
 * text that the driver compiles. */
bool kernels_load(const struct dlp_cuda *cu, dlp_cu_module *module, struct device_answer *answer);

#endif
