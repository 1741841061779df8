#include "pack/pack_tar.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

enum { BLOCK = 512, NAME_MAX_BYTES = 100 };

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a tar header is one block");

static const char zeros[2 * BLOCK];

static int put(FILE *file, const void *data, size_t size)
{
    return size == 0 || fwrite(data, size, 1, file) == 1 ? 0 : -1;
}

static size_t padding(uint64_t size)
{
    return (size_t)(-size % BLOCK);
}

static void seal(struct ustar *header)
{
    const unsigned char *bytes = (const unsigned char *)header;
    unsigned sum = 0;
    memset(header->sum, ' ', sizeof header->sum);
    for (size_t i = 0; i < sizeof *header; i++)
        sum += bytes[i];
    snprintf(header->sum, sizeof header->sum, "%06o", sum); /* six digits, NUL, a space */
}

static int put_header(FILE *file, char type, const char *name, uint64_t size)
{
    struct ustar header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    memcpy(header.name, name, strnlen(name, sizeof header.name));
    snprintf(header.mode, sizeof header.mode, "%07o", 0444U);
    snprintf(header.uid, sizeof header.uid, "%07o", 0U);
    snprintf(header.gid, sizeof header.gid, "%07o", 0U);
    snprintf(header.size, sizeof header.size, "%011" PRIo64, size);
    snprintf(header.mtime, sizeof header.mtime, "%011o", 0U);
    seal(&header);
    return put(file, &header, sizeof header);
}

static int put_body(FILE *file, const void *data, uint64_t size)
{
    return put(file, data, size) < 0 ? -1 : put(file, zeros, padding(size));
}

/* Bytes of the pax record "LENGTH path=NAME\n", whose length counts its own digits too. */
static size_t pax_length(size_t name_length)
{
    size_t rest = strlen(" path=\n") + name_length;
    size_t length = rest;
    for (;;) {
        size_t next = rest + (size_t)snprintf(NULL, 0, "%zu", length);
        if (next == length)
            return length;
        length = next;
    }
}

static int put_pax(FILE *file, const char *name)
{
    size_t length = pax_length(strlen(name));
    cleanup_free char *record = mem_format("%zu path=%s\n", length, name);
    cleanup_free char *header = mem_format("PaxHeaders/%.80s", name);
    return put_header(file, 'x', header, length) < 0 ? -1 : put_body(file, record, length);
}

int pack_tar_member(FILE *file, const char *name, const void *data, uint64_t size)
{
    if (size > PACK_TAR_SIZE_MAX) {
        errno = EFBIG;
        return -1;
    }
    if (strlen(name) > NAME_MAX_BYTES && put_pax(file, name) < 0)
        return -1;
    return put_header(file, '0', name, size) < 0 ? -1 : put_body(file, data, size);
}

int pack_tar_end(FILE *file)
{
    return put(file, zeros, sizeof zeros);
}

uint64_t pack_tar_bytes(size_t name_length, uint64_t size)
{
    uint64_t bytes = BLOCK + size + padding(size);
    if (name_length <= NAME_MAX_BYTES)
        return bytes;
    size_t pax = pax_length(name_length);
    return bytes + BLOCK + pax + padding(pax);
}
