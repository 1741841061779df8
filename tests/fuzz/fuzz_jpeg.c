/* A picture of a stranger through the whole decoder with small limits, under each kind of transform
 * and output. The row must not be left, and the memory asked for must come back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 20, SHARE = 1 << 20, MOST = 8 << 20 };

static uint64_t borrowed;

static bool borrow(void *context, uint64_t bytes)
{
    (void)context;
    if (bytes > MOST)
        abort();
    borrowed += bytes;
    return true;
}

static void give_back(void *context, uint64_t bytes)
{
    (void)context;
    borrowed -= bytes;
}

static struct transform choose(size_t number)
{
    static const char *const presets[] = {"train", "eval", "none"};
    struct transform transform = {0};
    if (transform_preset(&transform, presets[number % 3], NULL) < 0)
        abort();
    transform.exif = number / 3 % 2;
    transform.pixels = (enum pixels)(number / 6 % 5);
    transform.fast = number / 30 % 2;
    if (transform_check(&transform, NULL) < 0)
        abort();
    return transform;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct decoder *decoder;
    static uint8_t *row;
    static const struct decoder_limits limits = {SHARE, MOST, borrow, give_back, NULL};
    struct decoder_result result;
    struct transform transform = choose(size);
    if (!decoder) {
        decoder = decoder_new(&limits);
        row = malloc(ROOM);
    }
    decoder_run(decoder, data, size, &transform, 1, 0, size, row, ROOM, &result);
    if (borrowed != 0 || (result.cls != BAD_NONE && !result.reason[0]))
        abort();
    return 0;
}
