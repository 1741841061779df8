/* The log. Where stderr is the journal (JOURNAL_STREAM names it): entries with fields, or lines
 * with a "<N>" prefix where journald does not take those; else lines with time and level. Any
 * thread; one line a call; the journal is never waited for, and what it does not take is counted
 * and said.
 *
 * A line that its place in the code has printed within 5 s is counted instead, and so are those
 * beyond 10 in 5 s (log_each: 1000); log_tick says how many they were. */
#ifndef LOG_H
#define LOG_H

#include <stdint.h>
#include <sys/types.h>

#include "base/log_ids.h"

enum log_level { LOG_ERROR = 3, LOG_WARNING = 4, LOG_NOTICE = 5, LOG_INFO = 6, LOG_DEBUG = 7 };

#define LOG_FIGURE_MAX 32
struct log_figure { /* NAME is DATALOADD_NAME in the journal */
    const char *name;
    char value[LOG_FIGURE_MAX];
};

/* What a line is about, for those who filter: all of it borrowed, and nothing but id has to be
 * known. */
struct log_about {
    enum log_id id;
    pid_t client; /* 0: none, and no uid */
    uid_t uid;
    const char *user, *feed;
    const char *job; /* NULL: none, and no rank */
    uint32_t rank;
    const char *shard, *key;
    const char *reason;
    /* An account: it is always printed. Where there are no fields a line `account` follows it, with
     * all that is known as key=value. */
    const struct log_figure *figures;
    unsigned nfigures;
};

struct log_site { /* a place in the code */
    const char *file, *function;
    int line;
    unsigned most;   /* lines in 5 s; 0 = 10 */
    uint64_t window; /* log_fold's, and what follows */
    unsigned count;
};

void log_start(enum log_level highest);
/* What was counted, when it is due: about once a second, by one thread. */
void log_tick(void);
/* The same, due or not, before the process ends. */
void log_flush(void);
void log_line(struct log_site *site, enum log_level level, const struct log_about *about,
              const char *format, ...) __attribute__((format(printf, 4, 5)));

#define log_within(lines, level, about, ...)                                                       \
    do {                                                                                           \
        static struct log_site log_site_here = {                                                   \
            .file = __FILE__, .function = __func__, .line = __LINE__, .most = (lines)};            \
        log_line(&log_site_here, (level), (about), __VA_ARGS__);                                   \
    } while (0)
#define log_at(level, ...) log_within(0, level, log_about(LOG_NO_ID), __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_at(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

/* log_event(LOG_NOTICE, log_about(LOG_DRAIN, .feed = name), "%s", text) */
#define log_about(...) (&(const struct log_about){__VA_ARGS__})
#define log_event(level, about, ...) log_within(0, level, about, __VA_ARGS__)
/* Info of which each line counts: who came and went. */
#define log_each(about, ...) log_within(1000, LOG_INFO, about, __VA_ARGS__)

#endif
