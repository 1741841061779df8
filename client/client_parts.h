/* What the modules of the client library do to the handle, module by module. */
#ifndef DLC_CLIENT_PARTS_H
#define DLC_CLIENT_PARTS_H

#include "client/client.h"

/* handle.c: the handle itself, its errors, and what can be asked without I/O. */
struct dataload *handle_new(void);
void handle_free(struct dataload *handle);
/* Unmaps all arenas; on a GPU it waits for the work behind which batches were given back. False: as
 * mapping_free, of the current one. */
bool handle_unmap(struct dataload *handle);
int64_t handle_now(void);
/* Start of each public call: -ENOLCK in a forked child, -EINVAL for NULL. */
int handle_enter(struct dataload *handle);
/* Sets the text of the last error and returns code. */
int handle_fail(struct dataload *handle, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the attachment for good; the connection stays open until the handle is freed, so that
 * batches still held keep their memory. */
void handle_end(struct dataload *handle, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The daemon said something that no daemon says. */
void handle_protocol(struct dataload *handle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int handle_ended(struct dataload *handle); /* the error of an ended handle, as handle_fail */

/* request.c: messages out and in, and waiting for them. */
/* Sends one message under an id of its own and returns the id. A peer that has gone is noticed by
 * the next request_pump. */
uint64_t request_send(struct dataload *handle, Dlp__Envelope *env);
/* Does all there is to do without waiting: sends, reads, tries to connect, notices deadlines. */
void request_pump(struct dataload *handle);
/* After turns were taken: takes in what had no room, sets what dataload_fd shows. */
void request_settle(struct dataload *handle);
/* Waits until there is something to pump or the deadline is over; 0 or -EINTR. */
int request_wait(struct dataload *handle, int64_t deadline);
/* Waits for the reply to the request awaited: 0, -ETIMEDOUT, -EINTR. */
int request_reply(struct dataload *handle, int64_t deadline);
void request_watch(struct dataload *handle); /* a new channel is to be waited for */
void request_close(struct dataload *handle);

/* attach.c: from a connection to the first batch. */
/* Connects and says Hello: 0, or -errno with the text of the last error set. */
int attach_start(struct dataload *handle);
void attach_hello(struct dataload *handle, const Dlp__HelloReply *reply);
void attach_send(struct dataload *handle);  /* Attach */
void attach_alive(struct dataload *handle); /* it goes on: the time-out counts from now */
/* That, and the caller is told. */
void attach_report(struct dataload *handle, const char *text, uint64_t done, uint64_t total);
void attach_reply(struct dataload *handle, const Dlp__AttachReply *reply, const int *fds,
                  size_t nfds);
/* Another one, after memory of a GPU that we had taken: the daemon would not have it so. */
void attach_reply_again(struct dataload *handle, const Dlp__AttachReply *reply, const int *fds,
                        size_t nfds);
void attach_refused(struct dataload *handle, unsigned code, const char *text);
void attach_overdue(struct dataload *handle);

/* offer.c: the memory that an AttachReply comes with. */
/* Maps it: true; else the attachment has ended, or, of a GPU's memory, the daemon is told that it
 * cannot be read, and is not mapped, and answers by another AttachReply, or an error. */
bool offer_take(struct dataload *handle, const Dlp__AttachReply *reply,
                const struct dlp_layout *layout, const int *fds, size_t nfds, struct mapping **out);

/* reply.c: is this AttachReply one that we can live with? */
/* NULL and the layout, or what is wrong with it. */
const char *reply_check(const Dlp__AttachReply *reply, struct dlp_layout *layout);
/* Takes over what the reply says; false without memory. */
bool reply_keep(struct dataload *handle, const Dlp__AttachReply *reply);

/* reconnect.c */
void reconnect_lost(struct dataload *handle); /* the connection has ended */
void reconnect_step(struct dataload *handle); /* in PHASE_LOST: tries again when it is time */
void reconnect_refused(struct dataload *handle, unsigned code, const char *text);
void reconnect_later(struct dataload *handle, const char *text); /* a refusal that passes */
void reconnect_give_up(struct dataload *handle);
/* Makes a reply that came after a reconnect the current one, or ends the attachment. */
void reconnect_check(struct dataload *handle, const Dlp__AttachReply *reply);

/* take.c: the queue of turns, and the batches handed out. */
void take_ready(struct dataload *handle, const Dlp__BatchReady *ready);
void take_failed(struct dataload *handle, const Dlp__BatchFailed *failed);
void take_final(struct dataload *handle, int code, const char *text);
bool take_final_queued(const struct dataload *handle);
void take_end(struct dataload *handle);  /* ends with the final turn of the queue */
void take_drop(struct dataload *handle); /* empties the queue */
void take_send_release(struct dataload *handle, const dataload_batch *batch, uint64_t hold_ns);
uint64_t take_steps(const struct dataload *handle, uint64_t epoch); /* of this rank */
bool take_due(const struct dataload *handle); /* dataload_next need not wait */
/* Of the next batch: of the next epoch's first once all of this one's are handed out. */
struct position take_next(const struct dataload *handle);
/* Of the first batch from here on: some epochs may have none for this rank. */
struct position take_arriving(const struct dataload *handle, struct position at);

/* release.c: giving batches back. */
/* Gives back those behind whose work the GPU has got. */
void release_poll(struct dataload *handle);

/* seek.c: choosing an epoch. */
/* Tells the daemon to go on at handle->next instead of `from`. */
void seek_send(struct dataload *handle, struct position from, bool begun);
void seek_done(struct dataload *handle);
void seek_refused(struct dataload *handle, int code, const char *text);
int seek_tell_refusal(struct dataload *handle); /* that was not told yet, as handle_fail */

/* resume.c */
bool resume_fits(const char *text); /* a daemon's template */

/* view.c */
uint64_t view_bytes(const struct dataload_batch *batch); /* of its tensors */

/* job.c: the name of the job where the caller gives none: Slurm job and step; a torchrun run id
 * other than "none"; pid and start time of the launcher under torchrun or mpirun; "default" where a
 * world > 1 is given; else unique to this process. */
void job_default(int64_t world, char name[DLP_NAME_MAX + 1]);

#endif
