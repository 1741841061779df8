#include "client/ctl/ctl_admin.h"
#include "client/ctl/ctl_json.h"

int ctl_detach(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__EvictRequest request = DLP__EVICT_REQUEST__INIT;
    struct ctl_reply reply;
    request.job = (char *)ctl->job;
    if (ctl->feed)
        request.feed = (char *)ctl->feed;
    env.body_case = DLP__ENVELOPE__BODY_EVICT_REQUEST;
    env.evict_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl detach", &env, DLP__ENVELOPE__BODY_EVICT_REPLY,
                            CTL_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__EvictReply *done = ctl_reply_body(&reply);
    if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&done->base), true);
    else
        ctl_print(ctl, "job %s: %u client%s detached", ctl->job, done->clients,
                  done->clients == 1 ? "" : "s");
    ctl_reply_free(&reply);
    return CTL_OK;
}
