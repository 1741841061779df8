#include "sd.h"

#ifdef WITH_SYSTEMD

#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "base/clock.h"

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

int sd_listen_socket(void)
{
    int count = sd_listen_fds(0);
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++)
        if (sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0)
            return fd;
    return -1;
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

#endif
