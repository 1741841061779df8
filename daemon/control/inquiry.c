#include "control/inquiry.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/plural.h"
#include "control/control.h"
#include "control/feeds.h"
#include "control/own_feeds.h"
#include "control/place.h"

#define UNREAD_S 30 /* then an answer gives up its place */

static void drop(struct inquiry *inquiry)
{
    inquiry->session->inquiry = NULL;
    dataset_unref(inquiry->dataset);
    spec_unref(inquiry->spec);
    inquiry->kind->free(inquiry->result);
    free(inquiry->want);
    free(inquiry);
}

/* Its errand, if it had one, has run. */
static void finish(struct inquiry *inquiry)
{
    struct session *session = inquiry->session;
    if (inquiry->errand.errands)
        errands_end(&inquiry->errand);
    drop(inquiry);
    session_reap(session);
}

static void fail(struct inquiry *inquiry, enum dlp_error code, const char *text)
{
    session_refuse(inquiry->session, inquiry->id, code, text);
    finish(inquiry);
}

static struct inquiry *of_errand(struct errand *errand)
{
    return (struct inquiry *)(void *)((char *)errand - offsetof(struct inquiry, errand));
}

static void reckon(struct errand *errand)
{
    struct inquiry *inquiry = of_errand(errand);
    if (!inquiry->cancel)
        inquiry->kind->reckon(inquiry);
}

static enum dlp_error code_of(int error)
{
    switch (error) {
    case -EINVAL:
        return DLP_ERROR_BAD_REQUEST;
    case -ENOMEM:
        return DLP_ERROR_NO_MEMORY;
    case -EAGAIN:
        return DLP_ERROR_TOO_MANY;
    default:
        return DLP_ERROR_INTERNAL;
    }
}

/* As fast as the peer reads. */
static void answer(struct inquiry *inquiry)
{
    struct session *session = inquiry->session;
    inquiry->stage = INQUIRY_ANSWER;
    if (session->sink.more) {
        session->sink.more(session->sink.context);
        return;
    }
    while (inquiry_continue(session))
        ;
}

static void reckoned(struct errand *errand)
{
    struct inquiry *inquiry = of_errand(errand);
    const struct error *err = errand->err.code ? &errand->err : &inquiry->err;
    if (inquiry->cancel)
        finish(inquiry);
    else if (err->code)
        fail(inquiry, code_of(err->code), err->text);
    else
        answer(inquiry);
}

struct steps inquiry_steps(const struct inquiry *inquiry, uint64_t epoch)
{
    struct steps steps = inquiry->steps;
    steps.start = epoch == inquiry->start.epoch ? inquiry->start.position : 0;
    return steps;
}

static int check_token(struct inquiry *inquiry, struct refusal *refusal)
{
    struct token ours;
    token_make(&ours, inquiry->spec, dataset_fingerprint(inquiry->dataset), inquiry->order.seed);
    int code =
        token_compare(&inquiry->token, &ours, inquiry->steps.records, inquiry->spec->name, refusal);
    if (!code)
        inquiry->start = place_settled(
            (struct job_start){inquiry->token.epoch, inquiry->token.next}, inquiry->steps);
    return code;
}

/* The data set is there: which epoch of which order, from where on. */
static int settle(struct inquiry *inquiry, struct refusal *refusal)
{
    struct error err;
    const char *fingerprint = dataset_fingerprint(inquiry->dataset);
    inquiry->steps.records = dataset_records(inquiry->dataset);
    plan_id(fingerprint, &inquiry->order, tail_name(inquiry->steps.tail), inquiry->plan);
    int code = inquiry->has_token ? check_token(inquiry, refusal) : 0;
    if (code)
        return code;
    if (!inquiry->has_epoch)
        inquiry->epoch = inquiry->start.epoch;
    inquiry->steps = inquiry_steps(inquiry, inquiry->epoch);
    if (steps_check(&inquiry->steps, &err))
        return refuse(refusal, DLP_ERROR_BAD_REQUEST, "%s", err.text);
    return place_check_epoch(inquiry->epoch, refusal);
}

static void on_dataset(void *context, struct dataset *dataset, const struct error *err)
{
    struct inquiry *inquiry = context;
    const struct control *control = inquiry->session->control;
    struct errands *lane = own_feeds_lane(control->own_feeds, inquiry->spec);
    struct refusal refusal;
    if (!dataset) {
        fail(inquiry, DLP_ERROR_DATASET, err->text);
        return;
    }
    inquiry->dataset = dataset_ref(dataset);
    if (settle(inquiry, &refusal)) {
        fail(inquiry, refusal.code, refusal.text);
    } else if (inquiry->kind->reckon) {
        inquiry->stage = INQUIRY_ERRAND;
        inquiry->errand.run = reckon;
        inquiry->errand.ran = reckoned;
        errands_add(lane ? lane : control->errands, &inquiry->errand);
    } else {
        answer(inquiry);
    }
}

char *inquiry_token(const struct inquiry *inquiry, uint64_t step, char text[DLP_TOKEN_MAX])
{
    struct token token;
    const struct steps *steps = &inquiry->steps;
    bool over = step == steps_total(steps);
    token_make(&token, inquiry->spec, dataset_fingerprint(inquiry->dataset), inquiry->order.seed);
    token.epoch = inquiry->epoch + over;
    token.next = over ? 0 : steps->start + step * steps->world * steps->batch;
    return token_print(&token, text);
}

static void on_progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    const struct inquiry *inquiry = context;
    session_progress(inquiry->session, inquiry->id, text, done, total);
}

static void report(const struct inquiry *inquiry)
{
    char text[64];
    uint32_t before = errands_before(&inquiry->errand);
    snprintf(text, sizeof text, "waiting for %u question%s asked before", before, plural(before));
    if (before)
        session_progress(inquiry->session, inquiry->id, text, 0, 0);
    else
        session_progress(inquiry->session, inquiry->id, "reckoning from the plan", inquiry->done,
                         inquiry->total);
}

static void check_reading(struct inquiry *inquiry)
{
    inquiry->unread = inquiry->sent == inquiry->seen ? inquiry->unread + 1 : 0;
    inquiry->seen = inquiry->sent;
    if (inquiry->unread >= UNREAD_S)
        fail(inquiry, DLP_ERROR_TOO_MANY,
             "the answer was not read for 30 s, and its place goes to the next: ask again");
}

void inquiry_tick(struct inquiry *inquiry)
{
    if (inquiry->stage == INQUIRY_ERRAND)
        report(inquiry);
    else if (inquiry->stage == INQUIRY_ANSWER)
        check_reading(inquiry);
}

static uint64_t or (const Dlp__Number *number, uint64_t otherwise)
{
    return number ? number->value : otherwise;
}

static struct inquiry *inquiry_new(struct session *session, const struct feed_spec *spec,
                                   const Dlp__Question *question, const struct token *token)
{
    struct inquiry *inquiry = mem_new(sizeof *inquiry);
    inquiry->session = session;
    inquiry->spec = spec_ref(spec);
    inquiry->has_token = *question->token;
    inquiry->token = *token;
    inquiry->order = (struct plan_settings){
        .seed = inquiry->has_token ? token->seed : or (question->seed, spec->seed),
        .shuffle = spec->shuffle,
        .lanes = spec->lanes};
    inquiry->steps = (struct steps){.lanes = spec->shuffle ? spec->lanes : 1,
                                    .world = (uint32_t) or (question->world, 1),
                                    .batch = (uint32_t) or (question->batch, spec->batch),
                                    .tail = spec->tail};
    inquiry->has_epoch = question->epoch;
    inquiry->epoch = or (question->epoch, 0);
    inquiry->waiter =
        (struct datasets_waiter){.done = on_dataset, .progress = on_progress, .context = inquiry};
    return inquiry;
}

/* Number of the feed, or -1 with the refusal sent. */
static int admit_question(struct session *session, uint64_t id, const struct inquiry_kind *kind,
                          const Dlp__Question *question, struct token *token)
{
    struct refusal refusal;
    int number = feeds_check(session->control, &session->peer, question->feed, &refusal);
    if (number < 0) {
        session_deny(session, id, kind->name, refusal.code, refusal.text);
        return -1;
    }
    int code = 0;
    const struct feed_spec *spec = session->control->options.feeds[number];
    if (session->inquiry)
        code = refuse(&refusal, DLP_ERROR_BAD_REQUEST,
                      "%s: this connection waits for the answer to another question (%s): one at a "
                      "time",
                      kind->name, session->inquiry->kind->name);
    else if (!question->batch && !spec->batch)
        code = refuse(&refusal, DLP_ERROR_BAD_REQUEST,
                      "feed %s has no batch: give one with the request", spec->name);
    else if (*question->token)
        code = token_parse(question->token, token, &refusal);
    if (code)
        session_refuse(session, id, refusal.code, refusal.text);
    return code ? -1 : number;
}

void inquiry_begin(struct session *session, uint64_t id, const struct inquiry_kind *kind,
                   const Dlp__Question *question, void *want)
{
    struct token token = {0};
    int number = admit_question(session, id, kind, question, &token);
    if (number < 0) {
        free(want);
        return;
    }
    const struct feed_spec *spec = session->control->options.feeds[number];
    struct inquiry *inquiry = session->inquiry = inquiry_new(session, spec, question, &token);
    inquiry->id = id;
    inquiry->kind = kind;
    inquiry->want = want;
    datasets_get(session->control->datasets, (uint32_t)number, inquiry->spec, &inquiry->waiter);
}

bool inquiry_continue(struct session *session)
{
    struct inquiry *inquiry = session->inquiry;
    if (!inquiry || inquiry->stage != INQUIRY_ANSWER)
        return false;
    if (!inquiry->kind->send(inquiry))
        finish(inquiry);
    return true;
}

void inquiry_cancel(struct inquiry *inquiry)
{
    if (!inquiry)
        return;
    inquiry->cancel = true;
    switch (inquiry->stage) {
    case INQUIRY_DATASET:
        datasets_leave(&inquiry->waiter);
        drop(inquiry);
        break;
    case INQUIRY_ERRAND:
        if (errands_leave(&inquiry->errand))
            drop(inquiry);
        break;
    case INQUIRY_ANSWER:
        if (inquiry->errand.errands)
            errands_end(&inquiry->errand);
        drop(inquiry);
        break;
    }
}
