/* May one more group have its memory? Slots are promised whole before they are reserved; the
 * shuffle buffer takes what is left of the budget (feed.h), so too little for it is worth a note
 * and no refusal. Loop thread. */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include <stddef.h>

#include "control/group.h"

/* -E2BIG: over client_memory, or all that its user may have; -ENOMEM: over what he, or memory,
 * has left now. The text has the numbers and
 * the setting that would make it fit. */
int allowance_check(const struct group *group, struct error *err);
/* A note to the client where the shuffle buffer will be smaller than the feed asks; "" = none. */
char *allowance_note(const struct group *group, char *text, size_t size);

#endif
