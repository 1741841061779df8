#include "store/turned.h"

#include <string.h>

#include "base/exif.h"

#define LOOKS 256
#define BYTES 16384 /* of a picture: the EXIF block is one of the first */

static const struct index_part *jpeg_part(const struct index *index, uint32_t record)
{
    const struct index_part *parts = index_parts(index, record);
    for (uint32_t i = 0; i < index_record(index, record)->parts; i++) {
        const char *suffix = index_suffix(index, parts[i].suffix);
        if (parts[i].flags == PART_STORED && (!strcmp(suffix, "jpg") || !strcmp(suffix, "jpeg")))
            return &parts[i];
    }
    return NULL;
}

void turned_survey(int fd, const struct format *format, struct index *index,
                   const _Atomic bool *cancel)
{
    uint8_t bytes[BYTES];
    uint64_t records = index_records(index), looks = records < LOOKS ? records : LOOKS;
    uint64_t looked_at = 0, turned = 0;
    for (uint64_t i = 0; i < looks && !*cancel; i++) {
        uint32_t record = (uint32_t)(i * records / looks);
        const struct index_part *part = jpeg_part(index, record);
        if (!part)
            continue;
        struct format_read read = {.record = record,
                                   .offset = part->offset,
                                   .size = part->size < BYTES ? part->size : BYTES,
                                   .dst = bytes};
        format->read(fd, index, &read, 1);
        looked_at += read.error == 0;
        turned += read.error == 0 && exif_orientation(bytes, read.got) != 1;
    }
    index_set_turned(index, looked_at, turned);
}
