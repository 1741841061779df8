#include "image/sniff.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t at, length;
    const char *magic;
} formats[] = {
    {"PNG", 0, 8, "\x89PNG\r\n\x1a\n"},
    {"GIF", 0, 4, "GIF8"},
    {"WebP", 8, 4, "WEBP"},
    {"BMP", 0, 2, "BM"},
    {"TIFF", 0, 4, "II*\0"},
    {"TIFF", 0, 4, "MM\0*"},
    {"AVIF", 4, 8, "ftypavif"},
    {"AVIF", 4, 8, "ftypavis"},
    {"HEIF", 4, 8, "ftypheic"},
    {"HEIF", 4, 8, "ftypmif1"},
    {"JPEG XL", 0, 2, "\xff\x0a"},
    {"JPEG XL", 4, 8, "JXL \r\n\x87\n"},
    {"JPEG 2000", 4, 8, "jP  \r\n\x87\n"},
    {"JPEG 2000", 0, 4, "\xff\x4f\xff\x51"},
    {"PNM", 0, 3, "P6\n"},
    {"PNM", 0, 3, "P5\n"},
};

bool sniff_jpeg(const uint8_t *bytes, size_t size)
{
    return size >= 2 && bytes[0] == 0xFF && bytes[1] == 0xD8;
}

const char *sniff_other(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (size >= (size_t)formats[i].at + formats[i].length &&
            memcmp(bytes + formats[i].at, formats[i].magic, formats[i].length) == 0)
            return formats[i].name;
    return NULL;
}

char *sniff_words(const uint8_t *bytes, size_t size, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < size && used + 5 <= room; i++) {
        bool plain = bytes[i] > ' ' && bytes[i] < 0x7F && bytes[i] != '\\' && bytes[i] != '"';
        used += (size_t)snprintf(text + used, room - used,
                                 plain || bytes[i] == ' ' ? "%c" : "\\x%02x", bytes[i]);
    }
    return text;
}
