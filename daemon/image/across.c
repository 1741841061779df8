#include "image/across.h"

#include <string.h>

#define NO_BYTE 0x80U /* a shuffle gives zero */

static int32_t window(int32_t vector)
{
    return vector == ACROSS_64 ? 64 : 16;
}

static int32_t count_lanes(const struct across *across)
{
    return across->blocks * across->vector / window(across->vector);
}

/* Where the samples of a result pixel begin in a source row. */
static int32_t place(const struct across *across, int32_t pixel)
{
    const struct taps *taps = across->taps;
    int32_t index = across->flip ? taps->key.count - 1 - pixel : pixel;
    return 3 * (taps->start[index] - across->first);
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The pixels that a lane has a part of. */
static void pixels_of(const struct across *across, int32_t lane, int32_t *from, int32_t *to)
{
    int32_t last = across->taps->key.count - 1, values = across->values;
    *from = least(lane * values / 3, last);
    *to = least((lane * values + values - 1) / 3, last);
}

static void place_lanes(struct across *across)
{
    int32_t lanes = count_lanes(across), from, to;
    for (int32_t lane = 0; lane < lanes; lane++) {
        pixels_of(across, lane, &from, &to);
        across->at[lane] = place(across, across->flip ? to : from);
    }
}

static bool fits(const struct across *across)
{
    int32_t lanes = count_lanes(across), from, to;
    for (int32_t lane = 0; lane < lanes; lane++) {
        pixels_of(across, lane, &from, &to);
        int32_t last = place(across, across->flip ? from : to) - across->at[lane] + 5;
        if (last >= window(across->vector))
            return false;
    }
    return true;
}

static void shape(struct across *across, int32_t vector, int32_t values)
{
    int32_t all = 3 * across->taps->key.count;
    int32_t values_of_block = values * (vector / window(vector));
    across->vector = vector;
    across->values = values;
    across->blocks = (all + values_of_block - 1) / values_of_block;
    place_lanes(across);
}

static void choose_shape(struct across *across, int32_t most)
{
    if (most == ACROSS_64) {
        shape(across, ACROSS_64, 16);
        if (fits(across))
            return;
        most = ACROSS_32;
    }
    shape(across, most, 4);
    if (!fits(across))
        shape(across, most, 3);
}

static void put_word(uint8_t *to, uint32_t word)
{
    memcpy(to, &word, sizeof word);
}

/* The two high parts as 16-bit numbers. */
static uint32_t widen(uint32_t high)
{
    return (uint32_t)(uint16_t)(int8_t)high | (uint32_t)(int8_t)(high >> 8) << 16;
}

/* The weights of the three values of a pixel: of each pair the low parts, then the high ones. */
static void put_weights(uint8_t *const words[3], size_t vector, const struct taps_pair *pair,
                        int32_t pairs)
{
    size_t at = vector;
    for (int32_t j = 0; j < pairs; j++, at += 2 * vector) {
        uint32_t low = pair[j].low, high = widen(pair[j].high);
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
            put_word(words[c] + at, low);
            put_word(words[c] + at + vector, high);
        }
    }
}

/* A vector has a word of 4 bytes for each of its values. */
static void put_values(const struct across *across)
{
    const struct taps *taps = across->taps;
    size_t vector = (size_t)across->vector, block = vector * (1 + 2 * (size_t)taps->pairs);
    uint32_t in_vector = (uint32_t)across->vector / 4,
             in_lane = (uint32_t)window(across->vector) / 4;
    uint32_t vector_bits = (uint32_t)__builtin_ctz(in_vector);
    uint32_t lane_bits = (uint32_t)__builtin_ctz(in_lane);
    memset(across->data + block * (size_t)(across->blocks - 1), 0, block); /* may not be full */
    for (int32_t x = 0; x < taps->key.count; x++) {
        int32_t index = across->flip ? taps->key.count - 1 - x : x, from = place(across, x);
        uint8_t *words[3];
#pragma GCC unroll 3
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t word = (uint32_t)x * (across->values == 3 ? 4 : 3) + c;
            uint32_t at = (uint32_t)(from - across->at[word >> lane_bits]) + c;
            words[c] = across->data + (word >> vector_bits) * block + 4 * (word % in_vector);
            put_word(words[c], at | NO_BYTE << 8 | (at + 3) << 16 | NO_BYTE << 24);
        }
        put_weights(words, vector, taps->pair + (size_t)index * (size_t)taps->pairs, taps->pairs);
    }
}

uint64_t across_bytes(int32_t count, int32_t pairs)
{
    uint64_t lanes = (uint64_t)count + 4; /* at most one a pixel, and what fills a vector */
    return lanes * (sizeof(int32_t) + 16 * (1 + 2 * (uint64_t)pairs));
}

void across_make(struct across *across, int32_t most, const struct taps *taps, int32_t first,
                 bool flip, void *memory)
{
    *across = (struct across){.taps = taps, .first = first, .flip = flip};
    if (most == ACROSS_NONE)
        return;
    across->at = memory;
    choose_shape(across, most);
    across->data = (uint8_t *)(across->at + count_lanes(across));
    put_values(across);
}
