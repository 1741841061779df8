#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plural.h"

#define LINE_MAX_BYTES 2048
#define WINDOW_SECONDS 5
#define WINDOW_LINES 10

static _Atomic int highest_level = LOG_INFO;
static _Atomic bool to_journal;

/* systemd sets JOURNAL_STREAM=device:inode of the stream it connected; children that redirect
 * stderr inherit the variable but not the stream. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat status;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

void log_start(enum log_level highest)
{
    highest_level = highest;
    to_journal = stderr_is_journal();
}

static const char *level_name(enum log_level level)
{
    static const char *const names[] = {[LOG_ERROR] = "error",
                                        [LOG_WARNING] = "warning",
                                        [LOG_NOTICE] = "notice",
                                        [LOG_INFO] = "info",
                                        [LOG_DEBUG] = "debug"};
    return names[level];
}

static size_t put_prefix(char *line, size_t size, enum log_level level)
{
    if (to_journal)
        return (size_t)snprintf(line, size, "<%d>", (int)level);
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &parts);
    return length + (size_t)snprintf(line + length, size - length,
                                     ".%03ldZ %s: ", now.tv_nsec / 1000000, level_name(level));
}

/* One line stays one line, whatever a peer put into a name. */
static size_t put_escaped(char *line, size_t size, const char *text)
{
    size_t length = 0;
    for (const char *c = text; *c && length + 5 < size; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f)
            length += (size_t)snprintf(line + length, size - length, "\\x%02x", byte);
        else
            line[length++] = *c;
    }
    return length;
}

/* In one write, so that lines of several threads do not mix. */
static void emit(enum log_level level, const char *text)
{
    char line[LINE_MAX_BYTES];
    size_t length = put_prefix(line, sizeof line, level);
    length += put_escaped(line + length, sizeof line - length, text);
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* there is nobody left to tell */
}

/* Whether this line may go out; *left_out: lines that did not in the window that has just ended. */
static bool admit(struct log_site *site, unsigned *left_out)
{
    unsigned long long now = clock_ns() / CLOCK_SECOND;
    unsigned long long window = atomic_load(&site->window);
    unsigned most = site->most ? site->most : WINDOW_LINES;
    *left_out = 0;
    if (now - window >= WINDOW_SECONDS &&
        atomic_compare_exchange_strong(&site->window, &window, now)) {
        unsigned lines = atomic_exchange(&site->count, 0);
        *left_out = lines > most ? lines - most : 0;
    }
    return atomic_fetch_add(&site->count, 1) < most;
}

void log_line(struct log_site *site, enum log_level level, const char *format, ...)
{
    unsigned left_out;
    if ((int)level > highest_level || !admit(site, &left_out))
        return;
    char text[LINE_MAX_BYTES];
    if (left_out) {
        snprintf(text, sizeof text, "%u line%s like the next one left out", left_out,
                 plural(left_out));
        emit(level, text);
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emit(level, text);
}
