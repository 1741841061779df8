/* 8x8 inverse DCT with the accurate integer method of libjpeg ("islow"), bit for bit as
 * libjpeg-turbo's vector code has it: 16 bits between the passes, also where a damaged file makes
 * them overflow. */
#ifndef JPEG_IDCT_H
#define JPEG_IDCT_H

#include <stddef.h>
#include <stdint.h>

struct jpeg_idct_job {
    const int16_t *coefficients; /* natural order */
    const int16_t *quant;        /* natural order */
    uint8_t *dst;                /* 8 rows of 8 samples, aligned to 8 bytes */
    size_t stride;
};

/* Factors of the method, times 2^13. */
enum {
    JPEG_0_298 = 2446,
    JPEG_0_390 = 3196,
    JPEG_0_541 = 4433,
    JPEG_0_765 = 6270,
    JPEG_0_899 = 7373,
    JPEG_1_175 = 9633,
    JPEG_1_501 = 12299,
    JPEG_1_847 = 15137,
    JPEG_1_961 = 16069,
    JPEG_2_053 = 16819,
    JPEG_2_562 = 20995,
    JPEG_3_072 = 25172,
};
/* Bits of the factors, bits kept between the passes, and what each pass shifts out. */
enum {
    JPEG_FACTOR_BITS = 13,
    JPEG_PASS_BITS = 2,
    JPEG_SHIFT_1 = JPEG_FACTOR_BITS - JPEG_PASS_BITS,
    JPEG_SHIFT_2 = JPEG_FACTOR_BITS + JPEG_PASS_BITS + 3,
};

void jpeg_idct_plain(const struct jpeg_idct_job *job);
/* Of a block with a DC coefficient only. */
void jpeg_idct_flat(const struct jpeg_idct_job *job);
/* Two blocks; x86-64 with AVX2 only. */
void jpeg_idct_avx2(const struct jpeg_idct_job jobs[2]);

#endif
