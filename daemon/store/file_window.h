/* Looking through a file for its headers: small reads where data is skipped, larger ones where all
 * of it is wanted. Never maps the file: another process may cut it short. Owner: one thread. */
#ifndef FILE_WINDOW_H
#define FILE_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#define FILE_WINDOW_MAX ((size_t)64 << 10)

struct file_window {
    int fd;
    uint64_t start; /* of the bytes held, in the file */
    size_t filled;
    size_t step; /* next read: grows while reads follow each other, shrinks after a skip */
    uint8_t bytes[FILE_WINDOW_MAX];
};

void file_window_start(struct file_window *window, int fd);
/* The size bytes at offset (size <= FILE_WINDOW_MAX); valid until the next call. Returns how many
 * there are (fewer at the end of the file) or a negative errno. */
int64_t file_window_at(struct file_window *window, uint64_t offset, size_t size,
                       const uint8_t **out);
/* pread until size bytes, the end of the file (short) or an error. */
int64_t file_read(int fd, void *dst, uint64_t offset, uint64_t size);

#endif
