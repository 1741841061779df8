#include "control/check_reply.h"

#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/control.h"
#include "control/drain.h"
#include "control/findings.h"
#include "control/settings.h"
#include "proto/frames.h"

struct check_reply {
    struct session *session;
    uint64_t id;
    struct findings_facts facts;
    struct findings findings; /* of the errand's thread */
    struct errand errand;
};

static struct check_reply *of_errand(struct errand *errand)
{
    return (struct check_reply *)(void *)((char *)errand - offsetof(struct check_reply, errand));
}

static void look(struct errand *errand)
{
    struct check_reply *check = of_errand(errand);
    findings_look(&check->facts, &check->findings);
}

struct texts {
    Dlp__Finding message;
    char text[DLP_TEXT_MAX], remedy[DLP_TEXT_MAX];
};

static void answer(struct check_reply *check)
{
    Dlp__Finding *list[FINDINGS_MAX];
    Dlp__CheckReply reply = DLP__CHECK_REPLY__INIT;
    cleanup_free struct texts *texts = mem_array(FINDINGS_MAX, sizeof *texts);
    for (uint32_t i = 0; i < check->findings.count; i++) {
        const struct finding *found = &check->findings.list[i];
        Dlp__Finding *message = list[i] = &texts[i].message;
        dlp__finding__init(message);
        message->level = found->level;
        message->check = (char *)found->check;
        message->text = dlp_escape(found->text, texts[i].text, DLP_TEXT_MAX);
        message->remedy = dlp_escape(found->remedy, texts[i].remedy, DLP_TEXT_MAX);
    }
    reply.findings = list;
    reply.n_findings = check->findings.count;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = check->id;
    env.body_case = DLP__ENVELOPE__BODY_CHECK_REPLY;
    env.check_reply = &reply;
    session_send(check->session, &env);
}

static void drop(struct check_reply *check)
{
    check->session->check = NULL;
    free(check);
}

static void looked(struct errand *errand)
{
    struct check_reply *check = of_errand(errand);
    struct session *session = check->session;
    if (errand->err.code)
        session_refuse(session, check->id, DLP_ERROR_TOO_MANY, errand->err.text);
    else
        answer(check);
    errands_end(errand);
    drop(check);
    session_reap(session);
}

void check_reply_begin(struct session *session, uint64_t id)
{
    const struct control *control = session->control;
    const struct control_options *options = &control->options;
    uint64_t now = clock_ns();
    if (session->check) {
        session_refuse(session, id, DLP_ERROR_BAD_REQUEST, "a check is running already");
        return;
    }
    struct check_reply *check = session->check = mem_new(sizeof *check);
    *check =
        (struct check_reply){.session = session,
                             .id = id,
                             .facts = {.memory_limit = budget_limit(options->budget),
                                       .memory_used = budget_used(options->budget, BUDGET_USES) -
                                                      budget_used(options->budget, BUDGET_DECODE),
                                       .cache_dir = options->cache_dir,
                                       .gpus = options->gpus,
                                       .asked_gpus_ns = now - gpus_asked_since(options->gpus),
                                       .draining_ns = drain_ns(control, now),
                                       .stuck_ns = workers_stuck_ns(options->workers)},
                             .errand = {.run = look, .ran = looked}};
    char *notes[SETTINGS_NOTES_MAX];
    if (access_admin(&session->peer) && settings_notes(control, notes))
        snprintf(check->facts.note, sizeof check->facts.note, "%s", notes[0]);
    errands_add(control->errands, &check->errand);
}

void check_reply_cancel(struct check_reply *check)
{
    if (check && errands_leave(&check->errand))
        drop(check);
}
