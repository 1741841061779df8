/* Tar archives made in memory, whole or damaged: for tests. Every function ends the process when
 * memory is short or a name does not fit its format. */
#ifndef TAR_MAKER_H
#define TAR_MAKER_H

#include <stddef.h>
#include <stdint.h>

struct tarm;

enum tarm_format { TARM_USTAR, TARM_GNU, TARM_V7, TARM_STAR };

/* One header with all its choices; what is left 0 is as usual. */
struct tarm_member {
    enum tarm_format format;
    char type;          /* 0 = '0' (v7: NUL) */
    const char *name;   /* ustar: split over prefix and name when it is longer than 100 */
    const char *link;   /* of type '1' and '2' */
    const void *bytes;  /* payload, padded to 512 */
    size_t size;        /* of bytes */
    const char *claims; /* the 12 bytes of the size field instead of size */
};

struct tarm *tarm_new(void);
void tarm_free(struct tarm *tar);

void tarm_add(struct tarm *tar, const struct tarm_member *member);
void tarm_file(struct tarm *tar, const char *name, const void *bytes, size_t size); /* ustar */
void tarm_text(struct tarm *tar, const char *name, const char *text);
void tarm_link(struct tarm *tar, char type, const char *name, const char *target);
/* GNU 'L' or 'K' header for what follows. */
void tarm_long(struct tarm *tar, char type, const char *name);
/* pax header 'x' or 'g': key, value, key, value, ..., NULL. */
void tarm_pax(struct tarm *tar, char type, const char *key, ...) __attribute__((sentinel));
void tarm_raw(struct tarm *tar, const void *bytes, size_t size);
void tarm_zeros(struct tarm *tar, size_t size);
void tarm_end(struct tarm *tar); /* two zero blocks */

/* Bytes so far; valid until the next call. Tests may change them in place. */
uint8_t *tarm_bytes(struct tarm *tar);
size_t tarm_size(const struct tarm *tar);
void tarm_cut(struct tarm *tar, size_t size); /* keeps only the first size bytes */
/* Computes the checksum of the header at offset anew. */
void tarm_checksum(struct tarm *tar, size_t offset);

int tarm_write(const struct tarm *tar, const char *path); /* 0 or -1 with errno */
int tarm_memfd(const struct tarm *tar);                   /* a file descriptor */

#endif
