/* The headers of a JPEG for our own decoder: 8-bit Huffman, sequential, one scan of 1 or 3
 * components, 4:4:4, 4:2:2, 4:4:0 or 4:2:0. Takes only what libjpeg-turbo takes without a warning;
 * of all else it says no more than no, since that library then decodes the picture and tells. */
#ifndef JPEG_HEADER_H
#define JPEG_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JPEG_COMPONENTS = 3,
    JPEG_BLOCKS = 6,      /* of an MCU, at most */
    JPEG_BLOCK = 64,      /* coefficients */
    JPEG_BLOCK_ROOM = 80, /* with a place for what leads out of the block */
};

/* Place of each coefficient, from the order of the file; JPEG_BLOCK for those beyond. */
extern const uint8_t jpeg_natural[192];

enum jpeg_colour { JPEG_GREY, JPEG_YCC, JPEG_RGB };

struct jpeg_component {
    uint8_t id;
    uint8_t h, v;  /* blocks of an MCU */
    uint8_t quant; /* numbers of its tables */
    uint8_t dc, ac;
};

/* A Huffman code as in the file: 16 counts by length, then the symbols. NULL = not defined. */
struct jpeg_code {
    const uint8_t *lengths, *symbols;
    uint32_t count;
};

struct jpeg_header {
    int32_t width, height;
    enum jpeg_colour colour;
    uint32_t components;
    struct jpeg_component component[JPEG_COMPONENTS];
    uint8_t h, v;                   /* of the finest component */
    uint8_t declared_h, declared_v; /* as in the file, where one component may have any */
    uint32_t restart;               /* MCUs between restart markers; 0 = none */
    uint32_t quants;                /* bit n: table n is defined */
    int16_t quant[4][JPEG_BLOCK];   /* natural order; 16 bits that libjpeg-turbo takes as signed */
    struct jpeg_code code[2][4];    /* DC, AC */
    const uint8_t *data, *end;      /* the scan, and the end of the file */
};

/* The bytes stay in use by header. */
bool jpeg_header_parse(struct jpeg_header *header, const uint8_t *bytes, size_t size);

/* MCUs of a row, rows of MCUs, MCUs of the picture. */
static inline int32_t jpeg_header_across(const struct jpeg_header *header)
{
    return (header->width + 8 * header->h - 1) / (8 * header->h);
}

static inline int32_t jpeg_header_down(const struct jpeg_header *header)
{
    return (header->height + 8 * header->v - 1) / (8 * header->v);
}

static inline uint32_t jpeg_header_mcus(const struct jpeg_header *header)
{
    return (uint32_t)jpeg_header_across(header) * (uint32_t)jpeg_header_down(header);
}

#endif
