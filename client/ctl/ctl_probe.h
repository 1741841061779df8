/* Attaching as a probe: a job of its own, of lowest priority, named after the verb and our pid. */
#ifndef CTL_PROBE_H
#define CTL_PROBE_H

#include "client/ctl/ctl.h"
#include "client/dataload.h"

#define CTL_JOB_MAX 64

struct probe {
    const char *verb;
    int64_t world, batch; /* batch < 0: the feed's */
    const char *token;    /* NULL: the beginning */
};

void ctl_probe_job(const struct probe *probe, char job[CTL_JOB_MAX]);
/* Attaches `rank`; errors are printed. Detach *handle in any case. */
int ctl_probe_attach(const struct ctl *ctl, const struct probe *probe, int64_t rank,
                     dataload **handle);

struct sheet;
/* The sheet of a batch; errors are printed. Free it with sheet_free. */
int ctl_show_draw(const struct ctl *ctl, const dataload_batch *batch, struct sheet *sheet);
/* Writes the sheet of a batch, and says so where `report`. */
int ctl_show_batch(const struct ctl *ctl, const dataload_batch *batch, bool report);
/* The first batch of an attached probe; errors are printed. Trainers go before it, so that it may
 * not come where decoding limits them. */
#define CTL_PROBE_PATIENCE_MS 60000
int ctl_probe_first(const struct ctl *ctl, dataload *handle, int patience_ms,
                    dataload_batch **batch);

#endif
