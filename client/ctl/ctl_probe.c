#include "client/ctl/ctl_probe.h"

#include <errno.h>
#include <unistd.h>

void ctl_probe_job(const struct probe *probe, char job[CTL_JOB_MAX])
{
    snprintf(job, CTL_JOB_MAX, "%s-%d", probe->verb, (int)getpid());
}

static void progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    ctl_report(context, text, done, total);
}

int ctl_probe_attach(const struct ctl *ctl, const struct probe *probe, int64_t rank,
                     dataload **handle)
{
    char job[CTL_JOB_MAX], program[64];
    ctl_probe_job(probe, job);
    snprintf(program, sizeof(program), "dataloadctl %s", probe->verb);
    dataload_options options = DATALOAD_OPTIONS_INIT;
    options.socket = ctl->socket;
    options.job = job;
    options.rank = rank;
    options.world = probe->world;
    options.batch = probe->batch > 0 ? probe->batch : DATALOAD_UNSET;
    options.reconnect_ms = 0;
    options.probe = 1;
    options.program = program;
    options.progress = progress;
    options.context = (void *)ctl;
    options.resume = probe->token;
    int err = dataload_attach(ctl->feed, &options, handle);
    if (err < 0)
        return ctl_fail(ctl, ctl_exit_of_errno(-err), "%s", dataload_error(*handle));
    ctl_progress(ctl, "%s", "");
    return CTL_OK;
}

int ctl_probe_first(const struct ctl *ctl, dataload *handle, int patience_ms,
                    dataload_batch **batch)
{
    int err = dataload_next(handle, patience_ms, batch);
    if (err == 0)
        return CTL_OK;
    if (err == -ETIMEDOUT)
        return ctl_fail(ctl, CTL_UNAVAILABLE,
                        "no batch of %s within %d s: trainers go before those who only look; try "
                        "again when they wait less",
                        ctl->feed, patience_ms / 1000);
    return ctl_fail(ctl, ctl_exit_of_errno(err < 0 ? -err : 0), "no first batch of %s: %s",
                    ctl->feed, dataload_error(handle));
}
