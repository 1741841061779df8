#include "client/ctl/ctl_sheet.h"

#include <errno.h>
#include <math.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>

#define BACKGROUND 32
#define INK 230
#define FRAME 4U
#define DIGIT_WIDTH 3
#define DIGIT_HEIGHT 5
#define DIGIT_SCALE 2U

/* 3 x 5 dots a character, rows from the top, the left dot is the highest bit. */
static const uint8_t font[][DIGIT_HEIGHT] = {
    {7, 5, 5, 5, 7}, {2, 6, 2, 2, 7}, {7, 1, 7, 4, 7}, {7, 1, 7, 1, 7},
    {5, 5, 7, 1, 1}, {7, 4, 7, 1, 7}, {7, 4, 7, 5, 7}, {7, 1, 1, 1, 1},
    {7, 5, 7, 5, 7}, {7, 5, 7, 1, 7}, {0, 0, 7, 0, 0}, /* minus */
};
#define MINUS 10

static float half_to_float(uint16_t half)
{
    float sign = half & 0x8000 ? -1.0F : 1.0F;
    int exponent = half >> 10 & 0x1F, mantissa = half & 0x3FF;
    if (exponent == 0)
        return sign * ldexpf((float)mantissa, -24);
    if (exponent == 31)
        return mantissa ? NAN : sign * INFINITY;
    return sign * ldexpf((float)(mantissa | 0x400), exponent - 25);
}

static float bfloat_to_float(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static size_t value_bytes(dataload_dtype dtype)
{
    switch (dtype) {
    case DATALOAD_UINT8:
        return 1;
    case DATALOAD_FLOAT16:
    case DATALOAD_BFLOAT16:
        return 2;
    case DATALOAD_FLOAT32:
        return 4;
    default:
        return 0;
    }
}

static float value_at(const struct sheet_source *source, size_t index)
{
    uint16_t half;
    float value;
    switch (source->dtype) {
    case DATALOAD_FLOAT16:
        memcpy(&half, (const uint8_t *)source->pixels + index * 2, 2);
        return half_to_float(half);
    case DATALOAD_BFLOAT16:
        memcpy(&half, (const uint8_t *)source->pixels + index * 2, 2);
        return bfloat_to_float(half);
    case DATALOAD_FLOAT32:
        memcpy(&value, (const uint8_t *)source->pixels + index * 4, 4);
        return value;
    default:
        return (float)((const uint8_t *)source->pixels)[index] / 255.0F;
    }
}

/* How values of one image become 0..255. */
struct range {
    float low, high;
};

static struct range range_of(const struct sheet_source *source, size_t first, size_t values)
{
    struct range range = {0, 1};
    for (size_t i = 0; source->dtype != DATALOAD_UINT8 && i < values; i++) {
        float value = value_at(source, first + i);
        if (isfinite(value)) {
            range.low = fminf(range.low, value);
            range.high = fmaxf(range.high, value);
        }
    }
    return range;
}

static uint8_t to_byte(float value, struct range range)
{
    double scaled = ((double)value - range.low) / ((double)range.high - range.low) * 255 + 0.5;
    return scaled >= 255 ? 255 : scaled > 0 ? (uint8_t)scaled : 0; /* NaN gives 0 */
}

static uint8_t *pixel_at(const struct sheet *sheet, uint32_t x, uint32_t y)
{
    return sheet->rgb + ((size_t)y * sheet->width + x) * 3;
}

static void fill(const struct sheet *sheet, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                 const uint8_t colour[3])
{
    for (uint32_t row = 0; row < height; row++)
        for (uint32_t column = 0; column < width; column++)
            memcpy(pixel_at(sheet, x + column, y + row), colour, 3);
}

static void draw_image(const struct sheet *sheet, const struct sheet_source *source,
                       uint32_t number, uint32_t left, uint32_t top)
{
    size_t plane = (size_t)source->height * source->width;
    size_t first = number * plane * source->channels;
    size_t step = source->planar ? plane : 1, next = source->planar ? 1 : source->channels;
    struct range range = range_of(source, first, plane * source->channels);
    for (uint32_t y = 0; y < source->height; y++) {
        for (uint32_t x = 0; x < source->width; x++) {
            size_t at = first + ((size_t)y * source->width + x) * next;
            uint8_t *pixel = pixel_at(sheet, left + x, top + y);
            for (uint32_t c = 0; c < 3; c++)
                pixel[c] =
                    to_byte(value_at(source, at + (source->channels == 3 ? c * step : 0)), range);
        }
    }
}

static void draw_digit(const struct sheet *sheet, int digit, uint32_t left, uint32_t top)
{
    static const uint8_t ink[3] = {INK, INK, INK};
    for (uint32_t y = 0; y < DIGIT_HEIGHT; y++)
        for (uint32_t x = 0; x < DIGIT_WIDTH; x++)
            if (font[digit][y] >> (DIGIT_WIDTH - 1 - x) & 1)
                fill(sheet, left + x * DIGIT_SCALE, top + y * DIGIT_SCALE, DIGIT_SCALE, DIGIT_SCALE,
                     ink);
}

/* As many characters as fit below the image. */
static void draw_label(const struct sheet *sheet, int64_t label, uint32_t left, uint32_t top,
                       uint32_t room)
{
    char text[24];
    uint32_t advance = (DIGIT_WIDTH + 1) * DIGIT_SCALE;
    snprintf(text, sizeof(text), "%jd", (intmax_t)label);
    for (size_t i = 0; text[i] && (i + 1) * advance <= room; i++)
        draw_digit(sheet, text[i] == '-' ? MINUS : text[i] - '0', left + (uint32_t)i * advance,
                   top);
}

static void draw_cell(const struct sheet *sheet, const struct sheet_source *source, uint32_t number)
{
    static const uint8_t red[3] = {220, 20, 20};
    uint32_t below = source->labels ? SHEET_LABEL : 0;
    uint32_t left = number % sheet->columns * (source->width + 2 * SHEET_GAP) + SHEET_GAP;
    uint32_t top = number / sheet->columns * (source->height + 2 * SHEET_GAP + below) + SHEET_GAP;
    if (source->valid && !source->valid[number])
        fill(sheet, left - FRAME, top - FRAME, source->width + 2 * FRAME,
             source->height + 2 * FRAME, red);
    draw_image(sheet, source, number, left, top);
    if (source->labels)
        draw_label(sheet, source->labels[number], left, top + source->height + SHEET_GAP,
                   source->width);
}

int sheet_draw(const struct sheet_source *source, struct sheet *out)
{
    *out = (struct sheet){0};
    if (value_bytes(source->dtype) == 0 || (source->channels != 1 && source->channels != 3) ||
        source->count == 0 || source->width == 0 || source->height == 0)
        return -EINVAL;
    uint32_t columns = (uint32_t)ceil(sqrt(source->count));
    uint32_t rows = (source->count + columns - 1) / columns;
    uint64_t width = columns * ((uint64_t)source->width + 2 * SHEET_GAP);
    uint64_t height =
        rows * ((uint64_t)source->height + 2 * SHEET_GAP + (source->labels ? SHEET_LABEL : 0));
    if (width > SHEET_BYTES_MAX || height > SHEET_BYTES_MAX / 3 / width)
        return -EFBIG;
    *out = (struct sheet){.rgb = malloc(width * height * 3),
                          .width = (uint32_t)width,
                          .height = (uint32_t)height,
                          .columns = columns};
    if (!out->rgb)
        return -ENOMEM;
    memset(out->rgb, BACKGROUND, width * height * 3);
    for (uint32_t i = 0; i < source->count; i++)
        draw_cell(out, source, i);
    return 0;
}

int sheet_encode(const struct sheet *sheet, FILE *file)
{
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    struct spng_ihdr header = {.width = sheet->width,
                               .height = sheet->height,
                               .bit_depth = 8,
                               .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
    if (!png)
        return -ENOMEM;
    errno = 0; /* spng tells no more than that it could not write */
    int err = spng_set_png_file(png, file);
    if (!err)
        err = spng_set_ihdr(png, &header);
    if (!err)
        err = spng_encode_image(png, sheet->rgb, (size_t)sheet->width * sheet->height * 3,
                                SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    int why = errno ? -errno : -EIO;
    spng_ctx_free(png);
    return err ? why : 0;
}

int sheet_write(const struct sheet *sheet, const char *path)
{
    FILE *file = fopen(path, "wbe");
    if (!file)
        return -errno;
    int err = sheet_encode(sheet, file);
    if (fclose(file) && !err)
        err = -errno;
    return err;
}

void sheet_halve(struct sheet *sheet)
{
    uint32_t width = sheet->width / 2, height = sheet->height / 2;
    uint8_t *to = sheet->rgb; /* never ahead of what is still read */
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            const uint8_t *above = pixel_at(sheet, 2 * x, 2 * y);
            const uint8_t *below = pixel_at(sheet, 2 * x, 2 * y + 1);
            for (uint32_t c = 0; c < 3; c++)
                *to++ = (uint8_t)((above[c] + above[c + 3] + below[c] + below[c + 3] + 2) / 4);
        }
    sheet->width = width;
    sheet->height = height;
}

void sheet_free(struct sheet *sheet)
{
    free(sheet->rgb);
    *sheet = (struct sheet){0};
}
