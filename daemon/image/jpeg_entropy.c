#include "image/jpeg_entropy.h"

#include "image/simd.h"

enum { HITS = 2 }; /* look-ups that one refill is enough for: of 10 bits and a value of 15 */

#define inline_always static inline __attribute__((always_inline))
#define rarely(condition) __builtin_expect(condition, 0)

/* The entry of a code beyond the look-up; 0: no such code. */
inline_always uint32_t long_entry(const struct jpeg_reader *reader,
                                  const struct jpeg_huffman *huffman)
{
    int32_t top = (int32_t)jpeg_reader_peek(reader, 16);
    uint32_t length = JPEG_LOOK + 1;
    while (length <= 16 && top >= huffman->bound[length])
        length++;
    if (length > 16)
        return 0;
    int32_t number = (top >> (16 - length)) + huffman->delta[length];
    return jpeg_huffman_entry(length, huffman->symbols[number], huffman->ac);
}

/* The value of a code, and both are eaten. A value that begins with 0 is negative. */
inline_always int32_t take_value(struct jpeg_reader *reader, uint32_t entry)
{
    uint64_t bits = reader->word << (entry >> 8 & 63), negative = ~bits >> 63;
    jpeg_reader_eat(reader, entry & 0xFF);
    return (int32_t)((int64_t)(bits >> 1 | negative << 63) >> (entry >> 24)) + (int32_t)negative;
}

inline_always bool take_dc(struct jpeg_reader *reader, const struct jpeg_huffman *huffman,
                           int32_t *predicted)
{
    jpeg_reader_fill(reader);
    uint32_t entry = huffman->entry[jpeg_reader_peek(reader, JPEG_LOOK)];
    if (rarely(!entry))
        entry = long_entry(reader, huffman);
    if (rarely(!entry))
        return false;
    *predicted += take_value(reader, entry);
    return *predicted == (int16_t)*predicted;
}

/* Where a block ends: at its last coefficient, or far beyond by an end of block. */
inline_always bool ends_well(uint32_t k)
{
    return k == JPEG_BLOCK || k > JPEG_RUN_END;
}

/* One symbol of any length, and the coefficient after it. Returns the number of the next one. */
inline_always uint32_t take_one(struct jpeg_reader *reader, const struct jpeg_huffman *huffman,
                                uint32_t k, int16_t *block)
{
    jpeg_reader_fill(reader);
    uint32_t entry = huffman->entry[jpeg_reader_peek(reader, JPEG_LOOK)];
    if (!entry)
        entry = long_entry(reader, huffman);
    if (!entry)
        return JPEG_BLOCK + 1; /* ends badly */
    k += entry >> 16 & 0xFF;
    block[jpeg_natural[k]] = (int16_t)take_value(reader, entry);
    return k + 1;
}

inline_always uint32_t take_block(struct jpeg_reader *reader, const struct jpeg_huffman *huffman,
                                  int16_t *block)
{
    uint32_t k = 1;
    while (k < JPEG_BLOCK) {
        jpeg_reader_fill(reader);
#pragma GCC unroll 2
        for (int i = 0; i < HITS; i++) {
            uint32_t entry = huffman->entry[jpeg_reader_peek(reader, JPEG_LOOK)];
            if (rarely(!entry)) {
                k = take_one(reader, huffman, k, block);
                break;
            }
            k += entry >> 16 & 0xFF;
            block[jpeg_natural[k++]] = (int16_t)take_value(reader, entry);
            if (k >= JPEG_BLOCK)
                break;
        }
    }
    return k;
}

/* An entry may hold symbols of the next block, so the last ones of a full block go one by one. */
inline_always uint32_t skip_block(struct jpeg_reader *reader, const struct jpeg_huffman *huffman)
{
    int16_t nowhere[JPEG_BLOCK_ROOM];
    uint32_t k = 1;
    while (k < JPEG_BLOCK) {
        jpeg_reader_fill(reader);
        for (int i = 0; i < HITS; i++) {
            uint32_t entry = huffman->skip[jpeg_reader_peek(reader, JPEG_LOOK)];
            uint32_t places = entry >> 8 & (JPEG_SKIP_END - 1);
            if (rarely(!entry || k + places >= JPEG_BLOCK)) {
                k = take_one(reader, huffman, k, nowhere);
                break;
            }
            jpeg_reader_eat(reader, entry & 0xFF);
            k += places;
            if (entry & JPEG_SKIP_END << 8)
                return JPEG_RUN_END + 1;
        }
    }
    return k;
}

/* In pieces that are a store each, where the compiler would take a slow instruction for all. */
inline_always void clear(int16_t *block)
{
#pragma GCC unroll 8
    for (int i = 0; i < JPEG_BLOCK; i += 8)
        memset(block + i, 0, 8 * sizeof *block);
}

inline_always bool read_mcu(struct jpeg_entropy *entropy, uint32_t want,
                            int16_t (*coefficients)[JPEG_BLOCK_ROOM], uint32_t *busy)
{
    struct jpeg_reader reader = entropy->bits.reader;
    bool sound = true;
    uint32_t many = 0;
    for (uint32_t b = 0; b < entropy->blocks; b++) {
        const struct jpeg_entropy_block *block = &entropy->block[b];
        int32_t *predicted = &entropy->predicted[block->component];
        sound &= take_dc(&reader, block->dc, predicted);
        uint32_t k;
        if (want >> b & 1) {
            clear(coefficients[b]);
            coefficients[b][0] = (int16_t)*predicted;
            k = take_block(&reader, block->ac, coefficients[b]);
            many |= (uint32_t)(k != JPEG_RUN_END + 2) << b;
        } else {
            k = skip_block(&reader, block->ac);
        }
        sound &= ends_well(k);
    }
    entropy->bits.reader = reader;
    *busy = many;
    return sound;
}

static bool read_plain(struct jpeg_entropy *entropy, uint32_t want,
                       int16_t (*coefficients)[JPEG_BLOCK_ROOM], uint32_t *busy)
{
    return read_mcu(entropy, want, coefficients, busy);
}

#ifdef SIMD_X86
/* Shifts by a variable are what the time goes into. */
__attribute__((target("bmi2"))) static bool read_bmi2(struct jpeg_entropy *entropy, uint32_t want,
                                                      int16_t (*coefficients)[JPEG_BLOCK_ROOM],
                                                      uint32_t *busy)
{
    return read_mcu(entropy, want, coefficients, busy);
}
#endif

static bool pass_restart(struct jpeg_entropy *entropy)
{
    struct jpeg_bits *bits = &entropy->bits;
    if (entropy->restarts == entropy->restarts_end || !jpeg_bits_over(bits) ||
        !jpeg_bits_restart(bits, entropy->restarts))
        return false;
    entropy->restarts++;
    entropy->left = entropy->interval;
    memset(entropy->predicted, 0, sizeof entropy->predicted);
    return true;
}

static void stop_next(struct jpeg_entropy *entropy, uint32_t mcu)
{
    entropy->stop = jpeg_marks_next(entropy->marks, mcu);
    entropy->left = entropy->stop - mcu;
}

static bool pass_mark(struct jpeg_entropy *entropy)
{
    uint32_t mcu = entropy->stop;
    if (mcu == entropy->mcus ||
        !jpeg_marks_pass(entropy->marks, mcu, jpeg_bits_position(&entropy->bits),
                         entropy->predicted))
        return false;
    stop_next(entropy, mcu);
    return true;
}

/* To the last mark before what comes after so many MCUs, where that is ahead. */
static bool jump(struct jpeg_entropy *entropy, uint64_t *mcus)
{
    uint32_t here = entropy->stop - entropy->left, to = here + (uint32_t)*mcus, mcu = to;
    const struct jpeg_mark *mark = jpeg_marks_find(entropy->marks, here, &mcu);
    if (!mark)
        return true;
    if (!jpeg_bits_seek(&entropy->bits, entropy->data, mark->bit, mark->zeros))
        return false;
    for (int c = 0; c < JPEG_COMPONENTS; c++)
        entropy->predicted[c] = mark->dc[c];
    stop_next(entropy, mcu);
    *mcus = to - mcu;
    return true;
}

/* Goes over a restart marker where one is due, and makes ready. */
static bool begin_mcu(struct jpeg_entropy *entropy)
{
    struct jpeg_bits *bits = &entropy->bits;
    if (rarely(entropy->left == 0) &&
        !(entropy->marks ? pass_mark(entropy) : pass_restart(entropy)))
        return false;
    entropy->left--;
    return jpeg_bits_ready(bits) || jpeg_bits_more(bits);
}

bool jpeg_entropy_read(struct jpeg_entropy *entropy, uint32_t want,
                       int16_t (*coefficients)[JPEG_BLOCK_ROOM], uint32_t *busy)
{
    return begin_mcu(entropy) && entropy->read(entropy, want, coefficients, busy);
}

bool jpeg_entropy_skip(struct jpeg_entropy *entropy, uint64_t mcus)
{
    uint32_t busy;
    if (entropy->marks && !jump(entropy, &mcus))
        return false;
    while (mcus) {
        if (entropy->left && mcus >= entropy->left && entropy->restarts < entropy->restarts_end) {
            mcus -= entropy->left;
            entropy->left = 0;
            if (!jpeg_bits_sound(&entropy->bits) || !jpeg_bits_jump(&entropy->bits))
                return false;
        } else {
            mcus--;
            if (!begin_mcu(entropy) || !entropy->read(entropy, 0, NULL, &busy))
                return false;
        }
    }
    return true;
}

bool jpeg_entropy_finish(struct jpeg_entropy *entropy, bool whole)
{
    struct jpeg_bits *bits = &entropy->bits;
    return (whole ? jpeg_bits_over(bits) : jpeg_bits_sound(bits)) &&
           jpeg_bits_tail(bits, entropy->restarts, entropy->restarts_end);
}

static bool make_blocks(struct jpeg_entropy *entropy, const struct jpeg_header *header)
{
    entropy->blocks = 0;
    for (uint32_t c = 0; c < header->components; c++) {
        const struct jpeg_component *component = &header->component[c];
        struct jpeg_huffman *dc = &entropy->huffman[0][component->dc];
        struct jpeg_huffman *ac = &entropy->huffman[1][component->ac];
        if (!jpeg_huffman_make(dc, &header->code[0][component->dc], false) ||
            !jpeg_huffman_make(ac, &header->code[1][component->ac], true))
            return false;
        for (int i = 0; i < component->h * component->v; i++)
            entropy->block[entropy->blocks++] = (struct jpeg_entropy_block){dc, ac, c};
    }
    return true;
}

bool jpeg_entropy_start(struct jpeg_entropy *entropy, const struct jpeg_header *header,
                        uint32_t mcus)
{
    entropy->read = read_plain;
#ifdef SIMD_X86
    if (__builtin_cpu_supports("bmi2"))
        entropy->read = read_bmi2;
#endif
    entropy->interval = header->restart ? header->restart : mcus;
    entropy->left = entropy->interval;
    entropy->restarts = 0;
    entropy->restarts_end = (mcus - 1) / entropy->interval;
    entropy->marks = NULL;
    entropy->mcus = mcus;
    entropy->data = header->data;
    memset(entropy->predicted, 0, sizeof entropy->predicted);
    jpeg_bits_start(&entropy->bits, header->data, header->end);
    return make_blocks(entropy, header);
}

void jpeg_entropy_mark(struct jpeg_entropy *entropy, struct jpeg_marks *marks)
{
    entropy->marks = marks;
    stop_next(entropy, 0);
}
