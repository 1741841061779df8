/* Trainers that ask the control of control_rig.h for batches on a GPU of the stand-in, each with
 * its driver in a process of its own, which maps and reads. */
#ifndef GPU_TRAINER_H
#define GPU_TRAINER_H

#include "control_rig.h"
#include "cuda_rig.h"
#include "proto/slot.h"

enum { GTR_ATTACH_ID = 2 }; /* as rig_attached has it */

extern uint8_t gtr_uuid[16], gtr_other_uuid[16]; /* of the two GPUs */

struct gtr {
    struct rig_peer *peer;
    const Dlp__AttachReply *offer;
    uint64_t offer_nonce, number; /* of the last offer */
    pid_t pid;
    int socket, life;
};

void gtr_setup(void);                /* the stand-in's GPUs; before rig_setup */
int gtr_main(int argc, char **argv); /* of the driver's process: a program with arguments */

Dlp__Attach gtr_wish(const uint8_t *uuid, bool only); /* feed small, job j */
void gtr_say_attach(struct gtr *trainer, pid_t pid, Dlp__Attach message);
/* With a process that the daemon watches from the start: memory may come by a handle. */
void gtr_say_attach_watched(struct gtr *trainer, Dlp__Attach message);
void gtr_await_offer(struct gtr *trainer);
void gtr_map_offer(struct gtr *trainer, enum dlp_memory kind);
void gtr_say_check(struct gtr *trainer, const void *nonce, size_t size); /* 0: cuMemMap gave 205 */
void gtr_check_offer_of(struct gtr *trainer, enum dlp_memory kind);      /* maps, reads, answers */
void gtr_check_offer(struct gtr *trainer);                               /* of VMM */
void gtr_attach(struct gtr *trainer, pid_t pid, Dlp__Attach message);    /* all of this */
void gtr_ask(struct gtr *trainer, uint64_t offset, void *to, uint64_t bytes); /* reads */
void gtr_scribble(struct gtr *trainer);                                       /* over all slots */
void gtr_take_batches(struct gtr *trainer, unsigned count); /* and checks what is in them */
void gtr_unmap(struct gtr *trainer);
uint64_t gtr_lent(void); /* bytes of the first GPU that trainers may map */
void gtr_await_nothing_lent(void);
void gtr_leave(struct gtr *trainer);
/* Shared memory is offered, with this reason, and batches come; the trainer is gone then. */
void gtr_expect_host(struct gtr *trainer, const char *why);

#endif
