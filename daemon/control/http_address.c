#include "control/http_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_MAX 65535
#define LOOPBACK_NET 127 /* the first byte of its addresses */

/* Host and the rest of "host:port", "[host]:port", "host" or "[host]"; false: too long, or broken.
 */
static bool split(const char *text, char host[HTTP_ADDRESS_MAX], const char **rest)
{
    bool brackets = *text == '[';
    const char *begin = text + brackets;
    size_t size = strcspn(begin, brackets ? "]" : ":");
    if (size >= HTTP_ADDRESS_MAX || (brackets && begin[size] != ']'))
        return false;
    memcpy(host, begin, size);
    host[size] = '\0';
    *rest = begin + size + brackets;
    return **rest == '\0' || **rest == ':';
}

static bool is_loopback(const char *host, struct http_address *out)
{
    *out = (struct http_address){0};
    if (inet_pton(AF_INET, host, &out->socket.v4.sin_addr) == 1) {
        out->socket.v4.sin_family = AF_INET;
        out->size = sizeof out->socket.v4;
        return ntohl(out->socket.v4.sin_addr.s_addr) >> 24 == LOOPBACK_NET;
    }
    if (inet_pton(AF_INET6, host, &out->socket.v6.sin6_addr) == 1) {
        out->socket.v6.sin6_family = AF_INET6;
        out->size = sizeof out->socket.v6;
        return IN6_IS_ADDR_LOOPBACK(&out->socket.v6.sin6_addr);
    }
    return false;
}

int http_address_parse(const char *text, struct http_address *out, struct error *err)
{
    char host[HTTP_ADDRESS_MAX], *end;
    const char *rest;
    if (!split(text, host, &rest))
        return error_set(err, -EINVAL, "\"%s\" is no ADDRESS:PORT", text);
    if (!is_loopback(host, out))
        return error_set(err, -EINVAL,
                         "\"%s\" is not on this machine's loopback: the port asks nobody who he "
                         "is; write 127.0.0.1:9475 or \"[::1]:9475\", and take it further by a "
                         "proxy that asks, or by ssh -L",
                         text);
    unsigned long port = strtoul(*rest ? rest + 1 : rest, &end, 10);
    if (*rest == '\0' || rest[1] < '0' || rest[1] > '9' || *end || port > PORT_MAX)
        return error_set(err, -EINVAL, "\"%s\" needs a port after it, :0 to :%d", text, PORT_MAX);
    if (out->socket.any.sa_family == AF_INET)
        out->socket.v4.sin_port = htons((uint16_t)port);
    else
        out->socket.v6.sin6_port = htons((uint16_t)port);
    return 0;
}

char *http_address_text(const struct http_address *address, char text[HTTP_ADDRESS_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    bool v4 = address->socket.any.sa_family == AF_INET;
    const void *number = &address->socket.v6.sin6_addr;
    if (v4)
        number = &address->socket.v4.sin_addr;
    inet_ntop(address->socket.any.sa_family, number, host, sizeof host);
    snprintf(text, HTTP_ADDRESS_MAX, v4 ? "%s:%u" : "[%s]:%u", host,
             ntohs(v4 ? address->socket.v4.sin_port : address->socket.v6.sin6_port));
    return text;
}

bool http_address_is_host(const char *host)
{
    struct http_address address;
    char name[HTTP_ADDRESS_MAX];
    const char *rest;
    return split(host, name, &rest) &&
           (strcasecmp(name, "localhost") == 0 || is_loopback(name, &address));
}
