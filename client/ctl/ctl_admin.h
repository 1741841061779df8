/* The verbs that change something in the daemon. */
#ifndef CTL_ADMIN_H
#define CTL_ADMIN_H

#include "client/ctl/ctl.h"

int ctl_detach(const struct ctl *ctl);
int ctl_drain(const struct ctl *ctl);
int ctl_undrain(const struct ctl *ctl);

#endif
