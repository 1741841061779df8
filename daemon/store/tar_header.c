#include "store/tar_header.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct tar_header) == 512, "a header is one block");

bool tar_block_is_zero(const uint8_t block[512])
{
    return block[0] == 0 && !memcmp(block, block + 1, 511);
}

static bool octal(const char *field, unsigned size, uint64_t *out)
{
    unsigned i = 0;
    uint64_t value = 0;
    while (i < size && field[i] == ' ')
        i++;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) {
        if (value >> 60)
            return false;
        value = value << 3 | (uint64_t)(field[i] - '0');
    }
    if (i < size && field[i] != '\0' && field[i] != ' ')
        return false;
    *out = value;
    return true;
}

static bool base256(const char *field, unsigned size, uint64_t *out)
{
    uint64_t value = (uint8_t)field[0] & 0x3f; /* 0x80 marks the form, 0x40 is the sign */
    if (field[0] & 0x40)
        return false;
    for (unsigned i = 1; i < size; i++) {
        if (value >> 55)
            return false;
        value = value << 8 | (uint8_t)field[i];
    }
    *out = value;
    return true;
}

bool tar_number(const char *field, unsigned size, uint64_t *out)
{
    return field[0] & 0x80 ? base256(field, size, out) : octal(field, size, out);
}

bool tar_checksum_is_right(const struct tar_header *header)
{
    const uint8_t *bytes = (const uint8_t *)header;
    uint64_t written;
    int plain = 0, with_sign = 0;
    if (!tar_number(header->checksum, sizeof header->checksum, &written))
        return false;
    for (unsigned i = 0; i < sizeof *header; i++) {
        plain += bytes[i];
        with_sign += (int8_t)bytes[i];
    }
    for (unsigned i = 0; i < sizeof header->checksum; i++) { /* which counts as spaces itself */
        plain += ' ' - (uint8_t)header->checksum[i];
        with_sign += ' ' - (int8_t)header->checksum[i];
    }
    return written == (uint64_t)plain || written == (uint64_t)with_sign;
}

bool tar_has_magic(const struct tar_header *header)
{
    return !memcmp(header->magic, "ustar", 5);
}

/* GNU headers have times where ustar has the prefix; star's prefix ends before its times. */
static unsigned prefix_room(const struct tar_header *header)
{
    if (memcmp(header->magic, "ustar", 6))
        return 0;
    return memcmp(header->pad + 8, "tar", 4) ? sizeof header->prefix : 131;
}

void tar_plain_name(const struct tar_header *header, char out[257])
{
    int prefix = (int)strnlen(header->prefix, prefix_room(header));
    int name = (int)strnlen(header->name, sizeof header->name);
    snprintf(out, 257, "%.*s%s%.*s", prefix, header->prefix, prefix ? "/" : "", name, header->name);
}
