/* The scan of a JPEG as coefficients, MCU by MCU, for our own decoder. What is not needed is only
 * skipped, and whole restart intervals are jumped over, or what lies before a mark. Gives up
 * (false) on all that libjpeg-turbo warns of or refuses, and on what no encoder writes. */
#ifndef JPEG_ENTROPY_H
#define JPEG_ENTROPY_H

#include "image/jpeg_bits.h"
#include "image/jpeg_huffman.h"
#include "image/jpeg_marks.h"

struct jpeg_entropy {
    struct jpeg_bits bits;
    bool (*read)(struct jpeg_entropy *entropy, uint32_t want,
                 int16_t (*coefficients)[JPEG_BLOCK_ROOM], uint32_t *busy);
    uint32_t blocks; /* of an MCU */
    struct jpeg_entropy_block {
        const struct jpeg_huffman *dc, *ac;
        uint32_t component;
    } block[JPEG_BLOCKS];
    int32_t predicted[JPEG_COMPONENTS];
    uint32_t interval, left;         /* MCUs between restart markers, and up to the next; or all */
    uint32_t restarts, restarts_end; /* done, and in all */
    /* Without restart markers: NULL, or marks to jump to and to record, and the MCU that `left`
     * goes up to. */
    struct jpeg_marks *marks;
    uint32_t stop, mcus;
    const uint8_t *data;
    struct jpeg_huffman huffman[2][4];
};

/* Makes the tables and goes to the start of the scan. `mcus`: of the picture. */
bool jpeg_entropy_start(struct jpeg_entropy *entropy, const struct jpeg_header *header,
                        uint32_t mcus);
/* After that, for a picture that jpeg_marks_begin has taken. */
void jpeg_entropy_mark(struct jpeg_entropy *entropy, struct jpeg_marks *marks);
/* The blocks in the set `want` of the next MCU, natural order, not multiplied; `busy` is the set of
 * them that have more than a DC coefficient. */
bool jpeg_entropy_read(struct jpeg_entropy *entropy, uint32_t want,
                       int16_t (*coefficients)[JPEG_BLOCK_ROOM], uint32_t *busy);
bool jpeg_entropy_skip(struct jpeg_entropy *entropy, uint64_t mcus);
/* After the last MCU that is needed: what was read was there, and the rest is in order so far as
 * markers tell. `whole`: it was the last of the picture. */
bool jpeg_entropy_finish(struct jpeg_entropy *entropy, bool whole);

#endif
