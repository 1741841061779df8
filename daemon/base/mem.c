#include "base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

static void *checked(void *memory, size_t size)
{
    if (memory)
        return memory;
    log_error("out of memory: %zu bytes for a control structure", size);
    abort();
}

void *mem_new(size_t size)
{
    return checked(calloc(1, size ? size : 1), size);
}

void *mem_array(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return checked(NULL, SIZE_MAX);
    return mem_new(bytes);
}

void *mem_lines(size_t size)
{
    size_t whole = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return memset(checked(aligned_alloc(CACHE_LINE, whole), whole), 0, whole);
}

void *mem_grow(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return checked(NULL, SIZE_MAX);
    return checked(realloc(old, bytes ? bytes : 1), bytes);
}

char *mem_string(const char *text)
{
    return text ? checked(strdup(text), strlen(text) + 1) : NULL;
}

char *mem_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return checked(length < 0 ? NULL : text, 0);
}

/* Blocks from this size on are mappings of their own, as glibc has it once it has seen some:
 * setting one of the two stops it from finding out. */
#define OWN_MAPPING (4 << 20)
#define KEEP_MOST (64ULL << 20)

int mem_file(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, flags);
    return fd;
}

/* A sanitizer's malloc leaves glibc's untouched: the first trims, from several threads at once,
 * would initialise it in a race. */
void mem_trim(void)
{
#ifndef SANITIZED
    malloc_trim(0);
#endif
}

void mem_keep(uint64_t bytes)
{
#ifndef SANITIZED
    mallopt(M_TRIM_THRESHOLD, (int)(bytes < KEEP_MOST ? bytes : KEEP_MOST));
    mallopt(M_MMAP_THRESHOLD, OWN_MAPPING);
#else
    (void)bytes;
#endif
}
