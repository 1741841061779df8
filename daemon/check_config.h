/* dataloadd --check-config: reads everything, opens every data set, prints what each feed takes. */
#ifndef CHECK_CONFIG_H
#define CHECK_CONFIG_H

#include "config.h"

/* Prints to stdout; 0, or the first error (all feeds are looked at). */
int check_config(const struct config *config, bool user, uint32_t world);

#endif
