/* How many of a shard's pictures carry an EXIF turn: by a look at some of them. */
#ifndef TURNED_H
#define TURNED_H

#include "store/format.h"

/* Looks at the first bytes of up to 256 JPEG parts, spread evenly over the records, and notes the
 * share in the index. What cannot be read is not counted. */
void turned_survey(int fd, const struct format *format, struct index *index,
                   const _Atomic bool *cancel);

#endif
