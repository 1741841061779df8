/* Sets the number of workers, once a second, where the configuration leaves it to us, and knows
 * what CPU time there is. Loop thread. */
#ifndef AUTOSCALE_H
#define AUTOSCALE_H

#include "control/control.h"

struct autoscale;

struct autoscale *autoscale_new(struct control *control);
void autoscale_free(struct autoscale *autoscale);
void autoscale_tick(struct autoscale *autoscale, uint64_t now);
/* A stream begins: what it needs is not known, and its first batches are waited for. */
void autoscale_welcome(struct autoscale *autoscale);

unsigned autoscale_cpus(const struct autoscale *autoscale); /* that we may use */
unsigned autoscale_most(const struct autoscale *autoscale); /* workers that there may be */
/* Why there are as many as there are; empty: the configuration says so. */
const char *autoscale_why(const struct autoscale *autoscale);
/* Of the CPU time wanted in the last seconds, what a cgroup's quota kept from us, 0..1. */
double autoscale_throttled(const struct autoscale *autoscale);

#endif
