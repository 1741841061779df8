#include "control/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define RETRY_MS 2000
#define BACKLOG 128
#define HEADERS_MAX 16384 /* bytes of a request */
#define FRONT "report.html"
/* A page has all in it and asks nobody but us. */
#define SECURITY                                                                                   \
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "   \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
/* Not 0: a timer of 0 that is started in its own callback runs before libuv looks at others. */
#define AT_ONCE_MS 1

struct peer {
    int fd;         /* -1: nobody; borrowed from libmicrohttpd, which says when it ends */
    uint64_t since; /* ns */
};

struct http {
    uv_loop_t *loop;
    struct pages *pages;
    struct http_address address;
    struct MHD_Daemon *server; /* NULL: not open; and then neither what follows */
    int fd;                    /* listens */
    uv_poll_t listening, working;
    uv_timer_t timer; /* until there is something to do, or to give up */
    struct peer peers[HTTP_PEERS];
    int handles; /* open; the last one closed frees */
    char words[HTTP_WORDS_MAX];
};

bool http_built(void)
{
    return true;
}

const char *http_words(const struct http *http)
{
    return http ? http->words : "";
}

static struct peer *find_peer(struct http *http, int fd)
{
    for (size_t i = 0; i < HTTP_PEERS; i++)
        if (http->peers[i].fd == fd)
            return &http->peers[i];
    return NULL;
}

static struct peer *oldest_peer(struct http *http)
{
    struct peer *oldest = NULL;
    for (size_t i = 0; i < HTTP_PEERS; i++) {
        struct peer *peer = &http->peers[i];
        if (peer->fd >= 0 && (!oldest || peer->since < oldest->since))
            oldest = peer;
    }
    return oldest;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **own,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *http = context;
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct peer *peer = find_peer(http, code == MHD_CONNECTION_NOTIFY_STARTED ? -1 : fd);
    (void)own;
    if (peer && code == MHD_CONNECTION_NOTIFY_STARTED)
        *peer = (struct peer){.fd = fd, .since = clock_ns()};
    else if (peer)
        peer->fd = -1;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type,
                              struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Content-Security-Policy", SECURITY);
    MHD_add_response_header(response, "Connection", "close");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned code, const char *why)
{
    char text[ERROR_TEXT_MAX + 1];
    snprintf(text, sizeof text, "%s\n", why);
    return answer(connection, code, "text/plain; charset=utf-8",
                  MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY));
}

static void page_read(void *page)
{
    page_unref(page);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **own)
{
    struct http *http = context;
    struct error err;
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)own;
    if (!host || !http_address_is_host(host))
        return refuse(connection, MHD_HTTP_FORBIDDEN,
                      "the request must say Host: 127.0.0.1, [::1] or localhost");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are served");
    const char *name = *url == '/' ? url + 1 : url;
    struct page *page = pages_get(http->pages, *name ? name : FRONT, &err);
    if (!page)
        return refuse(connection,
                      err.code == -ENOENT ? MHD_HTTP_NOT_FOUND : MHD_HTTP_INTERNAL_SERVER_ERROR,
                      err.text);
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        page->size, page->bytes, page_read, page);
    if (!response)
        page_unref(page);
    return answer(connection, MHD_HTTP_OK, page->type, response);
}

/* Its end is seen by libmicrohttpd as the peer's own. */
static void end_peer(struct peer *peer, uint64_t now)
{
    shutdown(peer->fd, SHUT_RDWR);
    peer->since = now;
}

static void on_timer(uv_timer_t *timer);

static void schedule(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG wait = 1;
    const struct peer *oldest = oldest_peer(http);
    if (MHD_get_timeout(http->server, &wait) == MHD_YES && wait == 0) {
        uv_timer_start(&http->timer, on_timer, AT_ONCE_MS, 0);
    } else if (oldest) {
        uint64_t age = (clock_ns() - oldest->since) / CLOCK_MS;
        uint64_t left = age < HTTP_LIFE_MS ? HTTP_LIFE_MS - age : 0;
        uv_timer_start(&http->timer, on_timer, left + AT_ONCE_MS, 0);
    } else if (uv_is_active((uv_handle_t *)&http->listening)) {
        uv_timer_stop(&http->timer);
    }
}

static void work(struct http *http)
{
    MHD_run(http->server);
    schedule(http);
}

static void on_working(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    work(poll->data);
}

/* False: nobody waits, or nobody can be let in. */
static bool let_in(struct http *http)
{
    struct http_address from;
    from.size = sizeof from.socket;
    int fd = accept4(http->fd, &from.socket.any, &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
        log_event(LOG_WARNING, log_about(LOG_HTTP_FAILED),
                  "HTTP: a connection cannot be accepted: %s", strerror(errno));
        uv_poll_stop(&http->listening); /* it would only be told again */
        uv_timer_start(&http->timer, on_timer, RETRY_MS, 0);
    }
    if (fd < 0)
        return false;
    if (!find_peer(http, -1)) {
        end_peer(oldest_peer(http), clock_ns());
        MHD_run(http->server);
    }
    if (find_peer(http, -1))
        MHD_add_connection(http->server, fd, &from.socket.any, from.size);
    else
        close(fd);
    return true;
}

static void on_listening(uv_poll_t *poll, int status, int events)
{
    struct http *http = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < HTTP_PEERS && let_in(http); i++)
        ; /* then others get their turn */
    work(http);
}

/* Negative errno, or the socket. */
static int open_socket(struct http_address *address)
{
    int on = 1;
    int fd = socket(address->socket.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, &address->socket.any, address->size) || listen(fd, BACKLOG) ||
        getsockname(fd, &address->socket.any, &address->size)) {
        int err = errno;
        close(fd);
        return -err;
    }
    return fd;
}

static struct MHD_Daemon *start_server(struct http *http)
{
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request,
                            http, MHD_OPTION_CONNECTION_LIMIT, 2 * HTTP_PEERS,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS_MAX,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
}

static void poll_handle(struct http *http, uv_poll_t *poll, int fd, uv_poll_cb callback)
{
    uv_poll_init(http->loop, poll, fd);
    poll->data = http;
    uv_poll_start(poll, UV_READABLE, callback);
    http->handles++;
}

static int open_server(struct http *http)
{
    http->fd = open_socket(&http->address);
    if (http->fd < 0)
        return http->fd;
    http->server = start_server(http);
    if (!http->server) {
        close(http->fd);
        return -ENOMEM;
    }
    poll_handle(http, &http->listening, http->fd, on_listening);
    int events = MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    poll_handle(http, &http->working, events, on_working);
    return 0;
}

static void try_open(struct http *http)
{
    char text[HTTP_ADDRESS_MAX];
    int rc = open_server(http);
    http_address_text(&http->address, text);
    if (rc == 0) {
        snprintf(http->words, sizeof http->words, "http://%s", text);
        log_notice("figures at %s/metrics, for everybody on this machine", http->words);
        return;
    }
    bool first = !*http->words; /* later ones would say the same each time */
    snprintf(http->words, sizeof http->words,
             "no HTTP at %s: %s; tried again each %d s, or give metrics: another port", text,
             strerror(-rc), RETRY_MS / 1000);
    if (first)
        log_event(LOG_WARNING, log_about(LOG_HTTP_FAILED), "%s", http->words);
    uv_timer_start(&http->timer, on_timer, RETRY_MS, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct http *http = timer->data;
    uint64_t now = clock_ns();
    if (!http->server) {
        try_open(http);
        return;
    }
    for (size_t i = 0; i < HTTP_PEERS; i++) {
        struct peer *peer = &http->peers[i];
        if (peer->fd >= 0 && now - peer->since >= HTTP_LIFE_MS * CLOCK_MS)
            end_peer(peer, now);
    }
    uv_poll_start(&http->listening, UV_READABLE, on_listening);
    work(http);
}

struct http *http_new(uv_loop_t *loop, struct pages *pages, const struct http_address *address)
{
    if (!address->size)
        return NULL;
    struct http *http = mem_new(sizeof *http);
    http->loop = loop;
    http->pages = pages;
    http->address = *address;
    for (size_t i = 0; i < HTTP_PEERS; i++)
        http->peers[i].fd = -1;
    uv_timer_init(loop, &http->timer);
    http->timer.data = http;
    http->handles = 1;
    try_open(http);
    return http;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http *http = handle->data;
    if (--http->handles == 0)
        free(http);
}

void http_free(struct http *http)
{
    if (!http)
        return;
    uv_close((uv_handle_t *)&http->timer, on_handle_closed);
    if (!http->server)
        return;
    uv_close((uv_handle_t *)&http->listening, on_handle_closed);
    uv_close((uv_handle_t *)&http->working, on_handle_closed);
    MHD_stop_daemon(http->server);
    close(http->fd);
}
