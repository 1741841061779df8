#include "tar_maker.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK 512

struct tarm {
    uint8_t *bytes;
    size_t size, capacity;
};

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "tar_maker: %s\n", what);
        abort();
    }
}

struct tarm *tarm_new(void)
{
    struct tarm *tar = calloc(1, sizeof *tar);
    require(tar != NULL, "no memory");
    return tar;
}

void tarm_free(struct tarm *tar)
{
    if (tar)
        free(tar->bytes);
    free(tar);
}

static uint8_t *room(struct tarm *tar, size_t size)
{
    if (tar->size + size > tar->capacity) {
        tar->capacity = (tar->size + size) * 2;
        tar->bytes = realloc(tar->bytes, tar->capacity);
        require(tar->bytes != NULL, "no memory");
    }
    uint8_t *at = tar->bytes + tar->size;
    tar->size += size;
    return at;
}

void tarm_raw(struct tarm *tar, const void *bytes, size_t size)
{
    if (size)
        memcpy(room(tar, size), bytes, size);
}

void tarm_zeros(struct tarm *tar, size_t size)
{
    if (size)
        memset(room(tar, size), 0, size);
}

void tarm_end(struct tarm *tar)
{
    tarm_zeros(tar, (size_t)2 * BLOCK);
}

static void put_name(uint8_t *header, const struct tarm_member *member)
{
    const char *name = member->name;
    size_t length = strlen(name);
    if (length <= 100) {
        memcpy(header, name, length);
        return;
    }
    size_t room_of_prefix = member->format == TARM_STAR ? 130 : 155;
    const char *slash = NULL;
    for (const char *at = name; (at = strchr(at, '/')) != NULL; at++)
        if ((size_t)(at - name) <= room_of_prefix && length - (size_t)(at - name) - 1 <= 100)
            slash = at;
    require(slash && (member->format == TARM_USTAR || member->format == TARM_STAR),
            "the name is too long for the format");
    memcpy(header + 345, name, (size_t)(slash - name));
    memcpy(header, slash + 1, strlen(slash + 1));
}

static void put_magic(uint8_t *header, enum tarm_format format)
{
    if (format == TARM_GNU)
        memcpy(header + 257, "ustar  ", 8);
    else if (format != TARM_V7)
        memcpy(header + 257, "ustar\00000", 8);
    if (format == TARM_STAR)
        memcpy(header + 508, "tar", 4);
}

void tarm_add(struct tarm *tar, const struct tarm_member *member)
{
    size_t offset = tar->size;
    uint8_t *header = room(tar, BLOCK);
    memset(header, 0, BLOCK);
    put_name(header, member);
    memcpy(header + 100, "0000644", 8);
    memcpy(header + 108, "0000000", 8);
    memcpy(header + 116, "0000000", 8);
    if (member->claims)
        memcpy(header + 124, member->claims, 12);
    else
        snprintf((char *)header + 124, 12, "%011zo", member->size);
    memcpy(header + 136, "00000000000", 12);
    header[156] = (uint8_t)(member->type || member->format == TARM_V7 ? member->type : '0');
    if (member->link)
        memcpy(header + 157, member->link, strnlen(member->link, 100));
    put_magic(header, member->format);
    tarm_checksum(tar, offset);
    tarm_raw(tar, member->bytes, member->size);
    tarm_zeros(tar, (BLOCK - member->size % BLOCK) % BLOCK);
}

void tarm_checksum(struct tarm *tar, size_t offset)
{
    uint8_t *header = tar->bytes + offset;
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
    header[155] = ' ';
}

void tarm_file(struct tarm *tar, const char *name, const void *bytes, size_t size)
{
    tarm_add(tar, &(struct tarm_member){.name = name, .bytes = bytes, .size = size});
}

void tarm_text(struct tarm *tar, const char *name, const char *text)
{
    tarm_file(tar, name, text, strlen(text));
}

void tarm_link(struct tarm *tar, char type, const char *name, const char *target)
{
    tarm_add(tar, &(struct tarm_member){.name = name, .type = type, .link = target});
}

void tarm_long(struct tarm *tar, char type, const char *name)
{
    tarm_add(tar, &(struct tarm_member){.format = TARM_GNU,
                                        .type = type,
                                        .name = "././@LongLink",
                                        .bytes = name,
                                        .size = strlen(name) + 1});
}

static size_t pax_record(char *out, size_t capacity, const char *key, const char *value)
{
    size_t body = strlen(key) + strlen(value) + 3, length = body + 1;
    for (int digits = 0; digits < 3; digits++)
        length = body + (size_t)snprintf(NULL, 0, "%zu", length);
    return (size_t)snprintf(out, capacity, "%zu %s=%s\n", length, key, value);
}

void tarm_pax(struct tarm *tar, char type, const char *key, ...)
{
    char body[8192];
    size_t size = 0;
    va_list args;
    va_start(args, key);
    for (; key; key = va_arg(args, const char *)) {
        size += pax_record(body + size, sizeof body - size, key, va_arg(args, const char *));
        require(size < sizeof body, "the pax records are too long");
    }
    va_end(args);
    tarm_add(tar, &(struct tarm_member){
                      .type = type, .name = "PaxHeaders/x", .bytes = body, .size = size});
}

uint8_t *tarm_bytes(struct tarm *tar)
{
    return tar->bytes;
}

size_t tarm_size(const struct tarm *tar)
{
    return tar->size;
}

void tarm_cut(struct tarm *tar, size_t size)
{
    require(size <= tar->size, "nothing to cut");
    tar->size = size;
}

static int write_all(const struct tarm *tar, int fd)
{
    for (size_t done = 0; done < tar->size;) {
        ssize_t n = write(fd, tar->bytes + done, tar->size - done);
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

int tarm_write(const struct tarm *tar, const char *path)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    int rc = write_all(tar, fd);
    return close(fd) ? -1 : rc;
}

int tarm_memfd(const struct tarm *tar)
{
    int fd = memfd_create("tar", MFD_CLOEXEC);
    require(fd >= 0 && write_all(tar, fd) == 0, "no memfd");
    return fd;
}
