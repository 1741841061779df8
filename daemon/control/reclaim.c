#include "control/reclaim.h"

#include "base/mem.h"

struct reclaim {
    struct control *control;
    uv_work_t work;
    bool looking, found;
};

struct reclaim *reclaim_new(struct control *control)
{
    struct reclaim *reclaim = mem_new(sizeof *reclaim);
    reclaim->control = control;
    reclaim->work.data = reclaim;
    return reclaim;
}

void reclaim_free(struct reclaim *reclaim)
{
    free(reclaim);
}

bool reclaim_stop(struct reclaim *reclaim)
{
    return reclaim->looking;
}

static void look(uv_work_t *work)
{
    struct reclaim *reclaim = work->data;
    reclaim->found = orphans_poll(reclaim->control->options.orphans);
}

static void looked(uv_work_t *work, int status)
{
    struct reclaim *reclaim = work->data;
    (void)status;
    reclaim->looking = false;
    if (reclaim->found || reclaim->control->stopping)
        control_settled(reclaim->control);
}

bool reclaim_look(struct reclaim *reclaim)
{
    const struct control_options *options = &reclaim->control->options;
    if (!reclaim->looking && budget_used(options->budget, BUDGET_ORPHANED)) {
        reclaim->looking = true;
        uv_queue_work(options->loop, &reclaim->work, look, looked);
    }
    return reclaim->looking;
}
