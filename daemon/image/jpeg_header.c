#include "image/jpeg_header.h"

#include <string.h>

enum {
    SOF0 = 0xC0,
    SOF1 = 0xC1,
    DHT = 0xC4,
    SOI = 0xD8,
    SOS = 0xDA,
    DQT = 0xDB,
    DRI = 0xDD,
    APP0 = 0xE0,
    APP14 = 0xEE,
    APP15 = 0xEF,
    COM = 0xFE,
};
enum { SIDE_MAX = 65500 };

const uint8_t jpeg_natural[192] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18,
    11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43,
    36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, [JPEG_BLOCK... 191] = JPEG_BLOCK,
};

/* Rest of a marker's segment. */
struct segment {
    const uint8_t *at;
    size_t left;
};

struct parser {
    struct jpeg_header *header;
    bool jfif, adobe;
    uint8_t transform; /* of the Adobe marker */
};

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static void advance(struct segment *segment, size_t bytes)
{
    segment->at += bytes;
    segment->left -= bytes;
}

static bool read_quants(struct jpeg_header *header, struct segment segment)
{
    while (segment.left) {
        uint32_t wide = segment.at[0] >> 4, number = segment.at[0] & 15;
        size_t bytes = (size_t)JPEG_BLOCK << wide;
        if (wide > 1 || number > 3 || segment.left < 1 + bytes)
            return false;
        for (int k = 0; k < JPEG_BLOCK; k++) {
            const uint8_t *at = segment.at + 1 + ((size_t)k << wide);
            header->quant[number][jpeg_natural[k]] = (int16_t)(wide ? get16(at) : at[0]);
        }
        header->quants |= 1U << number;
        advance(&segment, 1 + bytes);
    }
    return true;
}

static bool read_codes(struct jpeg_header *header, struct segment segment)
{
    while (segment.left) {
        uint32_t kind = segment.at[0] >> 4, number = segment.at[0] & 15, count = 0;
        if (kind > 1 || number > 3 || segment.left < 17)
            return false;
        for (int i = 1; i <= 16; i++)
            count += segment.at[i];
        if (count > 256 || segment.left < 17 + count)
            return false;
        header->code[kind][number] = (struct jpeg_code){segment.at + 1, segment.at + 17, count};
        advance(&segment, 17 + count);
    }
    return true;
}

static bool same_id(const struct jpeg_header *header, uint32_t component)
{
    for (uint32_t c = 0; c < component; c++)
        if (header->component[c].id == header->component[component].id)
            return true;
    return false;
}

/* One component is not interleaved, so whatever its factors an MCU is one block. */
static bool check_sampling(struct jpeg_header *header)
{
    struct jpeg_component *first = &header->component[0];
    if (first->h < 1 || first->v < 1 || first->h > 4 || first->v > 4)
        return false;
    header->declared_h = first->h;
    header->declared_v = first->v;
    if (header->components == 1)
        first->h = first->v = 1;
    for (uint32_t c = 1; c < header->components; c++)
        if (header->component[c].h != 1 || header->component[c].v != 1)
            return false;
    header->h = first->h;
    header->v = first->v;
    return header->h <= 2 && header->v <= 2;
}

static bool read_frame(struct jpeg_header *header, struct segment segment)
{
    if (header->components || segment.left < 6 || segment.at[0] != 8)
        return false;
    header->height = (int32_t)get16(segment.at + 1);
    header->width = (int32_t)get16(segment.at + 3);
    header->components = segment.at[5];
    if (header->components != 1 && header->components != JPEG_COMPONENTS)
        return false;
    if (segment.left != 6 + 3 * (size_t)header->components)
        return false;
    for (uint32_t c = 0; c < header->components; c++) {
        const uint8_t *at = segment.at + 6 + 3 * c;
        header->component[c] = (struct jpeg_component){at[0], at[1] >> 4, at[1] & 15, at[2], 0, 0};
        if (at[2] > 3 || same_id(header, c))
            return false;
    }
    return header->width >= 1 && header->height >= 1 && header->width <= SIDE_MAX &&
           header->height <= SIDE_MAX && check_sampling(header);
}

static bool read_scan(struct jpeg_header *header, struct segment segment)
{
    size_t count = header->components;
    if (!count || segment.left != 4 + 2 * count || segment.at[0] != count)
        return false;
    for (size_t c = 0; c < count; c++) {
        struct jpeg_component *component = &header->component[c];
        const uint8_t *at = segment.at + 1 + 2 * c;
        component->dc = at[1] >> 4;
        component->ac = at[1] & 15;
        if (at[0] != component->id || component->dc > 3 || component->ac > 3)
            return false;
        if (!header->code[0][component->dc].lengths || !header->code[1][component->ac].lengths ||
            !(header->quants >> component->quant & 1))
            return false;
    }
    const uint8_t *spectrum = segment.at + 1 + 2 * count;
    return spectrum[0] == 0 && spectrum[1] == 63 && spectrum[2] == 0;
}

static void read_application(struct parser *parser, uint8_t marker, struct segment segment)
{
    if (marker == APP0 && segment.left >= 14 && memcmp(segment.at, "JFIF", 5) == 0)
        parser->jfif = true;
    if (marker == APP14 && segment.left >= 12 && memcmp(segment.at, "Adobe", 5) == 0) {
        parser->adobe = true;
        parser->transform = segment.at[11];
    }
}

/* By libjpeg's rules; false where it would guess aloud. */
static bool choose_colour(const struct parser *parser)
{
    struct jpeg_header *header = parser->header;
    const struct jpeg_component *component = header->component;
    header->colour = header->components == 1 ? JPEG_GREY : JPEG_YCC;
    if (header->components == 1 || parser->jfif)
        return true;
    if (parser->adobe) {
        header->colour = parser->transform ? JPEG_YCC : JPEG_RGB;
        return parser->transform <= 1;
    }
    if (component[0].id == 'R' && component[1].id == 'G' && component[2].id == 'B')
        header->colour = JPEG_RGB;
    return true;
}

static bool read_segment(struct parser *parser, uint8_t marker, struct segment segment)
{
    struct jpeg_header *header = parser->header;
    switch (marker) {
    case SOF0:
    case SOF1:
        return read_frame(header, segment);
    case DHT:
        return read_codes(header, segment);
    case DQT:
        return read_quants(header, segment);
    case DRI:
        if (segment.left == 2)
            header->restart = get16(segment.at);
        return segment.left == 2;
    case SOS:
        return read_scan(header, segment) && choose_colour(parser);
    default:
        read_application(parser, marker, segment);
        return (marker >= APP0 && marker <= APP15) || marker == COM;
    }
}

bool jpeg_header_parse(struct jpeg_header *header, const uint8_t *bytes, size_t size)
{
    struct parser parser = {.header = header};
    struct segment file = {bytes, size};
    *header = (struct jpeg_header){.end = bytes + size};
    if (size < 2 || bytes[0] != 0xFF || bytes[1] != SOI)
        return false;
    advance(&file, 2);
    while (file.left >= 4 && file.at[0] == 0xFF) {
        uint8_t marker = file.at[1];
        if (marker == 0xFF) { /* a fill byte */
            advance(&file, 1);
            continue;
        }
        size_t length = get16(file.at + 2);
        if (length < 2 || file.left - 2 < length ||
            !read_segment(&parser, marker, (struct segment){file.at + 4, length - 2}))
            return false;
        advance(&file, 2 + length);
        header->data = file.at;
        if (marker == SOS)
            return true;
    }
    return false;
}
