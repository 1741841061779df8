/* A daemon whose batches lie on a GPU of the stand-in, played by a process of its own: a role of
 * cuda_rig.h. The environment says which SCRIPT it follows (fake_gpu.c lists them), by which KIND
 * of memory (vmm, ipc), on GPU 0, or 1 where GPU is set; and for a script that fails, what has to
 * go wrong at the client: STEP, RESULT, or which LIE the daemon tells. */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stddef.h>

enum { FAKE_TEXT_ROW = 5, FAKE_PATH = 64 };

/* First takes FAKE_PATH bytes by the socket, where to listen (empty: at a place of its own), and
 * gives back where it does; then plays. Batch `step` is bytes of step + 1; rows of "text" have
 * FAKE_TEXT_ROW bytes. */
void fake_gpu_play(int peer);

#endif
