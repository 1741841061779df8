#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A configuration is read, or refused in one line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *config = NULL;
    struct error err = {0};
    if (config_parse("F", (const char *)data, size, &config, &err) == 0) {
        if (!config || config->nfeeds == 0)
            abort();
        config_free(config);
    } else if (config || !*err.text) {
        abort();
    }
    return 0;
}
