#include "store/read_spans.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "store/file_window.h"

#define PIECES 1024                  /* of one preadv: parts and gaps; as many as it takes */
#define SPAN_MAX ((uint64_t)1 << 30) /* of one preadv */

struct span {
    struct iovec pieces[PIECES];
    int npieces;
    uint64_t offset, size;
    size_t reads; /* that it covers */
};

/* May the read be laid behind what the span has? */
static bool fits(const struct span *span, const struct format_read *read)
{
    uint64_t end = span->offset + span->size;
    return span->reads && span->npieces + 2 <= PIECES && read->offset >= end &&
           read->offset - end <= READ_SPANS_GAP && read->size <= SPAN_MAX &&
           read->offset - end + read->size <= SPAN_MAX - span->size;
}

static void append(struct span *span, void *dst, uint64_t size)
{
    if (size)
        span->pieces[span->npieces++] = (struct iovec){dst, size};
    span->size += size;
}

/* The reads from the front that go in one call. */
static void gather(struct span *span, const struct format_read *reads, size_t count, void *trash)
{
    span->npieces = 0;
    span->size = 0;
    span->reads = 0;
    span->offset = reads[0].offset;
    if (reads[0].size > SPAN_MAX || reads[0].offset > INT64_MAX - SPAN_MAX)
        return;
    do {
        append(span, trash, reads[span->reads].offset - span->offset - span->size);
        append(span, reads[span->reads].dst, reads[span->reads].size);
        span->reads++;
    } while (span->reads < count && fits(span, &reads[span->reads]));
}

static void read_alone(int fd, struct format_read *read)
{
    int64_t got = file_read(fd, read->dst, read->offset, read->size);
    read->error = got < 0 ? (int)got : 0;
    read->got = got < 0 ? 0 : (uint64_t)got;
}

/* What a short or failed call left over is read part by part: so an error or the end of the file
 * touches no other part. */
static void finish(int fd, struct format_read *reads, size_t count, uint64_t done)
{
    for (size_t i = 0; i < count; i++) {
        struct format_read *read = &reads[i];
        if (read->offset + read->size <= done) {
            read->got = read->size;
            read->error = 0;
        } else {
            read_alone(fd, read);
        }
    }
}

void read_spans(int fd, struct format_read *reads, size_t count)
{
    uint8_t trash[READ_SPANS_GAP];
    struct span span;
    for (size_t i = 0; i < count; i += span.reads) {
        gather(&span, reads + i, count - i, trash);
        if (span.reads < 2) {
            span.reads = 1;
            read_alone(fd, &reads[i]);
            continue;
        }
        ssize_t got = preadv(fd, span.pieces, span.npieces, (off_t)span.offset);
        finish(fd, reads + i, span.reads, span.offset + (uint64_t)(got > 0 ? got : 0));
    }
}
