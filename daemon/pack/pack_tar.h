/* Members of a tar file as POSIX.1-1988 (ustar) defines them, with a POSIX.1-2001 (pax) header
 * before those whose names are longer than 100 bytes. Owner, group and time are 0 and the mode is
 * 0444, so that equal input gives equal files. */
#ifndef PACK_TAR_H
#define PACK_TAR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PACK_TAR_SIZE_MAX 077777777777ULL /* 8 GiB less 1: eleven octal digits */

/* 0, or -1 with errno; -1 and EFBIG over PACK_TAR_SIZE_MAX. */
int pack_tar_member(FILE *file, const char *name, const void *data, uint64_t size);
/* The two zero blocks at the end. */
int pack_tar_end(FILE *file);
/* Bytes that a member takes. */
uint64_t pack_tar_bytes(size_t name_length, uint64_t size);

#endif
