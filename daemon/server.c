#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plural.h"
#include "config_recipe.h"
#include "control/control.h"
#include "control/heartbeat.h"
#include "control/ledger.h"
#include "control/listen.h"
#include "image/simd.h"
#include "reload.h"
#include "sd.h"
#include "watch.h"

#define MODE_USER 0600
#define MODE_SYSTEM 0660
#define STOP_MS 4500   /* of the 5 s that a stop may take */
#define DRIVER_MS 1000 /* then, for the NVIDIA driver to come to its end, and not beyond: */
#define END_MS 4800
#define IDLE_MS 250   /* between two looks for connections, with idle_exit */
#define HELPERS "16"  /* threads that open files and arenas; some may hang in storage */
#define KEEP_SHARE 64 /* of memory, by each heap */

struct server {
    const struct server_options *options;
    uv_loop_t loop;
    struct mailbox *mailbox;
    struct budget *budget;
    struct orphans *orphans;
    struct uploaders *uploaders;
    struct gpus *gpus;
    struct workers *workers;
    struct listener *listener;
    char socket[DLP_SOCKET_PATH_MAX + 1]; /* its path; "": it has none */
    struct heartbeat *heartbeat;          /* NULL: there could be none */
    struct ledger *ledger;                /* NULL: jobs end with us */
    struct control *control;
    struct reload *reload;
    char *cache_dir;
    char worker_cpus[CPUS_TEXT_MAX]; /* to which they are pinned; empty: to none */
    uv_signal_t term, interrupt, hangup;
    bool terminal;       /* it logs to one, whose end is its own */
    uv_timer_t deadline; /* of a stop */
    uv_timer_t idle;
    struct watch *watch;
    bool stopping;
    uint64_t stop_by; /* ns */
};

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* What hangs cannot be joined, and exit() would wait for libuv's threads. */
static void end_now(struct server *server, const char *why)
{
    listen_close(server->listener);
    heartbeat_remove(server->heartbeat);
    gpus_abandon(server->gpus);
    log_event(LOG_WARNING, log_about(LOG_FORCED_END),
              "%s: ending without waiting for threads that still work", why);
    log_flush();
    _exit(EXIT_SUCCESS);
}

static void on_deadline(uv_timer_t *timer)
{
    end_now(timer->data, "stopping has taken too long");
}

static void on_stopped(void *context)
{
    struct server *server = context;
    uv_stop(&server->loop);
}

static void on_accepted(void *context, int fd)
{
    struct server *server = context;
    control_accept(server->control, fd);
}

/* The socket that we open ourselves, over our end: not for a daemon that ends as it likes. */
static bool is_kept(const struct server_options *options)
{
    return options->listen_fd < 0 && !options->idle_exit;
}

static void stop(struct server *server)
{
    server->stopping = true;
    server->stop_by = clock_ns() + END_MS * CLOCK_MS;
    reload_stop(server->reload);
    sd_tell_stopping();
    if (is_kept(server->options) && sd_keeps())
        listen_leave(server->listener);
    listen_close(server->listener);
    server->listener = NULL;
    heartbeat_remove(server->heartbeat);
    uv_timer_start(&server->deadline, on_deadline, STOP_MS, 0);
    control_stop(server->control, on_stopped, server);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct server *server = signal->data;
    if (server->stopping)
        end_now(server, "a second signal came");
    log_event(LOG_NOTICE, log_about(LOG_STOPPING), "SIG%s: stopping",
              number == SIGTERM  ? "TERM"
              : number == SIGINT ? "INT"
                                 : "HUP");
    stop(server);
}

static void on_hangup(uv_signal_t *signal, int number)
{
    struct server *server = signal->data;
    if (server->terminal)
        on_signal(signal, number);
    else if (!server->stopping)
        reload_request(server->reload);
}

/* That of the daemon before, in which trainers may wait already. */
static struct listener *take_kept(const struct server_options *options)
{
    int fd = sd_take(SD_SOCKET);
    if (fd < 0)
        return NULL;
    struct listener *listener = NULL;
    if (is_kept(options))
        listener = listen_adopt_kept(fd, options->socket_path);
    else
        close(fd);
    if (!listener)
        sd_forget(SD_SOCKET);
    return listener;
}

static int open_socket(struct server *server, struct error *err)
{
    const struct server_options *options = server->options;
    mode_t mode = options->user ? MODE_USER : MODE_SYSTEM;
    int rc = listen_open(options->socket_path, mode, &server->listener, err);
    if (!rc && is_kept(options))
        sd_keep(listen_fd(server->listener), SD_SOCKET);
    return rc;
}

/* Who came in the last moment is served, and the socket that was shut is opened anew for others. */
static void open_again(struct server *server)
{
    struct error err;
    if (server->options->listen_fd >= 0)
        return;
    listen_close(server->listener);
    server->listener = NULL;
    if (open_socket(server, &err) ||
        listen_start(server->listener, &server->loop, on_accepted, server, &err))
        log_error("%s", err.text);
}

/* The last look is behind a shut socket: a client is either seen by it or refused. */
static void on_idle(uv_timer_t *timer)
{
    struct server *server = timer->data;
    uint32_t seconds = server->options->idle_exit;
    const struct control *control = server->control;
    if (server->stopping || control->nconns ||
        clock_ns() - control->deserted < seconds * CLOCK_SECOND)
        return;
    if (server->listener)
        listen_shut(server->listener);
    if (control->nconns) {
        open_again(server);
        return;
    }
    log_event(LOG_NOTICE, log_about(LOG_STOPPING), "no connection for %u s: stopping", seconds);
    stop(server);
}

/* From the moment at which there is a socket, an end has to take it away again. */
static void hold_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(how, &set, NULL);
}

static void start_signals(struct server *server)
{
    uv_signal_init(&server->loop, &server->term);
    uv_signal_init(&server->loop, &server->interrupt);
    uv_signal_init(&server->loop, &server->hangup);
    uv_timer_init(&server->loop, &server->deadline);
    uv_timer_init(&server->loop, &server->idle);
    server->term.data = server->interrupt.data = server->hangup.data = server;
    server->terminal = isatty(STDERR_FILENO);
    server->deadline.data = server->idle.data = server;
    uv_signal_start(&server->term, on_signal, SIGTERM);
    uv_signal_start(&server->interrupt, on_signal, SIGINT);
    uv_signal_start(&server->hangup, on_hangup, SIGHUP);
    if (server->options->idle_exit)
        uv_timer_start(&server->idle, on_idle, IDLE_MS, IDLE_MS);
}

/* Limits of cgroups and sets of CPUs may widen later. */
static unsigned worker_room(const struct config *config)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    unsigned most = config_workers(config);
    if (config->workers || config->workers_max || cpus <= (long)most)
        return most;
    return cpus < WORKERS_MAX ? (unsigned)cpus : WORKERS_MAX;
}

static void start_heartbeat(struct server *server)
{
    struct error err;
    if (!*server->socket)
        return;
    server->heartbeat = heartbeat_new(server->socket, &err);
    if (!server->heartbeat)
        log_warning("%s; dataloadctl status will know nothing should the daemon hang", err.text);
}

/* Where there is somebody who keeps it for the next daemon. */
static void open_ledger(struct server *server)
{
    struct error err;
    if (!sd_managed() || server->options->idle_exit)
        return;
    int fd = sd_take(SD_JOBS);
    if (fd >= 0 && (server->ledger = ledger_adopt(fd, &err)))
        return;
    if (fd >= 0) {
        log_warning("%s; it is not used", err.text);
        sd_forget(SD_JOBS);
    }
    server->ledger = ledger_new(&err);
    if (server->ledger)
        sd_keep(ledger_fd(server->ledger), SD_JOBS);
    else
        log_warning("%s", err.text);
}

static void start_control(struct server *server)
{
    const struct config *config = server->options->config;
    unsigned threads = config->workers ? config->workers : system_cpus();
    unsigned room = worker_room(config);
    server->budget = budget_new(config->memory, config->decode_memory);
    mem_keep(budget_limit(server->budget) / KEEP_SHARE);
    server->orphans = orphans_new(server->budget);
    server->uploaders = uploaders_new(&uploader_times);
    cleanup_free struct cpus *cpus = cpus_allowed(room);
    server->workers = workers_new_room(config->workers ? config->workers : 1, room,
                                       config->pin_workers ? cpus : NULL, server->budget);
    if (config->pin_workers)
        cpus_text(cpus, server->worker_cpus, sizeof server->worker_cpus);
    server->gpus = gpus_new();
    start_heartbeat(server);
    open_ledger(server);
    server->mailbox = mailbox_new(&server->loop);
    server->reload = reload_new(&server->loop, config);
    uint64_t client_memory =
        config->client_memory ? config->client_memory : budget_limit(server->budget) / 4;
    struct control_options control = {.loop = &server->loop,
                                      .mailbox = server->mailbox,
                                      .budget = server->budget,
                                      .orphans = server->orphans,
                                      .uploaders = server->uploaders,
                                      .workers = server->workers,
                                      .workers_auto = !config->workers,
                                      .workers_max = config->workers_max,
                                      .feeds = config->feeds,
                                      .nfeeds = config->nfeeds,
                                      .client_memory = client_memory,
                                      .clients = config->clients,
                                      .users = &config->users,
                                      .job_linger = config->job_linger,
                                      .own_feeds = config->own_feeds,
                                      .read_recipe = config_recipe_parse,
                                      .cache_dir = server->cache_dir,
                                      .cache_bytes = config->cache_bytes,
                                      .cache_marks = config->cache_marks,
                                      .threads = threads,
                                      .socket_path = server->socket,
                                      .worker_cpus = server->worker_cpus,
                                      .gpus = server->gpus,
                                      .metrics = config->metrics,
                                      .heartbeat = server->heartbeat,
                                      .ledger = server->ledger,
                                      .reload = reload_request,
                                      .reload_context = server->reload};
    server->control = control_new(&control);
    server->control->client_memory = config->client_memory;
    reload_start(server->reload, server->control);
    log_event(
        LOG_NOTICE, log_about(LOG_STARTED),
        "dataloadd %s: %u feed%s, %s%u worker%s%s%s, memory %.1f MB, vector code %s, socket %s",
        DATALOADD_VERSION, config->nfeeds, plural(config->nfeeds), config->workers ? "" : "1 to ",
        config_workers(config), plural(config_workers(config)),
        config->pin_workers ? " on CPUs " : "", server->worker_cpus,
        (double)budget_limit(server->budget) / 1e6, simd_name(simd_level()),
        *server->options->socket_path ? server->options->socket_path : "of the service manager");
}

/* Everything in the reverse order; the control has stopped. */
static void end_all(struct server *server)
{
    if (reload_stop(server->reload))
        end_now(server, "the configuration is still being read");
    watch_free(server->watch);
    control_free(server->control);
    heartbeat_free(server->heartbeat);
    ledger_free(server->ledger);
    mailbox_free(server->mailbox);
    listen_close(server->listener);
    uv_close((uv_handle_t *)&server->term, NULL);
    uv_close((uv_handle_t *)&server->interrupt, NULL);
    uv_close((uv_handle_t *)&server->hangup, NULL);
    uv_close((uv_handle_t *)&server->deadline, NULL);
    uv_close((uv_handle_t *)&server->idle, NULL);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
    reload_free(server->reload);
    workers_free(server->workers);
    orphans_free(server->orphans);
    budget_free(server->budget);
    free(server->cache_dir);
    uint64_t until = clock_ns() + DRIVER_MS * CLOCK_MS;
    if (server->stopping && server->stop_by < until)
        until = server->stop_by;
    bool hangs = !gpus_free(server->gpus, until);
    if (hangs)
        log_event(LOG_WARNING, log_about(LOG_FORCED_END),
                  "the NVIDIA driver does not answer: ending without waiting for it");
    if (!uploaders_free(server->uploaders, until) || hangs) {
        log_flush();
        _exit(EXIT_SUCCESS);
    }
}

int server_run(const struct server_options *options, struct error *err)
{
    struct server server = {.options = options};
    raise_file_limit();
    signal(SIGPIPE, SIG_IGN);
    setenv("UV_THREADPOOL_SIZE", HELPERS, 0);
    hold_signals(SIG_BLOCK);
    server.listener = take_kept(options);
    if (options->listen_fd >= 0)
        server.listener = listen_adopt(options->listen_fd);
    int rc = server.listener ? 0 : open_socket(&server, err);
    if (rc)
        return rc;
    listen_path(server.listener, server.socket);
    uv_loop_init(&server.loop);
    server.cache_dir = config_cache_dir(options->config, options->user);
    start_signals(&server);
    hold_signals(SIG_UNBLOCK);
    start_control(&server);
    rc = listen_start(server.listener, &server.loop, on_accepted, &server, err);
    if (rc == 0) {
        sd_tell_ready();
        server.watch = watch_new(&server.loop, server.control);
        uv_run(&server.loop, UV_RUN_DEFAULT);
    }
    end_all(&server);
    return rc;
}
