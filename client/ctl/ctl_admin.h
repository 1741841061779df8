/* The verbs of those who run the daemon. */
#ifndef CTL_ADMIN_H
#define CTL_ADMIN_H

#include "client/ctl/ctl.h"

int ctl_detach(const struct ctl *ctl);
int ctl_drain(const struct ctl *ctl);
int ctl_undrain(const struct ctl *ctl);
int ctl_reload(const struct ctl *ctl);
/* Changes nothing; 0, 1 or 2 by the worst that is found. */
int ctl_check(const struct ctl *ctl);

#endif
