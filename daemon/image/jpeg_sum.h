/* Passes over the bytes of a JPEG for its marks. */
#ifndef JPEG_SUM_H
#define JPEG_SUM_H

#include <stddef.h>
#include <stdint.h>

struct jpeg_sum {
    uint64_t (*sum)(const uint8_t *bytes, size_t size); /* XXH3-64 */
    size_t (*fills)(const uint8_t *bytes, size_t size); /* how many are FF */
};

extern const struct jpeg_sum jpeg_sum_plain, jpeg_sum_avx2;

#endif
