/* SHA-256 (FIPS 180-4), for tests that compare with handed references. */
#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[64];
};

void sha256_start(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t size);
void sha256_hex(struct sha256 *hash, char out[65]); /* ends it */

#endif
