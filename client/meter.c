#include "client/meter.h"

#define STALL_NS 1000000 /* a wait longer than this is a stall */

void meter_start(struct meter *meter, int64_t now)
{
    *meter = (struct meter){.attached_at = now};
}

void meter_waited(struct meter *meter, int64_t ns)
{
    meter->waited += ns;
    meter->totals.wait_ns += (uint64_t)ns;
}

uint64_t meter_taken(struct meter *meter, uint32_t rows, uint64_t bytes)
{
    uint64_t waited = (uint64_t)meter->waited;
    dataload_stats *totals = &meter->totals;
    totals->batches += rows > 0;
    totals->samples += rows;
    totals->bytes += bytes;
    totals->stalls += waited > STALL_NS;
    if (waited > totals->longest_stall_ns && waited > STALL_NS)
        totals->longest_stall_ns = waited;
    meter->waited = 0;
    return waited;
}

void meter_released(struct meter *meter, int64_t ns)
{
    meter->totals.hold_ns += (uint64_t)ns;
}
