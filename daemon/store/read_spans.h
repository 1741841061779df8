/* Reading many parts of one file: neighbours in one preadv, what lies between them thrown away. Any
 * thread. */
#ifndef READ_SPANS_H
#define READ_SPANS_H

#include <stddef.h>

#include "store/format.h"

#define READ_SPANS_GAP ((uint64_t)64 << 10) /* larger gaps are not read */

void read_spans(int fd, struct format_read *reads, size_t count);

#endif
