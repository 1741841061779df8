/* An index file of a stranger, with its checksum made right: whatever it loads can be walked. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/index_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct index *index)
{
    uint64_t bytes = 0;
    size_t letters = 0;
    for (uint32_t i = 0; i < index_records(index); i++) {
        const struct index_part *parts = index_parts(index, i);
        letters += strlen(index_key(index, i));
        for (uint32_t k = 0; k < index_record(index, i)->parts; k++) {
            bytes += parts[k].size;
            letters += strlen(index_suffix(index, parts[k].suffix));
        }
    }
    for (uint32_t i = 0; i < index_faults(index); i++) {
        const struct index_fault *fault = index_fault(index, i);
        letters += strlen(index_text(index, fault->reason)) + strlen(bad_name(fault->cls));
        if (fault->record != UINT32_MAX)
            letters += strlen(index_key(index, fault->record));
    }
    if (bytes != index_record(index, index_records(index))->bytes_before || letters == SIZE_MAX)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct index *index;
    struct error err = {0};
    size_t signed_from = offsetof(struct index_header, stamp);
    uint8_t *bytes = malloc(size + 1);
    memcpy(bytes, data, size);
    if (size >= sizeof(struct index_header)) {
        uint64_t sum = XXH3_64bits(bytes + signed_from, size - signed_from);
        memcpy(bytes + offsetof(struct index_header, checksum), &sum, sizeof sum);
    }
    if (fd < 0)
        fd = memfd_create("index", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, bytes, size, 0) != (ssize_t)size)
        abort();
    if (index_load(fd, &index, &err) == 0) {
        walk(index);
        index_free(index);
    }
    free(bytes);
    return 0;
}
