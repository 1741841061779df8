/* The daemon's status as it can be had: its answer, or where it does not answer what it has written
 * last into its counters file. Looked at once or again and again. */
#ifndef CTL_SIGHT_H
#define CTL_SIGHT_H

#include <jansson.h>

#include "client/ctl/ctl.h"
#include "proto/counters.h"

struct ctl_sight { /* {.ctl, .program} to begin with */
    const struct ctl *ctl;
    const char *program;
    const Dlp__StatusReply *status; /* of the last look, until the next one; NULL: there is none */
    bool late;                      /* it does not answer: what follows */
    double heartbeat_age, figures_age; /* s */
    char hangs[160]; /* what its process is at, as far as it shows; may be empty */

    struct ctl_link link; /* kept from one look to the next */
    struct ctl_reply reply;
    struct dlp_counters written;
};

/* CTL_OK: it answers. CTL_UNAVAILABLE with a status: it does not, which is printed. Else there is
 * no status, and why is printed. It takes at most some seconds. */
int ctl_sight_look(struct ctl_sight *sight);
/* Adds whether it answers, and the ages. */
void ctl_sight_json(const struct ctl_sight *sight, json_t *object);
void ctl_sight_free(struct ctl_sight *sight);

/* What is printed of it. */
void ctl_status_json(const struct ctl *ctl, const struct ctl_sight *sight);
int ctl_advise_report(const struct ctl *ctl, const struct ctl_sight *sight);

#endif
