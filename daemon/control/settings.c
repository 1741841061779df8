#include "control/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/control.h"
#include "proto/frames.h"

#define MB 1e6

static struct feed_spec *find(const struct settings *settings, const char *name)
{
    for (uint32_t i = 0; i < settings->nfeeds; i++)
        if (strcmp(settings->feeds[i]->name, name) == 0)
            return settings->feeds[i];
    return NULL;
}

static void set_spec(struct control *control, uint32_t number, struct feed_spec *spec)
{
    spec_ref(spec);
    spec_unref(control->feeds[number]);
    control->feeds[number] = spec;
    datasets_set(control->datasets, number, spec);
}

/* A feed of the old configuration. */
static void renew_feed(struct control *control, uint32_t number, struct feed_spec *fresh)
{
    struct control_totals *totals = &control->totals[number];
    const struct feed_spec *old = control->feeds[number];
    bool was_removed = totals->removed;
    totals->removed = !fresh;
    if (!fresh && !was_removed) {
        log_notice("feed %s is removed: no new job of it is let in", old->name);
        set_spec(control, number, control->feeds[number]); /* its data set is closed */
    } else if (fresh && fresh->digest != old->digest) {
        log_notice("feed %s %s", fresh->name,
                   was_removed ? "is added" : "has changed: new jobs have it so");
        if (fresh->weight != old->weight)
            log_notice("feed %s: weight %u, was %u, for all its jobs", fresh->name, fresh->weight,
                       old->weight);
        set_spec(control, number, fresh);
    } else if (fresh && was_removed) {
        log_notice("feed %s is added", fresh->name);
    }
}

void control_add_feed(struct control *control, struct feed_spec *spec)
{
    uint32_t number = control->options.nfeeds++;
    control->feeds = mem_grow(control->feeds, number + 1, sizeof *control->feeds);
    control->totals = mem_grow(control->totals, number + 1, sizeof *control->totals);
    control->feeds[number] = spec;
    control->totals[number] = (struct control_totals){0};
    control->options.feeds = control->feeds;
    spec_ref(spec);
    datasets_set(control->datasets, number, spec);
}

static void apply_feeds(struct control *control, const struct settings *settings)
{
    for (uint32_t i = 0; i < control->options.nfeeds; i++)
        renew_feed(control, i, find(settings, control->feeds[i]->name));
    for (uint32_t i = 0; i < settings->nfeeds; i++) {
        struct feed_spec *spec = settings->feeds[i];
        if (control_find_any(control, spec->name) >= 0)
            continue;
        log_notice("feed %s is added", spec->name);
        control_add_feed(control, spec);
    }
}

/* A reader that waits for memory of which there is less than it was promised might wait for ever.
 */
static bool may_lower(const struct control *control)
{
    return !control->nattached && !control->nclosing;
}

static void set_memory(struct control *control, uint64_t memory)
{
    struct control_options *options = &control->options;
    uint64_t before = budget_limit(options->budget);
    budget_set_limit(options->budget, memory);
    if (!control->client_memory)
        options->client_memory = budget_limit(options->budget) / 4;
    if (budget_limit(options->budget) != before)
        log_notice("memory is %.1f MB, was %.1f MB", (double)budget_limit(options->budget) / MB,
                   (double)before / MB);
}

static void apply_memory(struct control *control, const struct settings *settings)
{
    uint64_t memory = settings->memory ? settings->memory : system_memory() / 2;
    control->client_memory = settings->client_memory;
    if (settings->client_memory)
        control->options.client_memory = settings->client_memory;
    bool waits = memory < budget_limit(control->options.budget) && !may_lower(control);
    control->memory_wanted = waits ? memory : 0;
    if (!waits)
        set_memory(control, memory);
}

void settings_apply(struct control *control, const struct settings *settings)
{
    apply_feeds(control, settings);
    apply_memory(control, settings);
    users_set(control, settings->users); /* behind the feeds: it applies their weights too */
    control->options.clients = settings->clients;
    control->options.job_linger = settings->job_linger;
    jobs_set_linger(control->jobs, settings->job_linger * CLOCK_SECOND);
    control_settled(control); /* attaches that wait may find room now */
}

void settings_tick(struct control *control)
{
    if (!control->memory_wanted || !may_lower(control))
        return;
    set_memory(control, control->memory_wanted);
    control->memory_wanted = 0;
}

void settings_forget_notes(struct control *control)
{
    while (control->nnotes)
        free(control->notes[--control->nnotes]);
}

void settings_note(struct control *control, const char *format, ...)
{
    char text[DLP_TEXT_MAX / 2], escaped[DLP_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dlp_escape(text, escaped, sizeof escaped);
    log_warning("%s", escaped);
    if (control->nnotes < CONTROL_NOTES_MAX)
        control->notes[control->nnotes++] = mem_string(escaped);
}

uint32_t settings_notes(const struct control *control, char *list[SETTINGS_NOTES_MAX])
{
    static char text[200]; /* until the next call */
    uint32_t count = 0;
    for (; count < control->nnotes; count++)
        list[count] = control->notes[count];
    if (control->memory_wanted) {
        snprintf(text, sizeof text,
                 "memory: %.1f MB is the limit once no client is attached, %.1f MB until then",
                 (double)control->memory_wanted / MB,
                 (double)budget_limit(control->options.budget) / MB);
        list[count++] = text;
    }
    return count;
}

void settings_reload(struct session *session, uint64_t id)
{
    const struct control_options *options = &session->control->options;
    if (!access_admin(&session->peer)) {
        session_deny(session, id, "reload", DLP_ERROR_NOT_PERMITTED,
                     "only root and the daemon's own user may have it read its configuration");
    } else if (session->reload_id || !options->reload) {
        session_refuse(session, id, DLP_ERROR_BAD_REQUEST, "it is at it already");
    } else {
        session->reload_id = id;
        options->reload(options->reload_context);
    }
}

static void answer(struct session *session, Dlp__ReloadReply *reply)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = session->reload_id;
    env.body_case = DLP__ENVELOPE__BODY_RELOAD_REPLY;
    env.reload_reply = reply;
    session_send(session, &env);
}

void settings_reloaded(struct control *control, bool good)
{
    char *notes[SETTINGS_NOTES_MAX];
    Dlp__ReloadReply reply = DLP__RELOAD_REPLY__INIT;
    reply.notes = notes;
    reply.n_notes = settings_notes(control, notes);
    for (struct session *s = control->sessions; s; s = s->next) {
        if (s->reload_id && good)
            answer(s, &reply);
        else if (s->reload_id)
            session_refuse(s, s->reload_id, DLP_ERROR_CONFIG, control->notes[0]);
        s->reload_id = 0;
    }
}
