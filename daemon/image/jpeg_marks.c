#include "image/jpeg_marks.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "image/jpeg_sum.h"
#include "image/simd.h"

#define VERSION 1                     /* seeds the sum of an entry */
#define PICTURE_MAX ((size_t)1 << 28) /* bytes, so that a bit has a number of 32 */

enum {
    SLACK = 8,        /* behind the marks, for loads of 64 bits */
    WIDTH_MAX = 56,   /* bits of a mark that one such load holds, from any bit of a byte on */
    WIDTH_GUESS = 45, /* of photographs */
    WIDTH_LEAST = 24, /* hardly any picture's take fewer */
    ZEROS_GUESS = 4,  /* bits of the zeros of a mark */
    FINER = 3,        /* marks recorded for each that is likely kept */
    MERGED_MOST = 12, /* of those, for each that is kept */
    STEP_MAX = UINT16_MAX,
    DISTANCE_UNIT = 256,
};

struct jpeg_marks {
    const struct jpeg_sum *sum;
    struct jpeg_marks_entry *entry;
    const uint8_t *bytes;
    size_t size, room; /* of the picture; of an entry */
    const uint8_t *data;
    size_t scan; /* bytes from data on */
    uint32_t mcus, components;
    uint64_t picture; /* sum of the bytes */
    bool summed;
    struct jpeg_marks_head head; /* of the entry; count 0: none */
    uint32_t width;
    uint32_t step;         /* recorded every so many MCUs */
    uint32_t at;           /* marks gone over by find and pass */
    struct jpeg_mark mark; /* the last of these */
    uint32_t recorded;     /* in the list, those of the entry included */
    struct jpeg_mark list[JPEG_MARKS_MOST];
};

struct jpeg_marks *jpeg_marks_new(void)
{
    struct jpeg_marks *marks = mem_new(sizeof *marks);
    marks->sum = &jpeg_sum_plain;
#ifdef SIMD_X86
    if (simd_level() >= SIMD_AVX2)
        marks->sum = &jpeg_sum_avx2;
#endif
    return marks;
}

void jpeg_marks_free(struct jpeg_marks *marks)
{
    free(marks);
}

static uint64_t sum_of(const struct jpeg_marks *marks)
{
    return marks->sum->sum(marks->bytes, marks->size);
}

static size_t entry_bytes(uint32_t count, uint32_t width)
{
    return sizeof(struct jpeg_marks_head) + ((size_t)count * width + 7) / 8 + SLACK;
}

static uint64_t check_of(const uint8_t *entry, uint32_t count, uint32_t width)
{
    return XXH3_64bits_withSeed(entry + sizeof(uint64_t),
                                entry_bytes(count, width) - sizeof(uint64_t), VERSION);
}

static uint32_t width_of(const struct jpeg_marks_head *head)
{
    uint32_t width = 0;
    for (int f = 0; f < JPEG_MARKS_FIELDS; f++)
        width += head->bits[f];
    return width;
}

/* ------- reading ------- */

static bool is_sound(const struct jpeg_marks *marks, const struct jpeg_marks_head *head)
{
    uint32_t width = width_of(head);
    return head->step && width && width <= WIDTH_MAX &&
           head->count <= (marks->mcus - 1) / head->step && head->count <= JPEG_MARKS_MOST &&
           entry_bytes(head->count, width) <= marks->room &&
           head->check == check_of(marks->entry->bytes, head->count, width);
}

/* An entry is looked at whole before anything in it is trusted. */
static void take_up(struct jpeg_marks *marks)
{
    struct jpeg_marks_head head;
    memcpy(&head, marks->entry->bytes, sizeof head);
    if (!head.count && !head.check)
        return;
    marks->entry->wrong = true;
    if (!head.count || !is_sound(marks, &head))
        return;
    marks->picture = sum_of(marks);
    marks->summed = true;
    if (head.picture != marks->picture)
        return;
    marks->entry->wrong = false;
    marks->entry->used = true;
    marks->head = head;
    marks->width = width_of(&head);
    marks->step = head.step;
    marks->recorded = head.count;
}

/* Finer than will be kept, so that the entry can fill its room; no more than the list holds. */
static uint32_t first_step(const struct jpeg_marks *marks)
{
    uint32_t kept =
        (uint32_t)(8 * (marks->room - sizeof(struct jpeg_marks_head) - SLACK) / WIDTH_GUESS);
    uint32_t wanted = kept * FINER;
    if (wanted > JPEG_MARKS_MOST)
        wanted = JPEG_MARKS_MOST;
    uint32_t step = wanted ? (marks->mcus + wanted - 1) / wanted : STEP_MAX;
    return step ? step : 1;
}

static void begin_anew(struct jpeg_marks *marks)
{
    marks->head.count = 0;
    marks->step = first_step(marks);
    marks->recorded = 0;
    marks->at = 0;
    marks->mark = (struct jpeg_mark){0};
}

bool jpeg_marks_begin(struct jpeg_marks *marks, struct jpeg_marks_entry *entry,
                      const struct jpeg_header *header, const uint8_t *bytes, size_t size)
{
    if (header->restart || size > PICTURE_MAX || entry->room <= entry_bytes(0, 0))
        return false;
    marks->entry = entry;
    marks->bytes = bytes;
    marks->size = size;
    marks->data = header->data;
    marks->scan = (size_t)(header->end - header->data);
    marks->components = header->components;
    marks->mcus = jpeg_header_mcus(header);
    marks->room = entry->room < JPEG_MARKS_ROOM ? entry->room : JPEG_MARKS_ROOM;
    marks->summed = false;
    begin_anew(marks);
    take_up(marks);
    return true;
}

bool jpeg_marks_forget(struct jpeg_marks *marks)
{
    if (!marks->entry->used)
        return false;
    marks->entry->used = false;
    marks->entry->wrong = true;
    memset(marks->entry->bytes, 0, sizeof(struct jpeg_marks_head));
    begin_anew(marks);
    return true;
}

static uint64_t load(const struct jpeg_marks *marks, uint32_t number)
{
    uint64_t bit = (uint64_t)number * marks->width, word;
    memcpy(&word, marks->entry->bytes + sizeof(struct jpeg_marks_head) + bit / 8, sizeof word);
    return word >> bit % 8;
}

static uint32_t take(uint64_t *word, uint32_t bits)
{
    uint32_t value = (uint32_t)(*word & ((UINT64_C(1) << bits) - 1));
    *word >>= bits;
    return value;
}

/* Goes on to mark `number` of the entry, which is not one gone over before the last. */
static void go_to(struct jpeg_marks *marks, uint32_t number)
{
    const struct jpeg_marks_head *head = &marks->head;
    struct jpeg_mark *mark = &marks->mark;
    uint64_t word = 0;
    if (number < marks->at)
        return;
    for (; marks->at <= number; marks->at++) {
        word = load(marks, marks->at);
        mark->bit += (uint32_t)head->base[0] * DISTANCE_UNIT + take(&word, head->bits[0]);
        mark->zeros += take(&word, head->bits[1]);
    }
    for (uint32_t c = 0; c < JPEG_COMPONENTS; c++)
        mark->dc[c] = (int16_t)(head->base[1 + c] + take(&word, head->bits[2 + c]));
}

const struct jpeg_mark *jpeg_marks_find(struct jpeg_marks *marks, uint32_t from, uint32_t *mcu)
{
    uint32_t count = marks->head.count, number = *mcu / marks->step;
    if (!count)
        return NULL;
    number = number < count ? number : count;
    if (number * marks->step <= from)
        return NULL;
    *mcu = number * marks->step;
    go_to(marks, number - 1);
    return &marks->mark;
}

uint32_t jpeg_marks_next(const struct jpeg_marks *marks, uint32_t mcu)
{
    uint32_t next = mcu - mcu % marks->step + marks->step;
    return next < marks->mcus ? next : marks->mcus;
}

static bool is_same(const struct jpeg_marks *marks, uint64_t bit, const int32_t *dc)
{
    bool same = marks->mark.bit == bit;
    for (uint32_t c = 0; c < marks->components; c++)
        same &= marks->mark.dc[c] == dc[c];
    return same;
}

bool jpeg_marks_pass(struct jpeg_marks *marks, uint32_t mcu, uint64_t bit, const int32_t *dc)
{
    uint32_t number = mcu / marks->step - 1;
    if (number < marks->head.count) {
        go_to(marks, number);
        return is_same(marks, bit, dc);
    }
    if (number == marks->recorded && number < JPEG_MARKS_MOST) {
        struct jpeg_mark *mark = &marks->list[marks->recorded++];
        *mark = (struct jpeg_mark){.bit = (uint32_t)bit};
        for (uint32_t c = 0; c < marks->components; c++)
            mark->dc[c] = (int16_t)dc[c];
    }
    return true;
}

/* ------- writing ------- */

struct packing {
    struct jpeg_marks_head head;
    uint32_t width;
};

struct extent {
    int64_t least, most;
};

static void widen(struct extent *extent, int64_t value)
{
    extent->least = value < extent->least ? value : extent->least;
    extent->most = value > extent->most ? value : extent->most;
}

static uint8_t bits_for(int64_t value)
{
    return value > 0 ? (uint8_t)(64 - __builtin_clzll((unsigned long long)value)) : 0;
}

/* In the order of an entry's fields. */
static void fields_of(const struct jpeg_mark *mark, const struct jpeg_mark *before,
                      int64_t out[JPEG_MARKS_FIELDS])
{
    out[0] = (int64_t)mark->bit - before->bit;
    out[1] = (int64_t)mark->zeros - before->zeros;
    for (int c = 0; c < JPEG_COMPONENTS; c++)
        out[2 + c] = mark->dc[c];
}

/* Widths and bases of every `every`th mark of the list. false: none that can be packed. */
static bool measure(const struct jpeg_marks *marks, uint32_t every, struct packing *packing)
{
    struct extent extent[JPEG_MARKS_FIELDS];
    struct jpeg_mark before = {0};
    for (int f = 0; f < JPEG_MARKS_FIELDS; f++)
        extent[f] = (struct extent){INT64_MAX, INT64_MIN};
    for (uint32_t i = every; i <= marks->recorded; i += every) {
        int64_t fields[JPEG_MARKS_FIELDS];
        const struct jpeg_mark *mark = &marks->list[i - 1];
        fields_of(mark, &before, fields);
        for (int f = 0; f < JPEG_MARKS_FIELDS; f++)
            widen(&extent[f], fields[f]);
        before = *mark;
    }
    struct jpeg_marks_head *head = &packing->head;
    int64_t units = extent[0].least / DISTANCE_UNIT;
    head->base[0] = (uint16_t)(units < UINT16_MAX ? units : UINT16_MAX);
    head->bits[0] = bits_for(extent[0].most - (int64_t)head->base[0] * DISTANCE_UNIT);
    head->bits[1] = bits_for(extent[1].most);
    for (int c = 0; c < JPEG_COMPONENTS; c++) {
        head->base[1 + c] = (uint16_t)extent[2 + c].least;
        head->bits[2 + c] = bits_for(extent[2 + c].most - extent[2 + c].least);
    }
    packing->width = width_of(head);
    return extent[0].least >= 0 && extent[1].least >= 0 && packing->width &&
           packing->width <= WIDTH_MAX;
}

/* Zeros stuffed before each mark, from the bytes of the scan. What one finds leads further on.
 * false: an entry that cannot be of this picture had led beyond its end. */
static bool count_zeros(struct jpeg_marks *marks, uint32_t first)
{
    uint32_t zeros = first ? marks->list[first - 1].zeros : 0;
    uint32_t at = first ? marks->list[first - 1].bit / 8 + zeros : 0;
    for (uint32_t i = first; i < marks->recorded; i++) {
        for (uint32_t to; (to = marks->list[i].bit / 8 + zeros) > at; at = to) {
            if (to > marks->scan)
                return false;
            zeros += (uint32_t)marks->sum->fills(marks->data + at, to - at);
        }
        marks->list[i].zeros = zeros;
    }
    return true;
}

/* How many marks to make one, so that those of the whole picture just fit, if the rest of it is
 * like what was seen; zeros are not counted yet. 0: in no way. */
static uint32_t choose(const struct jpeg_marks *marks, struct packing *packing)
{
    uint32_t width = WIDTH_LEAST;
    for (uint32_t every = 1; every <= MERGED_MOST && every <= marks->recorded; every++) {
        uint32_t step = every * marks->step, all = (marks->mcus - 1) / step;
        if (step > STEP_MAX)
            return 0;
        /* A mark takes no fewer bits where there are fewer of them, or hardly. */
        if (entry_bytes(all, width) > marks->room || !measure(marks, every, packing))
            continue;
        width = packing->width + ZEROS_GUESS;
        if (entry_bytes(all, width) <= marks->room)
            return every;
    }
    return 0;
}

static void thin(struct jpeg_marks *marks, uint32_t every)
{
    marks->step *= every;
    marks->recorded /= every;
    for (uint32_t i = 0; i < marks->recorded; i++)
        marks->list[i] = marks->list[(i + 1) * every - 1];
}

static void store(uint8_t *at, uint64_t bit, uint64_t value)
{
    uint64_t word;
    memcpy(&word, at + bit / 8, sizeof word);
    word |= value << bit % 8;
    memcpy(at + bit / 8, &word, sizeof word);
}

static void write_marks(const struct jpeg_marks *marks, const struct packing *packing)
{
    const struct jpeg_marks_head *head = &packing->head;
    uint8_t *at = marks->entry->bytes + sizeof *head;
    struct jpeg_mark before = {0};
    for (uint32_t i = 0; i < head->count; i++) {
        int64_t fields[JPEG_MARKS_FIELDS];
        const struct jpeg_mark *mark = &marks->list[i];
        uint64_t word = 0;
        uint32_t shift = 0;
        fields_of(mark, &before, fields);
        fields[0] -= (int64_t)head->base[0] * DISTANCE_UNIT;
        for (int c = 0; c < JPEG_COMPONENTS; c++)
            fields[2 + c] -= (int16_t)head->base[1 + c];
        for (int f = 0; f < JPEG_MARKS_FIELDS; shift += head->bits[f], f++)
            word |= (uint64_t)fields[f] << shift;
        store(at, (uint64_t)i * packing->width, word);
        before = *mark;
    }
}

static void write_entry(struct jpeg_marks *marks, struct packing *packing)
{
    struct jpeg_marks_entry *entry = marks->entry;
    struct jpeg_marks_head *head = &packing->head;
    head->picture = marks->summed ? marks->picture : sum_of(marks);
    memset(entry->bytes, 0, entry->room);
    write_marks(marks, packing);
    memcpy(entry->bytes, head, sizeof *head);
    head->check = check_of(entry->bytes, head->count, packing->width);
    memcpy(entry->bytes, &head->check, sizeof head->check);
    entry->changed = true;
}

static void unpack_all(struct jpeg_marks *marks)
{
    marks->at = 0;
    marks->mark = (struct jpeg_mark){0};
    for (uint32_t i = 0; i < marks->head.count; i++) {
        go_to(marks, i);
        marks->list[i] = marks->mark;
    }
}

void jpeg_marks_keep(struct jpeg_marks *marks)
{
    struct packing packing = {0};
    uint32_t had = marks->head.count, every = 1;
    if (marks->recorded <= had)
        return;
    if (had)
        unpack_all(marks);
    else
        every = choose(marks, &packing);
    if (!every)
        return;
    thin(marks, every);
    if (!count_zeros(marks, had) || !measure(marks, 1, &packing))
        return;
    uint32_t room = (uint32_t)(8 * (marks->room - entry_bytes(0, 0)) / packing.width);
    packing.head.step = (uint16_t)marks->step;
    packing.head.count = (uint16_t)(marks->recorded < room ? marks->recorded : room);
    if (packing.head.count > had)
        write_entry(marks, &packing);
}
