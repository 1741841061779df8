#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "feed/label.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A label is a number or has a reason, whatever its bytes are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t value = 0;
    char reason[LABEL_REASON_MAX] = "";
    if (label_text(data, size, &value, reason) != BAD_NONE && !*reason)
        abort();
    reason[0] = '\0';
    if (label_json(data, size, "label", &value, reason) != BAD_NONE && !*reason)
        abort();
    if (strnlen(reason, sizeof reason) == sizeof reason)
        abort();
    return 0;
}
