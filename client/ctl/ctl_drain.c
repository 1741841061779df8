#include <time.h>

#include "client/ctl/ctl_admin.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_table.h"

#define LOOK_NS 250000000L /* between two looks at who is left */

enum step { DRAIN, UNDRAIN, LOOK };

/* reply is set where the result is CTL_OK. */
static int ask(struct ctl_link *link, enum step step, struct ctl_reply *reply)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__DrainRequest request = DLP__DRAIN_REQUEST__INIT;
    request.drain = step == DRAIN;
    request.undrain = step == UNDRAIN;
    env.body_case = DLP__ENVELOPE__BODY_DRAIN_REQUEST;
    env.drain_request = &request;
    return ctl_link_ask(link, &env, DLP__ENVELOPE__BODY_DRAIN_REPLY, CTL_DEADLINE_MS, reply);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Until nobody is left: reply is the last one. */
static int wait_for_end(struct ctl_link *link, struct ctl_reply *reply)
{
    const struct ctl *ctl = link->ctl;
    double until = now_s() + ctl->seconds;
    for (;;) {
        const Dlp__DrainReply *state = ctl_reply_body(reply);
        uint32_t clients = state->clients;
        bool draining = state->draining, late = ctl->seconds > 0 && now_s() >= until;
        if (draining && !clients)
            return CTL_OK;
        if (!draining || late) {
            ctl_reply_free(reply);
            if (!draining)
                return ctl_fail(ctl, CTL_UNAVAILABLE,
                                "somebody has ended the draining meanwhile, %u clients are left",
                                clients);
            return ctl_fail(ctl, CTL_UNAVAILABLE,
                            "%u client%s left after %g s, and the daemon drains on: dataloadctl "
                            "status lists them, detach ends a job",
                            clients, clients == 1 ? " is" : "s are", ctl->seconds);
        }
        ctl_progress(ctl, "draining: %u client%s left", clients, clients == 1 ? "" : "s");
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        ctl_reply_free(reply);
        int code = ask(link, LOOK, reply);
        if (code)
            return code;
    }
}

static void print(const struct ctl *ctl, const Dlp__DrainReply *state)
{
    char time[CTL_TEXT_MAX];
    if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&state->base), true);
    else if (!state->draining)
        ctl_print(ctl, "new jobs are let in");
    else
        ctl_print(ctl, "draining for %s: no new job is let in, %u client%s left",
                  ctl_text_time(state->draining_ns, time), state->clients,
                  state->clients == 1 ? "" : "s");
}

static int run(const struct ctl *ctl, const char *program, enum step step)
{
    struct ctl_link link;
    struct ctl_reply reply;
    int code = ctl_link_open(ctl, program, &link);
    if (code)
        return code;
    code = ask(&link, step, &reply);
    if (code == CTL_OK && ctl->wait)
        code = wait_for_end(&link, &reply);
    if (code == CTL_OK) {
        ctl_progress(ctl, "%s", "");
        print(ctl, ctl_reply_body(&reply));
        ctl_reply_free(&reply);
    }
    ctl_link_close(&link);
    return code;
}

int ctl_drain(const struct ctl *ctl)
{
    return run(ctl, "dataloadctl drain", DRAIN);
}

int ctl_undrain(const struct ctl *ctl)
{
    return run(ctl, "dataloadctl undrain", UNDRAIN);
}
