#include "base/exif.h"

#include <stdbool.h>
#include <string.h>

enum { APP1 = 0xe1, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, TAG_ORIENTATION = 0x0112 };

struct tiff {
    const uint8_t *bytes;
    size_t size;
    bool big_endian;
};

static uint32_t get16(const struct tiff *tiff, size_t at)
{
    const uint8_t *b = tiff->bytes + at;
    return (uint32_t)(tiff->big_endian ? b[0] << 8 | b[1] : b[1] << 8 | b[0]);
}

static uint32_t get32(const struct tiff *tiff, size_t at)
{
    uint32_t first = get16(tiff, at), second = get16(tiff, at + 2);
    return tiff->big_endian ? first << 16 | second : second << 16 | first;
}

static int of_entry(const struct tiff *tiff, size_t at)
{
    enum { SHORT = 3, LONG = 4 };
    uint32_t type = get16(tiff, at + 2), value = 0;
    if (type == SHORT)
        value = get16(tiff, at + 8);
    else if (type == LONG)
        value = get32(tiff, at + 8);
    return value >= 1 && value <= 8 ? (int)value : 1;
}

static int of_tiff(struct tiff *tiff)
{
    if (tiff->size < 8 || tiff->bytes[0] != tiff->bytes[1] ||
        (tiff->bytes[0] != 'I' && tiff->bytes[0] != 'M'))
        return 1;
    tiff->big_endian = tiff->bytes[0] == 'M';
    size_t directory = get32(tiff, 4);
    if (get16(tiff, 2) != 42 || directory > tiff->size - 2)
        return 1;
    size_t entries = get16(tiff, directory), room = (tiff->size - directory - 2) / 12;
    for (size_t i = 0; i < entries && i < room; i++) {
        size_t at = directory + 2 + i * 12;
        if (get16(tiff, at) == TAG_ORIENTATION)
            return of_entry(tiff, at);
    }
    return 1;
}

int exif_orientation(const uint8_t *bytes, size_t size)
{
    static const uint8_t name[6] = "Exif\0";
    if (size < 4 || bytes[0] != 0xff || bytes[1] != SOI)
        return 1;
    for (size_t at = 2; at + 4 <= size;) {
        uint8_t marker = bytes[at + 1];
        if (bytes[at] != 0xff)
            return 1;
        if (marker == 0xff) { /* fill byte */
            at++;
            continue;
        }
        size_t length = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (marker == SOS || marker == EOI || length < 2)
            return 1;
        size_t body = at + 4, there = size - body < length - 2 ? size - body : length - 2;
        if (marker == APP1 && there >= sizeof name && !memcmp(bytes + body, name, sizeof name)) {
            struct tiff tiff = {bytes + body + sizeof name, there - sizeof name, false};
            return of_tiff(&tiff);
        }
        at += 2 + length;
    }
    return 1;
}
