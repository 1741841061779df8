/* The page "metrics": the figures of status in Prometheus' text format. docs/metrics.md lists them.
 * Loop thread. */
#ifndef METRICS_PAGE_H
#define METRICS_PAGE_H

#include "base/text.h"
#include "control/status.h"

#define METRICS_CLIENTS_MAX 256 /* that have series of their own: those that attached first */

void metrics_page(const struct status *status, struct text *out);

#endif
