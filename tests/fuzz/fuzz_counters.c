/* A counters file of a stranger; its sum is set right, so that its snapshot is looked at too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/counters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *copy, size_t size)
{
    struct dlp_counters_page page;
    memcpy(&page, copy, sizeof page);
    size_t last = page.turn % 2;
    if (page.room > (size - DLP_COUNTERS_PAGE) / 2 || page.buffers[last].size > page.room)
        return;
    page.buffers[last].sum =
        dlp_counters_sum(copy + DLP_COUNTERS_PAGE + last * page.room, page.buffers[last].size);
    memcpy(copy, &page, sizeof page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlp_counters counters;
    uint8_t *copy = malloc(size + 1);
    memcpy(copy, data, size);
    if (size >= DLP_COUNTERS_PAGE && size % 2)
        mend(copy, size);
    if (dlp_counters_parse(copy, size, &counters) == 0)
        dlp_counters_free(&counters);
    free(copy);
    return 0;
}
