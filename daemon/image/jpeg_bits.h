/* The bits of a JPEG's scan for our own decoder. The bytes between two markers are copied, without
 * the zeros stuffed after FF, into a window that is padded, so that reading never has to look where
 * it ends: jpeg_bits_ready() before each MCU is enough. */
#ifndef JPEG_BITS_H
#define JPEG_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    JPEG_WINDOW = 16384,
    JPEG_PAD =
        2048, /* more than an MCU of 6 blocks, each of 64 codes and values of 31 bits, takes */
};

/* Kept apart, so that it stays in registers while an MCU is read. */
struct jpeg_reader {
    uint64_t word;     /* the next bits, topmost first */
    uint32_t count;    /* of them that are sure; 56..63 after a refill */
    const uint8_t *at; /* next byte of the window */
};

struct jpeg_bits {
    struct jpeg_reader reader;
    const uint8_t *limit, *end; /* at not below limit: not ready; end of the window's content */
    bool last;                  /* a marker follows the content, at source */
    uint64_t before;            /* bytes of data, without stuffed zeros, that were in the window */
    const uint8_t *source, *source_end;
    uint8_t window[JPEG_WINDOW + JPEG_PAD];
};

/* From the start of a scan or the byte after a restart marker. */
void jpeg_bits_start(struct jpeg_bits *bits, const uint8_t *source, const uint8_t *end);
/* Makes ready for an MCU where jpeg_bits_ready() says no. false: there is no more, or damage. */
bool jpeg_bits_more(struct jpeg_bits *bits);
/* Goes to the end of the bits before the next marker, read or not. */
bool jpeg_bits_jump(struct jpeg_bits *bits);
/* Goes to a bit of the data that starts at `data`, as jpeg_bits_position counts it; `zeros` were
 * stuffed before its byte. false: there is no such place. */
bool jpeg_bits_seek(struct jpeg_bits *bits, const uint8_t *data, uint64_t bit, uint64_t zeros);
/* Nothing is left but the bits that fill the last byte. */
bool jpeg_bits_over(struct jpeg_bits *bits);
/* No bit has been read that is not there. */
bool jpeg_bits_sound(const struct jpeg_bits *bits);
/* The next marker must be restart marker number % 8: goes on after it. */
bool jpeg_bits_restart(struct jpeg_bits *bits, uint32_t number);
/* What follows, read or not, must be restart markers `first`, `first` + 1, ... up to, not
 * including, `end`, with any data between them, and then the end of the picture. */
bool jpeg_bits_tail(const struct jpeg_bits *bits, uint32_t first, uint32_t end);

static inline bool jpeg_bits_ready(const struct jpeg_bits *bits)
{
    return bits->reader.at < bits->limit;
}

/* Of the next bit, from jpeg_bits_start or the last marker on, stuffed zeros not counted. */
static inline uint64_t jpeg_bits_position(const struct jpeg_bits *bits)
{
    return 8 * (bits->before + (uint64_t)(bits->reader.at - bits->window)) - bits->reader.count;
}

/* At least 56 bits are there after it. */
static inline void jpeg_reader_fill(struct jpeg_reader *reader)
{
    uint64_t next;
    memcpy(&next, reader->at, sizeof next);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    next = __builtin_bswap64(next);
#endif
    reader->word |= next >> reader->count;
    reader->at += (63 - reader->count) >> 3;
    reader->count |= 56;
}

static inline uint32_t jpeg_reader_peek(const struct jpeg_reader *reader, uint32_t n) /* 1..32 */
{
    return (uint32_t)(reader->word >> (64 - n));
}

static inline void jpeg_reader_eat(struct jpeg_reader *reader, uint32_t n)
{
    reader->word <<= n & 63;
    reader->count -= n;
}

#endif
