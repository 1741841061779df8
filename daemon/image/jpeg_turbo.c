#include "image/jpeg_turbo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/mem.h"

enum { ROWS_AT_ONCE = 16 };

/* The decompress object is made anew for each picture: tables of one must not serve the next. All
 * that it allocates is freed by jpeg_destroy_decompress, also after an error has jumped out. */
struct jpeg_turbo {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct jpeg_image_fault fault;
};

struct rows {
    const struct jpeg_box *box;
    uint8_t *dst;
    size_t stride;
    uint8_t *spare; /* a whole row for what is not wanted, or not wanted whole */
};

static struct jpeg_turbo *turbo_of(j_common_ptr info)
{
    return info->client_data;
}

__attribute__((noreturn, format(printf, 3, 4))) static void
fail(struct jpeg_turbo *turbo, enum bad_class cls, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(turbo->fault.reason, sizeof turbo->fault.reason, format, args);
    va_end(args);
    turbo->fault.cls = cls;
    longjmp(turbo->jump, 1);
}

static enum bad_class class_of(int code)
{
    switch (code) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_EMPTY_IMAGE: /* height in a later marker */
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
        return BAD_UNSUP;
    case JERR_IMAGE_TOO_BIG:
    case JERR_NO_BACKING_STORE:
    case JERR_OUT_OF_MEMORY:
    case JERR_WIDTH_OVERFLOW:
        return BAD_SIZE;
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
        return BAD_TRUNC;
    default:
        return BAD_CORRUPT;
    }
}

static void on_error(j_common_ptr info)
{
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    fail(turbo_of(info), class_of(info->err->msg_code), "JPEG: %.180s", text);
}

static void on_message(j_common_ptr info, int level)
{
    struct jpeg_image_fault *fault = &turbo_of(info)->fault;
    char text[JMSG_LENGTH_MAX];
    bool harmless = info->err->msg_code == JWRN_JFIF_MAJOR;
    if (level >= 0 || harmless || fault->damaged) /* the first warning is told */
        return;
    info->err->format_message(info, text);
    snprintf(fault->reason, sizeof fault->reason, "JPEG: %.180s", text);
    fault->damaged = true;
}

static void on_output(j_common_ptr info)
{
    (void)info;
}

static void on_progress(j_common_ptr info)
{
    struct jpeg_turbo *turbo = turbo_of(info);
    if (turbo->info.input_scan_number > JPEG_SCANS_MAX)
        fail(turbo, BAD_SIZE, "JPEG: more than %d scans", JPEG_SCANS_MAX);
}

static void source_nothing(j_decompress_ptr info)
{
    (void)info;
}

/* The library asks for more only where the file ends too early. Where all rows are there, nothing
 * lacks but the end marker: the picture is whole, as it is for Pillow. */
static boolean source_ended(j_decompress_ptr info)
{
    struct jpeg_turbo *turbo = turbo_of((j_common_ptr)info);
    if (info->output_height == 0)
        fail(turbo, BAD_TRUNC, "JPEG: the file ends before the picture begins");
    if (info->output_scanline < info->output_height)
        fail(turbo, BAD_TRUNC, "JPEG: the file ends in the picture of %ux%u, at row %u",
             info->image_width, info->image_height, info->output_scanline);
    WARNMS(info, JWRN_JPEG_EOF);
    longjmp(turbo->jump, 1);
}

static void source_skip(j_decompress_ptr info, long bytes)
{
    if (bytes > 0 && (size_t)bytes > info->src->bytes_in_buffer)
        source_ended(info);
    if (bytes > 0) {
        info->src->next_input_byte += bytes;
        info->src->bytes_in_buffer -= (size_t)bytes;
    }
}

static void prepare(struct jpeg_turbo *turbo, const uint8_t *bytes, size_t size)
{
    *turbo = (struct jpeg_turbo){.fault = {.cls = BAD_NONE}};
    turbo->info.err = jpeg_std_error(&turbo->errors);
    turbo->errors.error_exit = on_error;
    turbo->errors.emit_message = on_message;
    turbo->errors.output_message = on_output;
    turbo->info.client_data = turbo;
    turbo->progress.progress_monitor = on_progress;
    turbo->source = (struct jpeg_source_mgr){.next_input_byte = bytes,
                                             .bytes_in_buffer = size,
                                             .init_source = source_nothing,
                                             .fill_input_buffer = source_ended,
                                             .skip_input_data = source_skip,
                                             .resync_to_restart = jpeg_resync_to_restart,
                                             .term_source = source_nothing};
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Strips of a few block rows: samples, upsampled samples, spare rows. */
uint64_t jpeg_turbo_scan_bytes(uint32_t width, uint32_t components, uint32_t h, uint32_t v)
{
    uint64_t row = round_up(width, (uint64_t)h * DCTSIZE) * components;
    return 65536 + row * (3 * (uint64_t)v * DCTSIZE + ROWS_AT_ONCE);
}

/* Beside the strips, coefficients of the whole picture where there are several scans. */
static uint64_t memory_of(j_decompress_ptr info)
{
    uint64_t bytes =
        jpeg_turbo_scan_bytes(info->image_width, (uint32_t)info->num_components,
                              (uint32_t)info->max_h_samp_factor, (uint32_t)info->max_v_samp_factor);
    for (int c = 0; c < info->num_components && jpeg_has_multiple_scans(info); c++) {
        const jpeg_component_info *component = &info->comp_info[c];
        uint64_t across = round_up(component->width_in_blocks, (uint64_t)component->h_samp_factor);
        uint64_t down = round_up(component->height_in_blocks, (uint64_t)component->v_samp_factor);
        bytes += across * down * sizeof(JBLOCK);
    }
    return bytes;
}

static void read_header(struct jpeg_turbo *turbo, struct jpeg_image_header *header)
{
    j_decompress_ptr info = &turbo->info;
    jpeg_create_decompress(info);
    info->client_data = turbo;
    info->src = &turbo->source;
    info->progress = &turbo->progress;
    jpeg_read_header(info, TRUE);
    if (info->num_components != 1 && info->num_components != 3 && info->num_components != 4)
        fail(turbo, BAD_UNSUP, "JPEG: %d colour components", info->num_components);
    info->out_color_space = info->num_components == 4 ? JCS_CMYK : JCS_RGB;
    header->width = (int32_t)info->image_width;
    header->height = (int32_t)info->image_height;
    header->memory = memory_of(info);
}

bool jpeg_turbo_open(struct jpeg_turbo *turbo, const uint8_t *bytes, size_t size,
                     struct jpeg_image_header *header)
{
    prepare(turbo, bytes, size);
    if (setjmp(turbo->jump))
        return false;
    read_header(turbo, header);
    return true;
}

/* a * b / 255, rounded */
static int scaled(int a, int b)
{
    int product = a * b + 128;
    return (product + (product >> 8)) >> 8;
}

/* Pillow takes all four channels as inverted, as Adobe writes them. */
static void cmyk_to_rgb(const uint8_t *cmyk, uint8_t *rgb, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++, cmyk += 4, rgb += 3)
        for (int c = 0; c < 3; c++) {
            int value = cmyk[3] - scaled(255 - cmyk[c], cmyk[3]);
            rgb[c] = (uint8_t)(value < 0 ? 0 : value);
        }
}

/* Where the wanted part of a row goes; NULL: nowhere. */
static uint8_t *row_at(const struct rows *rows, uint32_t line)
{
    int64_t row = (int64_t)line - rows->box->y;
    return row >= 0 && row < rows->box->height ? rows->dst + (size_t)row * rows->stride : NULL;
}

/* Rows that are wanted whole need no copy. */
static void read_whole(j_decompress_ptr info, const struct rows *rows)
{
    uint8_t *lines[ROWS_AT_ONCE];
    uint32_t count = 0;
    for (; count < ROWS_AT_ONCE && info->output_scanline + count < info->output_height; count++) {
        uint8_t *row = row_at(rows, info->output_scanline + count);
        lines[count] = row ? row : rows->spare;
    }
    jpeg_read_scanlines(info, lines, count);
}

static void read_part(j_decompress_ptr info, const struct rows *rows)
{
    uint8_t *row = row_at(rows, info->output_scanline), *spare = rows->spare;
    size_t pixel = (size_t)info->output_components;
    jpeg_read_scanlines(info, &spare, 1);
    spare += (size_t)rows->box->x * pixel;
    if (row && info->out_color_space == JCS_CMYK)
        cmyk_to_rgb(spare, row, (uint32_t)rows->box->width);
    else if (row)
        memcpy(row, spare, (size_t)rows->box->width * pixel);
}

static void read_all(struct jpeg_turbo *turbo, struct rows *rows)
{
    j_decompress_ptr info = &turbo->info;
    jpeg_start_decompress(info);
    size_t row_bytes = (size_t)info->output_width * (size_t)info->output_components;
    rows->spare = info->mem->alloc_large((j_common_ptr)info, JPOOL_IMAGE, row_bytes);
    bool whole =
        info->out_color_space == JCS_RGB && (uint32_t)rows->box->width == info->output_width;
    while (info->output_scanline < info->output_height) {
        if (whole)
            read_whole(info, rows);
        else
            read_part(info, rows);
    }
    jpeg_finish_decompress(info);
}

bool jpeg_turbo_read(struct jpeg_turbo *turbo, const struct jpeg_box *box, uint8_t *dst,
                     size_t stride)
{
    struct rows rows = {box, dst, stride, NULL};
    if (setjmp(turbo->jump))
        return turbo->fault.cls == BAD_NONE; /* only the end marker was missing */
    read_all(turbo, &rows);
    return true;
}

const struct jpeg_image_fault *jpeg_turbo_fault(const struct jpeg_turbo *turbo)
{
    return &turbo->fault;
}

void jpeg_turbo_close(struct jpeg_turbo *turbo)
{
    jpeg_destroy_decompress(&turbo->info);
}

struct jpeg_turbo *jpeg_turbo_new(void)
{
    return mem_new(sizeof(struct jpeg_turbo));
}

void jpeg_turbo_free(struct jpeg_turbo *turbo)
{
    free(turbo);
}
