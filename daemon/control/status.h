/* Answers to those who look: status, ping, and the figures that pages are made of. From counters
 * already at hand, so that they come at once however busy the daemon is. Loop thread. */
#ifndef STATUS_H
#define STATUS_H

#include <stdint.h>

#include "control/census.h"
#include "control/session.h"
#include "control/settings.h"
#include "control/user_status.h"
#include "control/vacancy.h"

struct status { /* all of it, as it is at one moment; good until the loop goes on */
    struct census census;
    Dlp__StatusReply reply; /* whole: all clients, in the order of census.views, and all feeds */
    struct vacancy vacancy;
    struct user_list users;
    struct feed_view *feeds;
    char device[GPUS_TEXT_MAX];
    char *notes[SETTINGS_NOTES_MAX];
};

/* names: texts have those of shards and records in them, which are data. */
struct status *status_new(const struct control *control, bool names);
void status_free(struct status *status);

/* StatusReply in parts: all clients that are attached, attaching or giving memory back; all feeds.
 */
void status_reply(struct session *session, uint64_t id);
/* What a reply would say now, into the counters file, when it is time for it. */
void status_keep(const struct control *control);
void status_pong(struct session *session, uint64_t id);

#endif
