#include "reload.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/settings.h"
#include "sd.h"

#define TIME_MAX 32

struct reload {
    uv_loop_t *loop;
    const struct config *first;
    struct control *control; /* NULL: not yet, or not any more */
    time_t taken;            /* when the configuration in force was read */
    bool running, again;
    uv_work_t work;
    struct config *fresh; /* of the helper thread */
    struct error err;
};

struct reload *reload_new(uv_loop_t *loop, const struct config *first)
{
    struct reload *reload = mem_new(sizeof *reload);
    reload->loop = loop;
    reload->first = first;
    reload->taken = time(NULL);
    return reload;
}

void reload_start(struct reload *reload, struct control *control)
{
    reload->control = control;
}

static void read_it(uv_work_t *work)
{
    struct reload *reload = work->data;
    config_read(reload->first->path, &reload->fresh, &reload->err);
}

static const char *or_auto(const char *text)
{
    return text ? text : "auto";
}

static void note(struct control *control, const char *key)
{
    settings_note(control, "%s: the new value counts from the daemon's next start on", key);
}

static bool same_address(const struct http_address *a, const struct http_address *b)
{
    char one[HTTP_ADDRESS_MAX], other[HTTP_ADDRESS_MAX];
    if (!a->size || !b->size)
        return a->size == b->size;
    return strcmp(http_address_text(a, one), http_address_text(b, other)) == 0;
}

/* What is settled when the daemon starts. */
static void note_rest(struct reload *reload)
{
    const struct config *now = reload->first, *fresh = reload->fresh;
    struct control *control = reload->control;
    if (fresh->workers != now->workers)
        note(control, "workers");
    if (fresh->workers_max != now->workers_max)
        note(control, "workers_max");
    if (fresh->pin_workers != now->pin_workers)
        note(control, "pin_workers");
    if (fresh->decode_memory != now->decode_memory)
        note(control, "decode_memory");
    if (strcmp(or_auto(fresh->cache_dir), or_auto(now->cache_dir)) != 0 ||
        fresh->cache_bytes != now->cache_bytes || fresh->cache_marks != now->cache_marks)
        note(control, "cache");
    if (!same_address(&fresh->metrics, &now->metrics))
        note(control, "metrics");
}

static void take(struct reload *reload)
{
    const struct config *fresh = reload->fresh;
    const struct settings settings = {.feeds = fresh->feeds,
                                      .nfeeds = fresh->nfeeds,
                                      .users = &fresh->users,
                                      .memory = fresh->memory,
                                      .client_memory = fresh->client_memory,
                                      .clients = fresh->clients,
                                      .job_linger = fresh->job_linger};
    log_notice("the configuration %s is read again", fresh->path);
    reload->taken = time(NULL);
    settings_apply(reload->control, &settings);
    note_rest(reload);
}

static void keep(struct reload *reload)
{
    struct tm tm;
    char when[TIME_MAX];
    localtime_r(&reload->taken, &tm);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    settings_note(reload->control, "configuration of %s kept: %s", when, reload->err.text);
}

static void start(struct reload *reload);

static void done(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    (void)status;
    reload->running = false;
    if (reload->control && reload->again) {
        config_free(reload->fresh);
        start(reload);
        return;
    }
    if (reload->control) {
        settings_forget_notes(reload->control);
        if (reload->fresh)
            take(reload);
        else
            keep(reload);
        settings_reloaded(reload->control, reload->fresh);
        sd_tell_ready();
    }
    config_free(reload->fresh);
}

static void start(struct reload *reload)
{
    reload->running = true;
    reload->again = false;
    reload->fresh = NULL;
    reload->err = (struct error){0};
    reload->work.data = reload;
    uv_queue_work(reload->loop, &reload->work, read_it, done);
}

void reload_request(void *context)
{
    struct reload *reload = context;
    if (!reload->control)
        return;
    reload->again = reload->running;
    if (reload->running)
        return;
    sd_tell_reloading();
    start(reload);
}

bool reload_stop(struct reload *reload)
{
    reload->control = NULL;
    return reload->running;
}

void reload_free(struct reload *reload)
{
    free(reload);
}
