#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client_parts.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A file that can still shrink under the mapping would kill us with SIGBUS; what others read too no
 * reader may change. */
static int check(int fd, uint64_t size, bool shared, char *text, size_t text_size)
{
    int seals = fcntl(fd, F_GET_SEALS), wanted = SEALS | (shared ? F_SEAL_FUTURE_WRITE : 0);
    struct stat st;
    if (seals < 0 || (seals & wanted) != wanted) {
        snprintf(text, text_size, "its batch memory is not sealed (seals %#x)",
                 seals < 0 ? 0U : (unsigned)seals);
        return -EPROTO;
    }
    if (fstat(fd, &st) < 0 || st.st_size < 0 || (uint64_t)st.st_size != size) {
        snprintf(text, text_size, "its batch memory has %lld bytes, not %llu",
                 (long long)st.st_size, (unsigned long long)size);
        return -EPROTO;
    }
    return 0;
}

static int map(struct mapping *mapping, int fd, char *text, size_t text_size)
{
    int access = PROT_READ | (mapping->shared ? 0 : PROT_WRITE);
    mapping->bytes = mmap(NULL, mapping->size, access, MAP_SHARED, fd, 0);
    if (mapping->bytes == MAP_FAILED) {
        int err = errno;
        snprintf(text, text_size, "cannot map %zu bytes of batch memory: %s (see ulimit -v)",
                 mapping->size, strerror(err));
        return -err;
    }
    madvise(mapping->bytes, mapping->size, MADV_DONTFORK);
    return 0;
}

int mapping_memfd(int fd, uint32_t slots, bool shared, const struct dlp_layout *layout,
                  struct mapping **out, char *text, size_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(layout->slot_bytes, slots, &bytes) || bytes > INT64_MAX) {
        snprintf(text, size, "its batch memory is larger than any file");
        return -EPROTO;
    }
    int r = check(fd, bytes, shared, text, size);
    if (r < 0)
        return r;
    struct mapping *mapping = mapping_new(slots, shared, layout);
    if (!mapping) {
        snprintf(text, size, "out of memory");
        return -ENOMEM;
    }
    mapping->size = bytes;
    r = map(mapping, fd, text, size);
    if (r < 0) {
        free(mapping);
        return r;
    }
    *out = mapping;
    return 0;
}

void mapping_memfd_end(struct mapping *mapping)
{
    for (uint32_t i = 0; i < mapping->slots; i++)
        if (!mapping->batches[i].kept)
            munmap(mapping_slot(mapping, i), mapping->layout.slot_bytes);
}

void mapping_memfd_populate(struct dataload_batch *batch)
{
    if (batch->populated)
        return;
    batch->populated = true;
    /* Only saves page faults: a kernel before 5.14 refuses it, and that is fine. */
    madvise(mapping_slot(batch->mapping, batch->slot), batch->mapping->layout.slot_bytes,
            MADV_POPULATE_READ);
}
