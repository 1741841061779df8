/* Settings that change while the daemon runs: feeds, limits and weights. What cannot, and a
 * configuration that was not taken, is kept as notes for status. Loop thread. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdint.h>

#include "control/session.h"

struct settings {
    struct feed_spec *const *feeds;
    uint32_t nfeeds;
    const struct users *users;
    uint64_t memory, client_memory; /* bytes; 0 = auto */
    unsigned clients, job_linger;
};

/* Jobs that run keep their feed as it was, also one that is no longer among them, until they end.
 * Less memory becomes the limit once no client is attached. Changes are logged. */
void settings_apply(struct control *control, const struct settings *settings);
/* Each second. */
void settings_tick(struct control *control);

#define SETTINGS_NOTES_MAX 16
/* What status says of the configuration: those before are forgotten, one is added (and logged). */
void settings_forget_notes(struct control *control);
void settings_note(struct control *control, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint32_t settings_notes(const struct control *control, char *list[SETTINGS_NOTES_MAX]);

/* Answers a ReloadRequest when that has been done; refused to others than root and the daemon's
 * user. */
void settings_reload(struct session *session, uint64_t id);
/* It has been done: good, or as the first note says. */
void settings_reloaded(struct control *control, bool good);

#endif
