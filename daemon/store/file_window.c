#include "store/file_window.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#define STEP_MIN ((size_t)4 << 10)
#define READ_MAX (1ULL << 30)

int64_t file_read(int fd, void *dst, uint64_t offset, uint64_t size)
{
    uint64_t done = 0;
    if (offset > INT64_MAX || size > INT64_MAX - offset)
        return -EOVERFLOW;
    while (done < size) {
        uint64_t wanted = size - done < READ_MAX ? size - done : READ_MAX;
        ssize_t n = pread(fd, (char *)dst + done, wanted, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (uint64_t)n;
    }
    return (int64_t)done;
}

void file_window_start(struct file_window *window, int fd)
{
    window->fd = fd;
    window->start = 0;
    window->filled = 0;
    window->step = FILE_WINDOW_MAX;
}

static void choose_step(struct file_window *window, uint64_t offset, size_t size)
{
    uint64_t end = window->start + window->filled;
    if (offset > end + window->step)
        window->step = STEP_MIN;
    else if (window->step < FILE_WINDOW_MAX)
        window->step *= 2;
    if (window->step < size)
        window->step = FILE_WINDOW_MAX;
}

int64_t file_window_at(struct file_window *window, uint64_t offset, size_t size,
                       const uint8_t **out)
{
    bool inside = offset >= window->start && offset - window->start <= window->filled &&
                  size <= window->filled - (size_t)(offset - window->start);
    if (!inside) {
        choose_step(window, offset, size);
        window->filled = 0;
        int64_t got = file_read(window->fd, window->bytes, offset, window->step);
        if (got < 0)
            return got;
        window->start = offset;
        window->filled = (size_t)got;
    }
    *out = window->bytes + (offset - window->start);
    uint64_t there = window->filled - (offset - window->start);
    return (int64_t)(there < size ? there : size);
}
