#include "base/philox.h"

enum { ROUNDS = 10 };

static void philox_round(uint32_t counter[4], const uint32_t key[2])
{
    uint64_t first = (uint64_t)counter[0] * 0xD2511F53U;
    uint64_t second = (uint64_t)counter[2] * 0xCD9E8D57U;
    counter[0] = (uint32_t)(second >> 32) ^ counter[1] ^ key[0];
    counter[1] = (uint32_t)second;
    counter[2] = (uint32_t)(first >> 32) ^ counter[3] ^ key[1];
    counter[3] = (uint32_t)first;
}

void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t round_key[2] = {key[0], key[1]};
    for (int i = 0; i < 4; i++)
        out[i] = counter[i];
    for (int round = 0; round < ROUNDS; round++) {
        philox_round(out, round_key);
        round_key[0] += 0x9E3779B9U; /* the golden ratio */
        round_key[1] += 0xBB67AE85U; /* the square root of 3, less 1 */
    }
}

void philox_start(struct philox *stream, uint64_t seed, enum philox_purpose purpose, uint64_t epoch,
                  uint32_t lane, uint64_t block)
{
    *stream = (struct philox){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, (uint32_t)block, (uint32_t)(block >> 32 & 0xFFFF) | lane << 16,
                    (uint32_t)purpose << 24 | (uint32_t)(epoch & 0xFFFFFF)},
        .used = 4,
    };
}

uint32_t philox_u32(struct philox *stream)
{
    if (stream->used == 4) {
        philox_block(stream->counter, stream->key, stream->out);
        stream->counter[0]++;
        stream->used = 0;
    }
    return stream->out[stream->used++];
}

uint64_t philox_u64(struct philox *stream)
{
    uint64_t low = philox_u32(stream);
    return (uint64_t)philox_u32(stream) << 32 | low;
}

static uint64_t below_32(struct philox *stream, uint64_t n)
{
    uint64_t product = philox_u32(stream) * n;
    if ((uint32_t)product < n) {
        uint64_t rejected = (1ULL << 32) % n;
        while ((uint32_t)product < rejected)
            product = philox_u32(stream) * n;
    }
    return product >> 32;
}

static uint64_t below_64(struct philox *stream, uint64_t n)
{
    unsigned __int128 product = (unsigned __int128)philox_u64(stream) * n;
    if ((uint64_t)product < n) {
        uint64_t rejected = -n % n; /* 2^64 mod n */
        while ((uint64_t)product < rejected)
            product = (unsigned __int128)philox_u64(stream) * n;
    }
    return (uint64_t)(product >> 64);
}

uint64_t philox_below(struct philox *stream, uint64_t n)
{
    return n <= 1ULL << 32 ? below_32(stream, n) : below_64(stream, n);
}

double philox_unit(struct philox *stream)
{
    return (double)(philox_u64(stream) >> 11) * 0x1p-53;
}

void philox_permute(struct philox *stream, uint32_t *items, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)philox_below(stream, i);
        uint32_t last = items[i - 1];
        items[i - 1] = items[j];
        items[j] = last;
    }
}
