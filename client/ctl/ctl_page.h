/* A text that the daemon makes of its figures, whole. One thread. */
#ifndef CTL_PAGE_H
#define CTL_PAGE_H

#include "client/ctl/ctl.h"

/* Asks for the page `name`; *text, which ends with a NUL, is to be freed. */
int ctl_page_get(const struct ctl *ctl, const char *program, const char *name, char **text,
                 size_t *size);

int ctl_metrics(const struct ctl *ctl); /* the verbs that show it */
int ctl_write_report(const struct ctl *ctl);

#endif
