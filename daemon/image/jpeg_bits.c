#include "image/jpeg_bits.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { FILL = 0xFF, RST0 = 0xD0, EOI = 0xD9, AHEAD = 8 /* bytes that a refill may take */ };

/* Copies up to n bytes that are not FF; what lies behind them in the window is not kept. Runs are
 * too short for memchr and memcpy to pay. */
static size_t copy_run(uint8_t *to, const uint8_t *from, size_t n)
{
    size_t i = 0;
#ifdef __SSE2__
    const __m128i fill = _mm_set1_epi8((char)FILL);
    for (; i + sizeof fill <= n; i += sizeof fill) {
        __m128i bytes = _mm_loadu_si128((const void *)(from + i));
        _mm_storeu_si128((void *)(to + i), bytes);
        int found = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, fill));
        if (found)
            return i + (size_t)__builtin_ctz((unsigned)found);
    }
#endif
    for (; i < n && from[i] != FILL; i++)
        to[i] = from[i];
    return i;
}

/* Copies from the source to the end of the window, up to a marker, and returns where it ends. NULL:
 * the file ends before a marker. */
static uint8_t *copy(struct jpeg_bits *bits, uint8_t *to)
{
    const uint8_t *stop = bits->window + JPEG_WINDOW;
    while (to < stop && !bits->last) {
        size_t left = (size_t)(bits->source_end - bits->source), room = (size_t)(stop - to);
        size_t plain = copy_run(to, bits->source, left < room ? left : room);
        if (left - plain < 2)
            return NULL;
        to += plain;
        bits->source += plain;
        if (plain == room)
            break;
        bits->last = bits->source[1] != 0;
        if (!bits->last) {
            *to++ = FILL;
            bits->source += 2;
        }
    }
    return to;
}

void jpeg_bits_start(struct jpeg_bits *bits, const uint8_t *source, const uint8_t *end)
{
    bits->reader = (struct jpeg_reader){0, 0, bits->window};
    bits->source = source;
    bits->source_end = end;
    bits->last = false;
    bits->before = 0;
    bits->end = bits->limit = bits->window;
}

bool jpeg_bits_more(struct jpeg_bits *bits)
{
    if (bits->last)
        return false;
    size_t rest = (size_t)(bits->end - bits->reader.at);
    bits->before += (size_t)(bits->reader.at - bits->window);
    memmove(bits->window, bits->reader.at, rest);
    bits->reader.at = bits->window;
    uint8_t *end = copy(bits, bits->window + rest);
    if (!end)
        return false;
    bits->end = end;
    bits->limit = bits->last ? end + AHEAD + 1 : end - JPEG_PAD + 1;
    if (bits->last)
        memset(end, 0, JPEG_PAD);
    return true;
}

/* From `at` on, the next FF that is not data; NULL: there is none. */
static const uint8_t *find_marker(const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 2 && (at = memchr(at, FILL, (size_t)(end - at) - 1)) && at[1] == 0)
        at += 2;
    return end - at >= 2 ? at : NULL;
}

bool jpeg_bits_jump(struct jpeg_bits *bits)
{
    if (!bits->last)
        bits->source = find_marker(bits->source, bits->source_end);
    bits->last = true;
    bits->reader = (struct jpeg_reader){0, 0, bits->window};
    bits->end = bits->window;
    return bits->source != NULL;
}

bool jpeg_bits_seek(struct jpeg_bits *bits, const uint8_t *data, uint64_t bit, uint64_t zeros)
{
    uint64_t byte = bit / 8, held = (uint64_t)(bits->end - bits->window);
    if (byte < bits->before || byte - bits->before + AHEAD > held) {
        if (byte + zeros > (uint64_t)(bits->source_end - data))
            return false;
        jpeg_bits_start(bits, data + byte + zeros, bits->source_end);
        bits->before = byte;
        if (!jpeg_bits_more(bits))
            return false;
    }
    bits->reader = (struct jpeg_reader){0, 0, bits->window + (byte - bits->before)};
    jpeg_reader_fill(&bits->reader);
    jpeg_reader_eat(&bits->reader, bit % 8);
    return true;
}

static int64_t bits_left(const struct jpeg_bits *bits)
{
    return 8 * (int64_t)(bits->end - bits->reader.at) + bits->reader.count;
}

bool jpeg_bits_over(struct jpeg_bits *bits)
{
    if (!jpeg_bits_ready(bits) && !bits->last && !jpeg_bits_more(bits))
        return false;
    return bits->last && bits_left(bits) >= 0 && bits_left(bits) < 8;
}

bool jpeg_bits_sound(const struct jpeg_bits *bits)
{
    return bits_left(bits) >= 0;
}

bool jpeg_bits_restart(struct jpeg_bits *bits, uint32_t number)
{
    if (!bits->last || bits->source[1] != RST0 + number % 8)
        return false;
    jpeg_bits_start(bits, bits->source + 2, bits->source_end);
    return true;
}

bool jpeg_bits_tail(const struct jpeg_bits *bits, uint32_t first, uint32_t end)
{
    const uint8_t *at = bits->source;
    for (uint32_t number = first; (at = find_marker(at, bits->source_end)); number++, at += 2)
        if (at[1] != RST0 + number % 8)
            return at[1] == EOI && number == end;
    return false;
}
