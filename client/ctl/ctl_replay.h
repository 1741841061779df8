/* A replay of a running job, for the verbs that measure its trainers. */
#ifndef CTL_REPLAY_H
#define CTL_REPLAY_H

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

#define CTL_REPLAY_SECONDS 5.0

int ctl_replay(const struct ctl *ctl);
int ctl_measure(const struct ctl *ctl);

/* Asks for it, of link->ctl's job, and waits; a Dlp__ReplayReply. Errors are printed. */
int ctl_replay_ask(struct ctl_link *link, struct ctl_reply *reply);
double ctl_replay_rate(const Dlp__ReplayReply *replay); /* samples/s of all ranks */

#endif
