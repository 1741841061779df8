#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/journal.h"
#include "base/log_fold.h"
#include "base/plural.h"

#define LINE_MAX_BYTES 2048
#define NAME_MAX_BYTES 32 /* of a figure */

static _Atomic int highest_level = LOG_INFO;
static _Atomic bool to_journal;
static _Atomic unsigned lost; /* lines that nobody took */

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
    if (to_journal)
        journal_open(JOURNAL_SOCKET);
}

/* ------- fields ------- */

typedef void (*put_field)(void *context, const char *name, const char *value);

static void put_text(put_field put, void *context, const char *name, const char *value)
{
    if (value && *value)
        put(context, name, value);
}

static void put_number(put_field put, void *context, const char *name, unsigned long long number)
{
    char value[LOG_FIGURE_MAX];
    snprintf(value, sizeof value, "%llu", number);
    put(context, name, value);
}

static void put_about(const struct log_about *about, put_field put, void *context)
{
    if (about->client) {
        put_number(put, context, "CLIENT", (unsigned long long)about->client);
        put_number(put, context, "UID", about->uid);
    }
    put_text(put, context, "USER", about->user);
    put_text(put, context, "FEED", about->feed);
    put_text(put, context, "JOB", about->job);
    if (about->job)
        put_number(put, context, "RANK", about->rank);
    put_text(put, context, "SHARD", about->shard);
    put_text(put, context, "KEY", about->key);
    put_text(put, context, "REASON", about->reason);
    for (unsigned i = 0; i < about->nfigures; i++)
        put(context, about->figures[i].name, about->figures[i].value);
}

static void put_in_entry(void *context, const char *name, const char *value)
{
    char whole[sizeof "DATALOADD_" + NAME_MAX_BYTES];
    snprintf(whole, sizeof whole, "DATALOADD_%s", name);
    journal_put(context, whole, "%s", value);
}

/* The compiler may have been given the path from its own folder. */
static const char *path_in_tree(const char *file)
{
    while (*file == '.')
        file += strspn(file, ".") + 1;
    return file;
}

static bool send_entry(const struct log_site *site, enum log_level level,
                       const struct log_about *about, const char *text)
{
    static const char *const ids[] = {
#define X(name, id) [LOG_##name] = (id),
        LOG_IDS(X)
#undef X
    };
    struct journal_entry entry;
    entry.length = 0;
    journal_put(&entry, "MESSAGE", "%s", text);
    journal_put(&entry, "PRIORITY", "%d", (int)level);
    journal_put(&entry, "SYSLOG_IDENTIFIER", "%s", program_invocation_short_name);
    journal_put(&entry, "CODE_FILE", "%s", path_in_tree(site->file));
    journal_put(&entry, "CODE_LINE", "%d", site->line);
    journal_put(&entry, "CODE_FUNC", "%s", site->function);
    if (about->id)
        journal_put(&entry, "MESSAGE_ID", "%s", ids[about->id]);
    put_about(about, put_in_entry, &entry);
    return journal_send(&entry) == 0;
}

/* ------- lines ------- */

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

/* A stream to journald blocks when that hangs; stderr is shared, so it cannot be made not to. */
static ssize_t put_out(const char *line, size_t length)
{
    if (to_journal) {
        ssize_t sent = send(STDERR_FILENO, line, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0 || errno != ENOTSOCK)
            return sent;
    }
    return write(STDERR_FILENO, line, length);
}

/* In one write, so that lines of several threads do not mix. */
static bool print(enum log_level level, const char *text)
{
    char line[LINE_MAX_BYTES];
    size_t length = put_prefix(line, sizeof line, level);
    length += escape_line(line + length, sizeof line - length - 1, text);
    line[length++] = '\n';
    return put_out(line, length) == (ssize_t)length;
}

struct pairs {
    size_t length;
    char text[LINE_MAX_BYTES];
};

static void put_in_line(void *context, const char *name, const char *value)
{
    struct pairs *pairs = context;
    char small[NAME_MAX_BYTES] = "";
    for (size_t i = 0; name[i] && i + 1 < sizeof small; i++)
        small[i] = (char)tolower(name[i]);
    const char *quote = strchr(value, ' ') ? "\"" : "";
    int length = snprintf(pairs->text + pairs->length, sizeof pairs->text - pairs->length,
                          " %s=%s%s%s", small, quote, value, quote);
    if (pairs->length + (size_t)length < sizeof pairs->text)
        pairs->length += (size_t)length;
    else
        pairs->text[pairs->length] = '\0';
}

static bool print_account(enum log_level level, const struct log_about *about)
{
    struct pairs pairs = {.length = sizeof "account" - 1, .text = "account"};
    put_about(about, put_in_line, &pairs);
    return print(level, pairs.text);
}

static bool emit(const struct log_site *site, enum log_level level, const struct log_about *about,
                 const char *text)
{
    if (to_journal && send_entry(site, level, about, text))
        return true;
    return print(level, text) && (!about->nfigures || print_account(level, about));
}

/* ------- what is counted ------- */

static void emit_or_count(const struct log_site *site, enum log_level level,
                          const struct log_about *about, const char *text)
{
    static const struct log_site here = {.file = __FILE__, .line = __LINE__, .function = __func__};
    char words[64];
    unsigned gone = atomic_exchange(&lost, 0);
    snprintf(words, sizeof words, "%u line%s of the log %s lost: nobody took them", gone,
             plural(gone), gone == 1 ? "is" : "are");
    if (gone && !emit(&here, LOG_WARNING, log_about(LOG_NO_ID), words))
        atomic_fetch_add(&lost, gone);
    if (!emit(site, level, about, text))
        atomic_fetch_add(&lost, 1);
}

static void tell(bool all)
{
    struct log_told told;
    char text[LINE_MAX_BYTES];
    uint64_t now = clock_ns();
    while (log_fold_next(now, all, &told)) {
        if (told.same)
            snprintf(text, sizeof text, "%u time%s more in %.0f s: %s", told.count,
                     plural(told.count), told.seconds, told.text);
        else
            snprintf(text, sizeof text, "%u line%s like this one left out in %.0f s: %s",
                     told.count, plural(told.count), told.seconds, told.text);
        emit_or_count(told.site, told.level, log_about(told.id), text);
    }
}

void log_tick(void)
{
    tell(false);
}

void log_flush(void)
{
    tell(true);
}

void log_line(struct log_site *site, enum log_level level, const struct log_about *about,
              const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    if ((int)level > highest_level)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell(false);
    if (about->nfigures || log_fold_admit(site, level, about->id, text, clock_ns()))
        emit_or_count(site, level, about, text);
}
