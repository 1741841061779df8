#include "image/simd.h"
#include "image/tensor.h"

#ifdef SIMD_X86
#include <immintrin.h>
#include <string.h>

#define inlined simd_target_avx512 static inline __attribute__((always_inline))

enum { BLOCK = 64 };

/* Which pixel of a block comes where in a vector of one channel's bytes: values of 2 or 4 bytes are
 * interleaved within lanes of 16, and shall be in order after that. */
static int pixel_at(int place, int size)
{
    int run = 16 / size, lane = place / 16, part = place % 16 / run;
    return part * (BLOCK / size) + lane * run + place % run;
}

void tensor_avx512_set(struct tensor *tensor)
{
    int size = (int)pixels_size(tensor->pixels);
    for (int c = 0; c < 3; c++) {
        struct tensor_lookup *lookup = &tensor->lookup[c];
        for (int i = 0; i < BLOCK; i++) {
            int byte = 3 * pixel_at(i, size) + c;
            lookup->first[i] = (uint8_t)(byte < 2 * BLOCK ? byte : 0);
            lookup->second[i] = (uint8_t)(byte < 2 * BLOCK ? i : byte - BLOCK);
        }
        for (int x = 0; x < 256 && size > 1; x++) {
            uint32_t bits = tensor->u16[c][x];
            if (size == 4)
                memcpy(&bits, &tensor->f32[c][x], sizeof bits);
            for (int i = 0; i < size; i++)
                lookup->bytes[i][x] = (uint8_t)(bits >> 8 * i);
        }
    }
}

inlined __mmask64 first_of(size_t n)
{
    return n < 64 ? (1ULL << n) - 1 : ~0ULL;
}

inlined size_t left(size_t n, size_t done)
{
    return n > done ? n - done : 0;
}

struct gathering {
    __m512i first, second;
};

/* n: pixels from rgb on; no byte is read after them. */
inlined __m512i gather(const struct gathering *gathering, const uint8_t *rgb, size_t n)
{
    __m512i a = _mm512_maskz_loadu_epi8(first_of(3 * n), rgb);
    __m512i b = _mm512_maskz_loadu_epi8(first_of(left(3 * n, 64)), rgb + 64);
    __m512i c = _mm512_maskz_loadu_epi8(first_of(left(3 * n, 128)), rgb + 128);
    a = _mm512_permutex2var_epi8(a, gathering->first, b);
    return _mm512_permutex2var_epi8(a, gathering->second, c);
}

struct table {
    __m512i quarters[4];
};

inlined __m512i look_up(const struct table *table, __m512i bytes)
{
    __m512i low = _mm512_permutex2var_epi8(table->quarters[0], bytes, table->quarters[1]);
    __m512i high = _mm512_permutex2var_epi8(table->quarters[2], bytes, table->quarters[3]);
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high);
}

inlined void store(uint8_t *dst, size_t bytes, __m512i values)
{
    _mm512_mask_storeu_epi8(dst, first_of(bytes), values);
}

inlined void store_words(const struct table tables[2], __m512i x, size_t n, uint8_t *dst)
{
    __m512i low = look_up(&tables[0], x), high = look_up(&tables[1], x);
    store(dst, 2 * n, _mm512_unpacklo_epi8(low, high));
    store(dst + 64, left(2 * n, 64), _mm512_unpackhi_epi8(low, high));
}

inlined void store_floats(const struct table tables[4], __m512i x, size_t n, uint8_t *dst)
{
    __m512i a = look_up(&tables[0], x), b = look_up(&tables[1], x);
    __m512i c = look_up(&tables[2], x), d = look_up(&tables[3], x);
    __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpacklo_epi8(c, d);
    store(dst, 4 * n, _mm512_unpacklo_epi16(low, high));
    store(dst + 64, left(4 * n, 64), _mm512_unpackhi_epi16(low, high));
    low = _mm512_unpackhi_epi8(a, b);
    high = _mm512_unpackhi_epi8(c, d);
    store(dst + 128, left(4 * n, 128), _mm512_unpacklo_epi16(low, high));
    store(dst + 192, left(4 * n, 192), _mm512_unpackhi_epi16(low, high));
}

inlined void store_block(const struct table tables[4], __m512i x, size_t n, uint8_t *dst, int size)
{
    if (size == 1)
        store(dst, n, x);
    else if (size == 2)
        store_words(tables, x, n, dst);
    else
        store_floats(tables, x, n, dst);
}

inlined void write_channel(const struct tensor_lookup *lookup, const uint8_t *rgb, size_t n,
                           uint8_t *dst, int size)
{
    const struct gathering gathering = {_mm512_loadu_si512(lookup->first),
                                        _mm512_loadu_si512(lookup->second)};
    struct table tables[4];
    size_t block = BLOCK * (size_t)size;
    int used = size > 1 ? size : 0;
#pragma GCC unroll 4
    for (int i = 0; i < used; i++)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            tables[i].quarters[k] = _mm512_loadu_si512(lookup->bytes[i] + BLOCK * (size_t)k);
    for (; n >= BLOCK; n -= BLOCK, rgb += 3 * BLOCK, dst += block)
        store_block(tables, gather(&gathering, rgb, BLOCK), BLOCK, dst, size);
    if (n)
        store_block(tables, gather(&gathering, rgb, n), n, dst, size);
}

simd_target_avx512 void tensor_avx512(const struct tensor *tensor, const uint8_t *rgb, size_t n,
                                      const struct tensor_planes *planes)
{
    for (int c = 0; c < 3; c++) {
        if (tensor->pixels == PIXELS_U8_NCHW)
            write_channel(&tensor->lookup[c], rgb, n, planes->at[c], 1);
        else if (tensor->pixels == PIXELS_F32_NCHW)
            write_channel(&tensor->lookup[c], rgb, n, planes->at[c], 4);
        else
            write_channel(&tensor->lookup[c], rgb, n, planes->at[c], 2);
    }
}

#endif
