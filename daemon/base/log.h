/* Log lines to stderr: "<N>" prefix for the journal where JOURNAL_STREAM names our stderr, else
 * time and level. Any thread. One line a call; repeated lines of one call site are limited to 10 in
 * 5 s (log_each: 1000) and the number left out is said. */
#ifndef LOG_H
#define LOG_H

enum log_level { LOG_ERROR = 3, LOG_WARNING = 4, LOG_NOTICE = 5, LOG_INFO = 6, LOG_DEBUG = 7 };

struct log_site {
    _Atomic unsigned long long window; /* second at which the count began */
    _Atomic unsigned count;
    unsigned most; /* lines in a window; 0 = 10 */
};

void log_start(enum log_level highest);
void log_line(struct log_site *site, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_within(lines, level, ...)                                                              \
    do {                                                                                           \
        static struct log_site log_site_here = {.most = (lines)};                                  \
        log_line(&log_site_here, (level), __VA_ARGS__);                                            \
    } while (0)
#define log_at(level, ...) log_within(0, level, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_at(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
/* Info of which each line counts: who came and went. */
#define log_each(...) log_within(1000, LOG_INFO, __VA_ARGS__)

#endif
