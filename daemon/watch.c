#include "watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/status.h"
#include "control/status_line.h"
#include "sd.h"

#define TICK_MS 1000
#define STATUS_TICKS 5               /* between two status lines */
#define STUCK_NS (60 * CLOCK_SECOND) /* one row takes no worker as long as this */

struct watch {
    struct control *control;
    uv_timer_t beat, tick;
    unsigned ticks, handles;
    bool stuck;
};

/* The loop turns; a worker that has been at one row for very long does not. */
static void on_beat(uv_timer_t *timer)
{
    const struct watch *watch = timer->data;
    if (workers_stuck_ns(watch->control->options.workers) < STUCK_NS)
        sd_watchdog_beat();
}

static void look_at_workers(struct watch *watch)
{
    uint64_t ns = workers_stuck_ns(watch->control->options.workers);
    bool stuck = ns >= STUCK_NS;
    if (stuck && !watch->stuck)
        log_event(LOG_ERROR, log_about(LOG_WORKER_STUCK),
                  "a worker has been at one row for %.0f s: the service manager's watchdog is not "
                  "answered until it ends",
                  (double)ns / (double)CLOCK_SECOND);
    else if (!stuck && watch->stuck)
        log_event(LOG_NOTICE, log_about(LOG_WORKER_STUCK), "the stuck worker goes on");
    watch->stuck = stuck;
}

static void tell_status(const struct watch *watch)
{
    char text[STATUS_LINE_MAX];
    struct status *status = status_new(watch->control, NULL);
    sd_tell_status("%s", status_line(&status->reply, text));
    status_free(status);
}

static void on_tick(uv_timer_t *timer)
{
    struct watch *watch = timer->data;
    log_tick();
    look_at_workers(watch);
    if (++watch->ticks % STATUS_TICKS == 0 && !watch->control->stopping)
        tell_status(watch);
}

struct watch *watch_new(uv_loop_t *loop, struct control *control)
{
    struct watch *watch = mem_new(sizeof *watch);
    uint64_t period = sd_watchdog_ns() / 2 / CLOCK_MS;
    watch->control = control;
    watch->handles = 2;
    uv_timer_init(loop, &watch->beat);
    uv_timer_init(loop, &watch->tick);
    watch->beat.data = watch->tick.data = watch;
    if (period)
        uv_timer_start(&watch->beat, on_beat, period, period);
    uv_timer_start(&watch->tick, on_tick, TICK_MS, TICK_MS);
    tell_status(watch);
    return watch;
}

static void on_closed(uv_handle_t *handle)
{
    struct watch *watch = handle->data;
    if (--watch->handles == 0)
        free(watch);
}

void watch_free(struct watch *watch)
{
    if (!watch)
        return;
    uv_close((uv_handle_t *)&watch->beat, on_closed);
    uv_close((uv_handle_t *)&watch->tick, on_closed);
}
