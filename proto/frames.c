#include "proto/frames.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define PREFIX 4U

/* What the heap itself adds to each block counts too: a hostile frame asks for many tiny ones. */
#define BLOCK_OVERHEAD 16U

size_t dlp_frame_size(const Dlp__Envelope *env)
{
    return PREFIX + dlp__envelope__get_packed_size(env);
}

size_t dlp_frame_pack(const Dlp__Envelope *env, uint8_t *out)
{
    size_t size = dlp__envelope__pack(env, out + PREFIX);
    for (unsigned i = 0; i < PREFIX; i++)
        out[i] = (uint8_t)(size >> (8 * i));
    return PREFIX + size;
}

long dlp_frame_peek(const uint8_t *bytes, size_t size, size_t max)
{
    if (size < PREFIX)
        return 0;
    size_t length = 0;
    for (unsigned i = 0; i < PREFIX; i++)
        length |= (size_t)bytes[i] << (8 * i);
    if (length == 0)
        return -EPROTO;
    if (length > max)
        return -EMSGSIZE;
    return size - PREFIX < length ? 0 : (long)(PREFIX + length);
}

static void *capped_alloc(void *left, size_t size)
{
    size_t *room = left;
    if (size > *room || *room - size < BLOCK_OVERHEAD)
        return NULL;
    *room -= size + BLOCK_OVERHEAD;
    return malloc(size);
}

static void plain_free(void *left, void *block)
{
    (void)left;
    free(block);
}

void *dlp_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                 size_t unpack_max)
{
    size_t left = unpack_max;
    ProtobufCAllocator capped = {capped_alloc, plain_free, &left};
    return protobuf_c_message_unpack(type, &capped, size, bytes);
}

void dlp_unpacked_free(void *message)
{
    ProtobufCAllocator plain = {NULL, plain_free, NULL};
    protobuf_c_message_free_unpacked(message, &plain);
}

Dlp__Envelope *dlp_frame_unpack(const uint8_t *bytes, size_t size, size_t unpack_max)
{
    if (size < PREFIX)
        return NULL;
    return dlp_unpack(&dlp__envelope__descriptor, bytes + PREFIX, size - PREFIX, unpack_max);
}

void dlp_frame_free(Dlp__Envelope *env)
{
    dlp_unpacked_free(env);
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._:/-", c));
}

int dlp_name_valid(const char *text)
{
    size_t length = 0;
    while (length <= DLP_NAME_MAX && name_char(text[length]))
        length++;
    return length > 0 && length <= DLP_NAME_MAX && !text[length];
}

int dlp_feed_name_valid(const char *text)
{
    size_t digits = *text == DLP_OWN_FEED ? strspn(text + 1, "0123456789") : 0;
    if (*text != DLP_OWN_FEED)
        return dlp_name_valid(text);
    return digits && text[1 + digits] == '/' && strlen(text) <= DLP_NAME_MAX &&
           dlp_name_valid(text + 1 + digits + 1);
}

/* Bytes of the UTF-8 character at text, 0 when it is none; *point is its number. */
static size_t utf8_length(const unsigned char *text, uint32_t *point)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = text[0] < 0x80               ? 1
                    : (text[0] & 0xe0U) == 0xc0U ? 2
                    : (text[0] & 0xf0U) == 0xe0U ? 3
                    : (text[0] & 0xf8U) == 0xf0U ? 4
                                                 : 0;
    if (length <= 1) {
        *point = text[0];
        return length;
    }
    *point = text[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0U) != 0x80U)
            return 0;
        *point = *point << 6 | (text[i] & 0x3fU);
    }
    bool surrogate = *point >= 0xd800 && *point <= 0xdfff;
    return *point < smallest[length] || *point > 0x10ffff || surrogate ? 0 : length;
}

static bool printable(uint32_t point)
{
    bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
    bool turns = (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
    return !control && !turns;
}

static char *escape(const char *text, char *out, size_t size, bool backslash)
{
    const unsigned char *in = (const unsigned char *)text;
    size_t at = 0;
    while (*in) {
        uint32_t point = 0;
        size_t length = utf8_length(in, &point);
        char unit[8];
        bool plain = length && printable(point) && !(backslash && point == '\\');
        if (!plain)
            length = 1;
        size_t width = plain ? length : 4;
        if (plain)
            memcpy(unit, in, length);
        else
            snprintf(unit, sizeof unit, "\\x%02X", *in);
        if (at + width >= size)
            break;
        memcpy(out + at, unit, width);
        at += width;
        in += length;
    }
    out[at] = '\0';
    return out;
}

char *dlp_escape(const char *text, char *out, size_t size)
{
    return escape(text, out, size, true);
}

char *dlp_printable(const char *text, char *out, size_t size)
{
    return escape(text, out, size, false);
}
