#include "sha256.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The constants are by definition the first 32 bits of the fractions of the roots of primes. */
static uint32_t fraction(double root)
{
    return (uint32_t)(int64_t)((root - floor(root)) * 4294967296.0);
}

static uint32_t k[64], start[8];

static void constants(void)
{
    int found = k[63] ? 64 : 0;
    for (int n = 2; found < 64; n++) {
        int prime = 1;
        for (int d = 2; d * d <= n; d++)
            prime &= n % d != 0;
        if (!prime)
            continue;
        if (found < 8)
            start[found] = fraction(sqrt(n));
        k[found++] = fraction(cbrt(n));
    }
}

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void take_block(struct sha256 *hash)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)hash->block[4 * i] << 24 | (uint32_t)hash->block[4 * i + 1] << 16 |
               (uint32_t)hash->block[4 * i + 2] << 8 | hash->block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, hash->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t a = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                     ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        uint32_t b = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += a;
        s[0] = a + b;
    }
    for (int i = 0; i < 8; i++)
        hash->state[i] += s[i];
}

void sha256_start(struct sha256 *hash)
{
    constants();
    memcpy(hash->state, start, sizeof start);
    hash->size = 0;
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        hash->block[hash->size++ % 64] = ((const uint8_t *)bytes)[i];
        if (hash->size % 64 == 0)
            take_block(hash);
    }
}

void sha256_hex(struct sha256 *hash, char out[65])
{
    uint64_t bits = hash->size * 8;
    sha256_add(hash, "\x80", 1);
    while (hash->size % 64 != 56)
        sha256_add(hash, "", 1);
    for (int i = 56; i >= 0; i -= 8) {
        uint8_t byte = (uint8_t)(bits >> i);
        sha256_add(hash, &byte, 1);
    }
    for (int i = 0; i < 8; i++)
        snprintf(out + 8 * i, 9, "%08x", hash->state[i]);
}
