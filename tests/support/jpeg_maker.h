/* Small JPEGs of every kind, made in memory for the tests: photo-like pictures that depend on the
 * recipe alone, so that the same recipe gives the same bytes. */
#ifndef JPEG_MAKER_H
#define JPEG_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jpeg_maker_colour {
    JPEG_MAKER_YCC, /* 3 components, the usual kind */
    JPEG_MAKER_RGB, /* 3 components without colour transform (Adobe marker, transform 0) */
    JPEG_MAKER_GREY,
    JPEG_MAKER_CMYK, /* Adobe marker, inverted as Photoshop writes it */
    JPEG_MAKER_YCCK,
};

/* Zero means: the usual. */
struct jpeg_recipe {
    uint32_t width, height; /* 0 = 64 */
    enum jpeg_maker_colour colour;
    int quality;          /* 0 = 85 */
    int h_samp, v_samp;   /* of the first component; 0 = 1 (no subsampling) */
    bool progressive;     /* else sequential */
    bool arithmetic;      /* else Huffman */
    bool optimize;        /* own Huffman tables */
    bool separate_scans;  /* one scan a component */
    unsigned restart;     /* MCUs between restart markers; 0 = none */
    int orientation;      /* EXIF; 0 = no EXIF block */
    bool exif_big_endian; /* "MM" instead of "II" */
    bool no_tables;       /* Huffman tables left out, as in motion JPEG */
    unsigned extra_scans; /* further scans that add nothing (progressive) */
    uint32_t comment;     /* bytes of a comment before the picture; 0 = none */
    uint32_t seed;        /* of the picture */
    bool flat;            /* one colour instead of a picture */
};

/* Bytes to be freed by the caller. A recipe that cannot be made ends the test. */
uint8_t *jpeg_maker_make(const struct jpeg_recipe *recipe, size_t *size);
/* The usual colour picture. */
uint8_t *jpeg_maker_plain(uint32_t width, uint32_t height, uint32_t seed, size_t *size);
/* A picture of 64 x 64 that libjpeg-turbo decodes whole, but with a warning. */
uint8_t *jpeg_maker_damaged(uint32_t seed, size_t *size);

#endif
