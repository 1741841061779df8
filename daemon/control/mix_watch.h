/* The mix of each epoch is looked at when it begins, where the labels are in the index (image
 * folders): a warning goes into the notes of attach and status. Loop thread but for mix_task_look.
 */
#ifndef MIX_WATCH_H
#define MIX_WATCH_H

#include "control/control.h"
#include "control/jobs.h"
#include "feed/spec.h"

struct mix_task; /* one epoch of one job */
struct mix_watch;

/* NULL where there is nothing to look at: no labels in the index, listed order, a probe, or an
 * epoch that was looked at before, or one before it, in which a slower rank may be. The job's data
 * set is open. */
struct mix_task *mix_task_new(struct job *job, const struct feed_spec *spec, uint64_t epoch);
void mix_task_cancel(struct mix_task *task);                /* NULL is fine in all of these */
void mix_task_look(struct mix_task *task);                  /* helper thread */
void mix_task_keep(struct mix_task *task, struct job *job); /* the warning becomes the job's */
void mix_task_free(struct mix_task *task);

struct mix_watch *mix_watch_new(struct control *control);
void mix_watch_tick(struct mix_watch *watch); /* each second: has an epoch begun? */
bool mix_watch_stop(struct mix_watch *watch); /* true while its errand runs */
void mix_watch_free(struct mix_watch *watch);

#endif
