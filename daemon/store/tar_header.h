/* The fields of one 512-byte tar header. Pure. */
#ifndef TAR_HEADER_H
#define TAR_HEADER_H

#include <stdbool.h>
#include <stdint.h>

struct tar_header { /* as it lies in the file */
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[8]; /* with the version */
    char user[32];
    char group[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char pad[12];
};

bool tar_block_is_zero(const uint8_t block[512]);
/* Unsigned sum, or the signed one of old writers. */
bool tar_checksum_is_right(const struct tar_header *header);
bool tar_has_magic(const struct tar_header *header); /* ustar or GNU */
/* Octal, or base-256 of GNU; false: neither, negative, or over 2^63-1. */
bool tar_number(const char *field, unsigned size, uint64_t *out);
/* prefix/name, NUL-terminated. */
void tar_plain_name(const struct tar_header *header, char out[257]);

#endif
