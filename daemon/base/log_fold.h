/* Which lines of the log are not printed but counted, and when they are told: a line that a place
 * in the code has printed within the last 5 s, and those beyond what such a place may print in 5 s.
 *
 * One table for the process, of fixed size; without a clock of its own. Any thread: a mutex, never
 * held while something is formatted or written. */
#ifndef LOG_FOLD_H
#define LOG_FOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

#define LOG_FOLD_TEXT 512 /* longer lines are not compared */

struct log_told { /* of lines that were counted */
    struct log_site *site;
    enum log_level level;
    enum log_id id;
    unsigned count;
    double seconds;
    bool same; /* all are this text; else it is the first of them */
    char text[LOG_FOLD_TEXT];
};

/* False: counted, and told later. */
bool log_fold_admit(struct log_site *site, enum log_level level, enum log_id id, const char *text,
                    uint64_t now);
/* One that is due; with all, also one whose 5 s are not over. False: there is none. */
bool log_fold_next(uint64_t now, bool all, struct log_told *out);

#endif
