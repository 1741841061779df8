#include "client/ctl/ctl_admin.h"
#include "client/ctl/ctl_json.h"

int ctl_reload(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__ReloadRequest request = DLP__RELOAD_REQUEST__INIT;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_RELOAD_REQUEST;
    env.reload_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl reload", &env, DLP__ENVELOPE__BODY_RELOAD_REPLY,
                            CTL_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__ReloadReply *done = ctl_reply_body(&reply);
    if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&done->base), true);
    else
        ctl_print(ctl, "the configuration is read again");
    for (size_t i = 0; !ctl->json && i < done->n_notes; i++)
        ctl_print(ctl, "note: %s", done->notes[i]);
    ctl_reply_free(&reply);
    return CTL_OK;
}
