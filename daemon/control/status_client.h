/* What status says of one client from its gauge and the stages of its stream. Loop thread. */
#ifndef STATUS_CLIENT_H
#define STATUS_CLIENT_H

#include "control/census.h"

/* Rates, waits, holds, stalls, stages; the view has a feed. */
void status_client_figures(const struct census *census, struct view *view);

#endif
