/* A shard of a stranger: every part that the listing gives lies inside the file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Most mutants get the right checksums again, or they would all end at the first header. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    for (size_t at = 0; seed % 8 && at + 512 <= size; at += 512) {
        uint8_t *header = data + at;
        unsigned sum = 0;
        if (memcmp(header + 257, "ustar", 5) != 0)
            continue;
        memset(header + 148, ' ', 8);
        for (int i = 0; i < 512; i++)
            sum += header[i];
        char digits[8];
        snprintf(digits, sizeof digits, "%06o", sum);
        memcpy(header + 148, digits, 7);
    }
    return size;
}

static int file_of(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("tar", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    return fd;
}

static void check(const struct index *index, size_t size)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < index_records(index); i++) {
        const struct index_part *parts = index_parts(index, i);
        if (index_record(index, i)->bytes_before != bytes || index_record(index, i)->parts == 0)
            abort();
        for (uint32_t k = 0; k < index_record(index, i)->parts; k++) {
            if (parts[k].offset > size || parts[k].size > size - parts[k].offset)
                abort();
            bytes += parts[k].size;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct index *index;
    struct error err = {0};
    struct format_progress progress = {0};
    struct index_stamp stamp = {.size = size};
    struct index_builder *builder = index_builder_new();
    if (format_tar.list(file_of(data, size), "fuzz.tar", builder, &progress, &err))
        abort(); /* damage is never an error */
    if (index_builder_finish(builder, &stamp, &index))
        abort();
    if (index_records(index) == 0 && index_faults(index) == 0)
        abort(); /* nothing is left out without a word */
    check(index, size);
    index_free(index);
    return 0;
}
