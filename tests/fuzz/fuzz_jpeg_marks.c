/* Marks of a JPEG from outside: whatever the bytes of an entry say, boxes have the pixels that
 * libjpeg-turbo decodes; and with the sums put right, which only our own records have, a wrong one
 * may cost pixels but nothing else. Input: a seed, the length of the entry and the entry, or
 * changes of a recorded one; then a JPEG, or else a recipe for one, followed by changes of its
 * bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "image/jpeg.h"
#include "image/jpeg_marks.h"
#include "jpeg_maker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 3, RECIPE = 6, CHANGE = 3, PIXELS_MAX = 1 << 17, BOXES = 4, ROOM = 1024, SLACK = 8 };

struct input {
    const uint8_t *data;
    size_t size;
};

static struct jpeg_image *image;
static uint8_t *whole, *part, *room;
static uint32_t state;

static uint32_t below(int32_t n)
{
    state = state * 1664525U + 1013904223U;
    return (uint32_t)((uint64_t)(state >> 8) * (uint32_t)n >> 24);
}

static struct input take(struct input *input, size_t size)
{
    struct input taken = {input->data, size < input->size ? size : input->size};
    input->data += taken.size;
    input->size -= taken.size;
    return taken;
}

/* box: NULL for the whole picture; entry: NULL for libjpeg-turbo. */
static bool run(const struct input *jpeg, const struct jpeg_box *box,
                struct jpeg_marks_entry *entry, uint8_t *dst, struct jpeg_image_header *header)
{
    bool done =
        jpeg_image_open(image, jpeg->data, jpeg->size, entry ? JPEG_AUTO : JPEG_TURBO, header) &&
        (uint64_t)header->width * (uint64_t)header->height <= PIXELS_MAX;
    if (done) {
        const struct jpeg_box all = {0, 0, header->width, header->height};
        box = box ? box : &all;
        if (entry)
            jpeg_image_mark(image, entry);
        done = jpeg_image_read(image, box, dst, 3 * (size_t)box->width);
    }
    jpeg_image_close(image);
    return done;
}

static struct jpeg_box draw_box(const struct jpeg_image_header *header)
{
    struct jpeg_box box = {.width = 1 + (int32_t)below(header->width),
                           .height = 1 + (int32_t)below(header->height)};
    box.x = (int32_t)below(header->width - box.width + 1);
    box.y = (int32_t)below(header->height - box.height + 1);
    return box;
}

static void check_box(const struct input *jpeg, const struct jpeg_image_header *header,
                      struct jpeg_marks_entry *entry)
{
    struct jpeg_image_header again;
    struct jpeg_box box = draw_box(header);
    size_t row = 3 * (size_t)box.width, stride = 3 * (size_t)header->width;
    if (!run(jpeg, &box, entry, part, &again))
        abort();
    for (int32_t y = 0; y < box.height; y++)
        if (memcmp(part + (size_t)y * row, whole + (size_t)(box.y + y) * stride + 3 * (size_t)box.x,
                   row) != 0)
            abort();
}

static void change(uint8_t *bytes, size_t size, struct input changes)
{
    for (; changes.size >= CHANGE; take(&changes, CHANGE))
        bytes[((size_t)changes.data[0] << 8 | changes.data[1]) % size] ^= changes.data[2];
}

/* As if it had been recorded from these bytes. */
static void seal(const struct input *jpeg, size_t bytes)
{
    struct jpeg_marks_head head;
    size_t width = 0;
    memcpy(&head, room, sizeof head);
    for (int f = 0; f < JPEG_MARKS_FIELDS; f++)
        width += head.bits[f];
    size_t length = sizeof head + (head.count * width + 7) / 8 + SLACK;
    head.picture = XXH3_64bits(jpeg->data, jpeg->size);
    memcpy(room, &head, sizeof head);
    if (length > bytes)
        return;
    head.check = XXH3_64bits_withSeed(room + sizeof head.check, length - sizeof head.check, 1);
    memcpy(room, &head, sizeof head);
}

static void compare(const struct input *jpeg, struct input entry_bytes, bool recorded)
{
    struct jpeg_image_header header;
    struct jpeg_marks_entry entry = {.bytes = room, .room = 1 + below(ROOM)};
    if (!run(jpeg, NULL, NULL, whole, &header))
        return;
    memset(room, 0, ROOM);
    if (recorded) {
        check_box(jpeg, &header, &entry);
        change(room, entry.room, entry_bytes);
    } else {
        memcpy(room, entry_bytes.data,
               entry_bytes.size < entry.room ? entry_bytes.size : entry.room);
    }
    for (int i = 0; i < BOXES; i++)
        check_box(jpeg, &header, &entry);
    change(room, entry.room, entry_bytes);
    if (entry.room < sizeof(struct jpeg_marks_head))
        return;
    struct jpeg_box box = draw_box(&header);
    seal(jpeg, entry.room);
    if (!run(jpeg, &box, &entry, part, &header))
        abort();
}

static void compare_made(struct input input, struct input entry_bytes, bool recorded)
{
    struct input jpeg, head = take(&input, RECIPE);
    const uint8_t *data = head.data;
    struct jpeg_recipe recipe = {.width = 1 + data[0] * 2U,
                                 .height = 1 + data[1] * 2U,
                                 .colour = (enum jpeg_maker_colour)(data[2] % 3),
                                 .h_samp = 1 + data[3] % 2,
                                 .v_samp = 1 + data[3] / 2 % 2,
                                 .quality = 1 + data[4] % 100,
                                 .optimize = data[3] & 4,
                                 .flat = data[3] & 8,
                                 .seed = data[5]};
    uint8_t *bytes = jpeg_maker_make(&recipe, &jpeg.size);
    change(bytes, jpeg.size, input);
    jpeg.data = bytes;
    compare(&jpeg, entry_bytes, recorded);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!image) {
        image = jpeg_image_new();
        whole = malloc(3 * (size_t)PIXELS_MAX);
        part = malloc(3 * (size_t)PIXELS_MAX);
        room = malloc(ROOM);
    }
    struct input input = {data, size};
    struct input head = take(&input, HEAD);
    if (head.size < HEAD)
        return 0;
    state = head.data[0];
    struct input entry = take(&input, (size_t)(head.data[1] | (head.data[2] & 3) << 8));
    bool recorded = head.data[2] & 4;
    if (input.size >= 2 && input.data[0] == 0xFF && input.data[1] == 0xD8)
        compare(&input, entry, recorded);
    else if (input.size >= RECIPE)
        compare_made(input, entry, recorded);
    return 0;
}
