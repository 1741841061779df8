#include "sd.h"

#ifdef WITH_SYSTEMD

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

/* Read end of a pipe whose write end the manager was given to keep: closed, if it does not. Once we
 * have ended nobody reads, and the manager drops its end. */
#define WITNESS "dataloadd-witness"
static int witness = -1;

void sd_tell_ready(void)
{
    sd_notify(0, "READY=1");
}

void sd_tell_reloading(void)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(clock_ns() / CLOCK_US));
}

void sd_tell_stopping(void)
{
    sd_notify(0, "STOPPING=1");
}

void sd_tell_status(const char *format, ...)
{
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sd_notifyf(0, "STATUS=%s", text);
}

uint64_t sd_watchdog_ns(void)
{
    uint64_t usec = 0;
    return sd_watchdog_enabled(0, &usec) > 0 ? usec * 1000 : 0;
}

void sd_watchdog_beat(void)
{
    sd_notify(0, "WATCHDOG=1");
}

/* Names of what was handed over; NULL from the moment at which it is somebody's. Asked for once:
 * what is closed since then is no descriptor any more. */
static char **given;
static int ngiven = -1;

static int count_given(void)
{
    if (ngiven < 0)
        ngiven = sd_listen_fds_with_names(0, &given);
    return ngiven;
}

static int give(int i)
{
    free(given[i]);
    given[i] = NULL;
    return SD_LISTEN_FDS_START + i;
}

int sd_listen_socket(void)
{
    for (int i = 0; i < count_given(); i++)
        if (given[i] && strcmp(given[i], SD_SOCKET) != 0 &&
            sd_is_socket_unix(SD_LISTEN_FDS_START + i, SOCK_STREAM, 1, NULL, 0) > 0)
            return give(i);
    return -1;
}

bool sd_managed(void)
{
    return getenv("NOTIFY_SOCKET");
}

int sd_take(const char *name)
{
    for (int i = 0; i < count_given(); i++)
        if (given[i] && strcmp(given[i], name) == 0)
            return give(i);
    return -1;
}

static void keep(int fd, const char *name)
{
    cleanup_free char *text = mem_format("FDSTORE=1\nFDNAME=%s", name);
    sd_pid_notify_with_fds(0, 0, text, &fd, 1);
}

void sd_keep(int fd, const char *name)
{
    int ends[2];
    if (witness < 0 && sd_managed() && pipe2(ends, O_CLOEXEC) == 0) {
        keep(ends[1], WITNESS);
        close(ends[1]);
        witness = ends[0];
    }
    keep(fd, name);
}

void sd_forget(const char *name)
{
    sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

bool sd_keeps(void)
{
    struct pollfd look = {.fd = witness};
    return witness >= 0 && poll(&look, 1, 0) == 0;
}

#else

void sd_tell_ready(void)
{
}

void sd_tell_reloading(void)
{
}

void sd_tell_stopping(void)
{
}

void sd_tell_status(const char *format, ...)
{
    (void)format;
}

uint64_t sd_watchdog_ns(void)
{
    return 0;
}

void sd_watchdog_beat(void)
{
}

int sd_listen_socket(void)
{
    return -1;
}

bool sd_managed(void)
{
    return false;
}

int sd_take(const char *name)
{
    (void)name;
    return -1;
}

void sd_keep(int fd, const char *name)
{
    (void)fd;
    (void)name;
}

void sd_forget(const char *name)
{
    (void)name;
}

bool sd_keeps(void)
{
    return false;
}

#endif
