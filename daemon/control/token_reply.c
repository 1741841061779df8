#include "control/token_reply.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/plural.h"
#include "control/inquiry.h"

static int check_step(const struct inquiry *inquiry, uint64_t step, struct refusal *refusal)
{
    const struct steps *steps = &inquiry->steps;
    uint64_t total = steps_total(steps);
    if (step <= total)
        return place_check_epoch(inquiry->epoch + (step == total), refusal);
    return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                  "step %" PRIu64 " does not exist: epoch %" PRIu64 " of feed %s has %" PRIu64
                  " step%s with world %" PRIu32 " x batch %" PRIu32,
                  step, inquiry->epoch, inquiry->spec->name, total, plural(total), steps->world,
                  steps->batch);
}

static bool send_token(struct inquiry *inquiry)
{
    const uint64_t *step = inquiry->want;
    struct refusal refusal;
    char text[DLP_TOKEN_MAX];
    if (check_step(inquiry, *step, &refusal)) {
        session_refuse(inquiry->session, inquiry->id, refusal.code, refusal.text);
        return false;
    }
    Dlp__TokenReply reply = DLP__TOKEN_REPLY__INIT;
    reply.token = inquiry_token(inquiry, *step, text);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = inquiry->id;
    env.body_case = DLP__ENVELOPE__BODY_TOKEN_REPLY;
    env.token_reply = &reply;
    session_send(inquiry->session, &env);
    return false;
}

void token_reply_begin(struct session *session, uint64_t id, const Dlp__TokenRequest *message)
{
    static const struct inquiry_kind kind = {"token", NULL, send_token, free};
    uint64_t *step = mem_new(sizeof *step);
    *step = message->step;
    inquiry_begin(session, id, &kind, message->question, step);
}
