/* The counters of one attachment: what dataload_get_stats tells. Owned by the handle. */
#ifndef DLC_METER_H
#define DLC_METER_H

#include <stdint.h>

#include "client/dataload.h"

struct meter {
    int64_t attached_at;
    int64_t waited; /* for the batch that comes next */
    dataload_stats totals;
};

void meter_start(struct meter *meter, int64_t now);
void meter_waited(struct meter *meter, int64_t ns);
/* A batch is handed out, or an error in its place (no rows); returns how long it was waited for. */
uint64_t meter_taken(struct meter *meter, uint32_t rows, uint64_t bytes);
void meter_released(struct meter *meter, int64_t ns);

#endif
