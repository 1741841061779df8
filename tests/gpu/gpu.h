/* What the programs of the hardware check share: the driver that is found, whichever it is, a
 * context of GPU 0 and a stream. A call that has to succeed and does not ends the process with 2.
 */
#ifndef GPU_H
#define GPU_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_standin/standin_more.h"
#include "proto/cuda.h"

struct gpu_more {
#define X(member, symbol, arguments) dlp_cu_result(*member) arguments;
    STANDIN_MORE_FUNCTIONS(X)
#undef X
};

extern struct dlp_cuda cu;
extern struct gpu_more more;
extern dlp_cu_context gpu_context;
extern dlp_cu_stream gpu_stream;

#define CU(call) gpu_must(#call, call)
void gpu_must(const char *call, dlp_cu_result code);
void gpu_load(void);  /* the driver alone */
void gpu_start(void); /* context and stream are current from then on */
void gpu_stop(void);
void gpu_sync(void);

dlp_cu_allocation gpu_allocation(dlp_cu_handle_type type);
/* Memory of cuMemCreate at an address; access 0: none is set. */
dlp_cu_pointer gpu_map(dlp_cu_memory memory, size_t size, dlp_cu_access_flags access);
void gpu_unmap(dlp_cu_pointer at, size_t size);
double gpu_seconds(void);

#endif
