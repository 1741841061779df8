#include "image/jpeg_huffman.h"

#include <string.h>

enum { ENTRIES = 1 << JPEG_LOOK };

/* Codes are dense and never all ones; a DC symbol is a size. */
static bool check(const struct jpeg_code *code, bool ac)
{
    uint32_t next = 0;
    for (uint32_t length = 1; length <= 16; length++) {
        uint32_t count = code->lengths[length - 1];
        next += count;
        if (count && next >= 1U << length)
            return false;
        next <<= 1;
    }
    for (uint32_t i = 0; i < code->count && !ac; i++)
        if (code->symbols[i] > 15)
            return false;
    return true;
}

static bool same(const struct jpeg_huffman *huffman, const struct jpeg_code *code, bool ac)
{
    return huffman->made && huffman->ac == ac && huffman->count == code->count &&
           memcmp(huffman->lengths, code->lengths, sizeof huffman->lengths) == 0 &&
           memcmp(huffman->symbols, code->symbols, code->count) == 0;
}

static void make_entries(struct jpeg_huffman *huffman)
{
    uint32_t symbol = 0, at = 0;
    int32_t code = 0;
    for (uint32_t length = 1; length <= 16; length++) {
        huffman->delta[length] = (int32_t)symbol - code;
        for (uint32_t i = 0; i < huffman->lengths[length - 1]; i++, code++, symbol++) {
            uint32_t entry = jpeg_huffman_entry(length, huffman->symbols[symbol], huffman->ac);
            for (uint32_t n = length <= JPEG_LOOK ? 1U << (JPEG_LOOK - length) : 0; n; n--)
                huffman->entry[at++] = entry;
        }
        huffman->bound[length] = code << (16 - length);
        code <<= 1;
    }
    memset(huffman->entry + at, 0, (ENTRIES - at) * sizeof *huffman->entry);
}

/* Codes must be seen whole; of the last one's value the length alone matters. */
static uint16_t skip_of(const struct jpeg_huffman *huffman, uint32_t index)
{
    uint32_t bits = 0, places = 0;
    while (bits < JPEG_LOOK) {
        uint32_t entry = huffman->entry[index << bits & (ENTRIES - 1)];
        uint32_t length = entry >> 8 & 0xFF, run = entry >> 16 & 0xFF;
        if (!entry || bits + length > JPEG_LOOK)
            break;
        if (run == JPEG_RUN_END)
            return (uint16_t)((JPEG_SKIP_END | places) << 8 | (bits + length));
        if (places + run + 1 >= JPEG_BLOCK)
            break;
        bits += entry & 0xFF;
        places += run + 1;
    }
    return (uint16_t)(places << 8 | bits);
}

static void make_skips(struct jpeg_huffman *huffman)
{
    for (uint32_t i = 0; i < ENTRIES; i++)
        huffman->skip[i] = skip_of(huffman, i);
}

bool jpeg_huffman_make(struct jpeg_huffman *huffman, const struct jpeg_code *code, bool ac)
{
    if (same(huffman, code, ac))
        return true;
    huffman->made = false;
    if (!check(code, ac))
        return false;
    huffman->ac = ac;
    huffman->count = code->count;
    memcpy(huffman->lengths, code->lengths, sizeof huffman->lengths);
    memcpy(huffman->symbols, code->symbols, code->count);
    make_entries(huffman);
    if (ac)
        make_skips(huffman);
    huffman->made = true;
    return true;
}
