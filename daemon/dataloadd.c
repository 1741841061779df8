/* The daemon's main program: options, configuration, run, exit code. */
#include <argp.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "check_config.h"
#include "config.h"
#include "config_yaml.h"
#include "proto/socket_path.h"
#include "sd.h"
#include "server.h"

static const char doc[] =
    "Feeds the trainers of one node: reads, decodes and shuffles once, and hands out "
    "batches in memory shared over a Unix socket.";

enum { OPT_CHECK = 256, OPT_WORLD, OPT_SOCKET, OPT_USER, OPT_IDLE };

#define IDLE_EXIT_MAX 86400 /* a day */

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0,
     "Configuration (default: /etc/dataloadd/dataloadd.yaml; with --user "
     "~/.config/dataloadd/dataloadd.yaml)",
     0},
    {"user", OPT_USER, NULL, 0, "Run for one user, without root", 0},
    {"socket", OPT_SOCKET, "PATH", 0, "Control socket", 0},
    {"idle-exit", OPT_IDLE, "SECONDS", 0,
     "End when nobody has been connected for so long (default: only on a signal)", 0},
    {"check-config", OPT_CHECK, NULL, 0,
     "Read the configuration, open every data set, print memory per trainer and in all, and end",
     0},
    {"world", OPT_WORLD, "N", 0, "Trainers to reckon with in --check-config (default 1)", 0},
    {"verbose", 'v', NULL, 0, "Log more", 0},
    {0}};

struct arguments {
    const char *config, *socket;
    bool user, check, verbose;
    uint32_t world, idle_exit;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    uint64_t number;
    switch (key) {
    case 'c':
        arguments->config = arg;
        return 0;
    case OPT_USER:
        arguments->user = true;
        return 0;
    case OPT_SOCKET:
        arguments->socket = arg;
        return 0;
    case OPT_CHECK:
        arguments->check = true;
        return 0;
    case OPT_WORLD:
        if (config_parse_u64(arg, &number) || number < 1 || number > DLP_WORLD_MAX)
            argp_error(state, "--world %s: a number from 1 to %u is wanted", arg, DLP_WORLD_MAX);
        arguments->world = (uint32_t)number;
        return 0;
    case OPT_IDLE:
        if (config_parse_u64(arg, &number) || number < 1 || number > IDLE_EXIT_MAX)
            argp_error(state, "--idle-exit %s: seconds from 1 to %u are wanted", arg,
                       IDLE_EXIT_MAX);
        arguments->idle_exit = (uint32_t)number;
        return 0;
    case 'v':
        arguments->verbose = true;
        return 0;
    case ARGP_KEY_END:
        if (arguments->world && !arguments->check)
            argp_error(state, "--world goes with --check-config only; trainers say their world "
                              "themselves");
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "what is \"%s\"? dataloadd takes options only", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int exit_code(int rc)
{
    if (rc == -EACCES || rc == -EPERM)
        return EX_NOPERM;
    return EX_UNAVAILABLE;
}

static int run(const struct arguments *arguments, const struct config *config)
{
    struct error err = {0};
    char path[DLP_SOCKET_PATH_MAX + 1] = "";
    int listen_fd = sd_listen_socket();
    if (listen_fd < 0) {
        int rc = dlp_socket_bind_path(arguments->socket, arguments->user, path, err.text,
                                      sizeof err.text);
        if (rc) {
            log_event(LOG_ERROR, log_about(LOG_START_FAILED), "%s", err.text);
            return exit_code(rc);
        }
    }
    struct server_options server = {.config = config,
                                    .socket_path = path,
                                    .user = arguments->user,
                                    .listen_fd = listen_fd,
                                    .idle_exit = arguments->idle_exit};
    int rc = server_run(&server, &err);
    if (rc)
        log_event(LOG_ERROR, log_about(LOG_START_FAILED), "%s", err.text);
    return rc ? exit_code(rc) : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    argp_err_exit_status = EX_USAGE;
    argp_program_version = "dataloadd " DATALOADD_VERSION;
    struct argp argp = {options, parse_option, NULL, doc, NULL, NULL, NULL};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    log_start(arguments.verbose ? LOG_DEBUG : LOG_INFO);
    signal(SIGPIPE, SIG_IGN);
    /* A fixed threshold: what one huge picture took goes back to the system, instead of raising the
     * threshold and staying in the heaps. */
    mallopt(M_MMAP_THRESHOLD, 512 * 1024);

    cleanup_free char *standard = config_default_path(arguments.user);
    struct config *config = NULL;
    struct error err = {0};
    if (config_read(arguments.config ? arguments.config : standard, &config, &err)) {
        log_event(LOG_ERROR, log_about(LOG_START_FAILED), "%s", err.text);
        return EX_CONFIG;
    }
    int code;
    if (arguments.check)
        code = check_config(config, arguments.user, arguments.world ? arguments.world : 1)
                   ? EX_CONFIG
                   : EXIT_SUCCESS;
    else
        code = run(&arguments, config);
    config_free(config);
    log_flush();
    return code;
}
