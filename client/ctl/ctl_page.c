#include "client/ctl/ctl_page.h"

#include <string.h>

static char *joined(const struct ctl_reply *reply, size_t *size)
{
    *size = 0;
    for (size_t i = 0; i < reply->nparts; i++)
        *size += strlen(reply->parts[i]->page_reply->text);
    char *text = ctl_must(malloc(*size + 1)), *at = text;
    for (size_t i = 0; i < reply->nparts; i++)
        at = stpcpy(at, reply->parts[i]->page_reply->text);
    *at = '\0';
    return text;
}

int ctl_page_get(const struct ctl *ctl, const char *program, const char *name, char **text,
                 size_t *size)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__PageRequest request = DLP__PAGE_REQUEST__INIT;
    struct ctl_reply reply;
    request.name = (char *)name;
    env.body_case = DLP__ENVELOPE__BODY_PAGE_REQUEST;
    env.page_request = &request;
    int code =
        ctl_ask_once(ctl, program, &env, DLP__ENVELOPE__BODY_PAGE_REPLY, CTL_DEADLINE_MS, &reply);
    if (code)
        return code;
    *text = joined(&reply, size);
    ctl_reply_free(&reply);
    return CTL_OK;
}
