/* A set of strings, each with a number in the order of first use. Memory is sized by input: it may
 * fail. Owner: one thread. */
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct names {
    char *text; /* NUL-terminated strings one after the other */
    uint64_t size, capacity;
    uint64_t *at; /* where each begins */
    uint32_t count, room;
    uint32_t *slots; /* number + 1; 0 = free */
    uint32_t nslots; /* a power of 2 */
};

/* Number of the string, which is added when it is new. -ENOMEM; -E2BIG over 4 GiB of text or 2^30
 * strings. */
int names_add(struct names *names, const char *string, uint32_t *number);
/* Number of a string that is there; false: it is not. */
bool names_find(const struct names *names, const char *string, uint32_t *number);
uint64_t names_bytes(const struct names *names); /* in use */
void names_done(struct names *names);

/* Room for one more item in an array of items of `size` bytes: true, or false when memory is short.
 */
bool array_room(void *array_at, uint64_t used, uint64_t *capacity, size_t size);

#endif
