/* Where the marks of a part (image/jpeg_marks.h) lie in the file of marks of its shard: at a fixed
 * share of where its bytes lie among those of all parts, so that there is no table. */
#ifndef MARKS_H
#define MARKS_H

#include <stdint.h>

/* Bytes of marks in MARKS_UNIT of data, at most: more gains next to nothing (docs/performance.md).
 */
#define MARKS_SHARE 14U
#define MARKS_UNIT 1000U
#define MARKS_ROOM_MAX 16384U /* of one part */

struct marks_place {
    uint64_t offset; /* in the file */
    uint64_t room;
};

static inline uint64_t marks_share(uint64_t bytes)
{
    return bytes / MARKS_UNIT * MARKS_SHARE + bytes % MARKS_UNIT * MARKS_SHARE / MARKS_UNIT;
}

/* Of a part of `size` bytes, with `before` bytes of parts before it in the shard; never over
 * marks_share(size). */
static inline struct marks_place marks_place(uint64_t before, uint64_t size)
{
    uint64_t from = marks_share(before) + 1, to = marks_share(before + size);
    uint64_t room = to > from ? to - from : 0;
    return (struct marks_place){from, room < MARKS_ROOM_MAX ? room : MARKS_ROOM_MAX};
}

#endif
