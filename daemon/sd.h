/* What the service manager is told and hands over; nothing where there is none (not started by
 * systemd, or built without libsystemd). Loop thread. */
#ifndef SD_H
#define SD_H

#include <stdbool.h>
#include <stdint.h>

void sd_tell_ready(void);
void sd_tell_reloading(void); /* until sd_tell_ready */
void sd_tell_stopping(void);
void sd_tell_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Nanoseconds within which the manager wants sd_watchdog_beat() called again; 0 = it does not. */
uint64_t sd_watchdog_ns(void);
void sd_watchdog_beat(void);
/* The listening stream socket that the manager opened for us (close-on-exec, now the caller's), or
 * -1: we listen ourselves. */
int sd_listen_socket(void);

/* Descriptors that the manager keeps for the next start, by name. */
#define SD_SOCKET "dataloadd-socket" /* that listens, where we have opened it */
#define SD_JOBS "dataloadd-jobs"     /* control/ledger.h */
/* There is a manager; whether it keeps anything is up to it. */
bool sd_managed(void);
/* One that was kept for us (close-on-exec, now the caller's; it stays kept), or -1. */
int sd_take(const char *name);
void sd_keep(int fd, const char *name);
void sd_forget(const char *name);
/* What was given it some time ago is kept indeed. */
bool sd_keeps(void);

#endif
