/* One Huffman code of a JPEG as look-up tables for our own decoder, made anew for nearly every
 * picture, so small and quick to make: 10 bits give all of a coefficient but its value, or several
 * to skip. */
#ifndef JPEG_HUFFMAN_H
#define JPEG_HUFFMAN_H

#include "image/jpeg_header.h"

enum {
    JPEG_LOOK = 10,      /* bits of the index */
    JPEG_RUN_END = 128,  /* zeros of an end of block: beyond any block */
    JPEG_SKIP_END = 128, /* flag beside the places skipped */
};

struct jpeg_huffman {
    /* Of the code that an index begins with: 63 - bits of its value << 24 | zeros before it << 16 |
     * bits of the code << 8 | bits of both; 0 = longer or none. */
    uint32_t entry[1 << JPEG_LOOK];
    /* AC only: (places | JPEG_SKIP_END) << 8 | bits, of as many symbols as can be seen; 0 = none */
    uint16_t skip[1 << JPEG_LOOK];
    /* Codes of each length beyond JPEG_LOOK: first 16 bits of those after them, and the index of a
     * symbol less its code. */
    int32_t bound[17], delta[17];
    uint8_t symbols[256];
    uint8_t lengths[16];
    uint32_t count;
    bool made, ac;
};

/* The entry of a symbol with a code of any length. */
static inline uint32_t jpeg_huffman_entry(uint32_t length, uint32_t symbol, bool ac)
{
    uint32_t run = ac ? symbol >> 4 : 0, size = symbol & 15;
    if (size == 0 && ac && run < 15)
        run = JPEG_RUN_END;
    return (63 - size) << 24 | run << 16 | length << 8 | (length + size);
}

/* Nothing is done where it is the same code again. false: not a code that libjpeg-turbo takes. */
bool jpeg_huffman_make(struct jpeg_huffman *huffman, const struct jpeg_code *code, bool ac);

#endif
