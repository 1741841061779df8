/* The pages over HTTP, for everybody on this machine: GET /NAME is the page NAME, / the report.
 *
 * Whoever connects is a stranger: he has one request, HTTP_LIFE_MS for it and its answer, and one
 * of HTTP_PEERS places, of which a newcomer gets the oldest. An address that is taken is tried
 * again. By libmicrohttpd, without threads of its own; http_none.c where that was not there to
 * build with. Loop thread. */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <uv.h>

#include "control/http_address.h"
#include "control/pages.h"

#define HTTP_PEERS 16
#define HTTP_LIFE_MS 3000
#define HTTP_WORDS_MAX 200

struct http;

/* False: this daemon was built without. */
bool http_built(void);
/* address, copied: of size 0 gives NULL, and nothing is opened. */
struct http *http_new(uv_loop_t *loop, struct pages *pages, const struct http_address *address);
/* Closes everything at once; the loop frees it. NULL is fine. */
void http_free(struct http *http);
/* For status: "http://127.0.0.1:9475", or why it is not there; "" for NULL. */
const char *http_words(const struct http *http);

#endif
