#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A token is read or has a reason; what was read is printed and read to the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[DLP_TOKEN_MAX], first[DLP_TOKEN_MAX], second[DLP_TOKEN_MAX];
    struct token token, again;
    struct refusal refusal = {0};
    size = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    if (token_parse(text, &token, &refusal)) {
        if (!*refusal.text)
            abort();
        return 0;
    }
    token_print(&token, first);
    if (token_parse(first, &again, &refusal) || strcmp(token_print(&again, second), first) != 0)
        abort();
    if (token_compare(&token, &again, UINT64_MAX, "f", &refusal))
        abort();
    return 0;
}
