/* Addresses of the HTTP port. It asks nobody who he is, so they are of this machine's loopback
 * only. Pure. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

#include "base/error.h"

#define HTTP_ADDRESS_MAX 64

struct http_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } socket;
    socklen_t size; /* 0: none */
};

/* "127.0.0.1:9475" or "[::1]:9475"; port 0 is any free one. -EINVAL with the reason. */
int http_address_parse(const char *text, struct http_address *out, struct error *err);
/* The same text of an address. */
char *http_address_text(const struct http_address *address, char text[HTTP_ADDRESS_MAX]);
/* A request's Host names this machine's loopback, with any port or none: a page of another site
 * that has its own name point here says another one. */
bool http_address_is_host(const char *host);

#endif
