#include "control/http.h"

bool http_built(void)
{
    return false;
}

struct http *http_new(uv_loop_t *loop, struct pages *pages, const struct http_address *address)
{
    (void)loop;
    (void)pages;
    (void)address;
    return NULL;
}

void http_free(struct http *http)
{
    (void)http;
}

const char *http_words(const struct http *http)
{
    (void)http;
    return "";
}
