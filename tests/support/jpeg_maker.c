#include "jpeg_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { SCANS_MAX = 2000 };

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 0x9E3779B1U ^ (b + 0x7F4A7C15U) * 0x85EBCA77U ^ (c + 1) * 0xC2B2AE3DU;
    h = (h ^ h >> 15) * 0x2C1B3C6DU;
    return h ^ h >> 13;
}

/* A gradient, rectangles of other colours, and a little noise. */
static uint8_t sample(const struct jpeg_recipe *recipe, uint32_t x, uint32_t y, uint32_t channel)
{
    if (recipe->flat)
        return (uint8_t)hash(recipe->seed, channel, 7);
    uint32_t cell = hash(recipe->seed + channel, x / 24, y / 24);
    uint32_t slope = (x * (2 + channel) + y * (5 - channel)) / 4 + recipe->seed * 31;
    uint32_t value = (slope & 0x80 ? ~slope : slope) & 0x7F;
    value += cell % 3 == 0 ? cell >> 8 & 0x5F : 24;
    return (uint8_t)(value + (hash(recipe->seed, x, y * 4 + channel) & 15));
}

static void put_exif(struct jpeg_compress_struct *cinfo, const struct jpeg_recipe *recipe)
{
    const uint8_t little[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                              0x12, 1,   3,   0,   1, 0, 0,   0,   0,  0, 0, 0, 0, 0, 0, 0};
    const uint8_t big[] = {'E',  'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                           0x01, 0x12, 0,   3,   0, 0, 0,   1,   0, 0,  0, 0, 0, 0, 0, 0};
    uint8_t block[sizeof little];
    memcpy(block, recipe->exif_big_endian ? big : little, sizeof block);
    block[recipe->exif_big_endian ? 25 : 24] = (uint8_t)recipe->orientation;
    jpeg_write_marker(cinfo, JPEG_APP0 + 1, block, sizeof block);
}

static void put_comment(struct jpeg_compress_struct *cinfo, uint32_t size)
{
    uint8_t text[1024];
    memset(text, 'x', sizeof text);
    while (size) {
        uint32_t part = size < sizeof text ? size : (uint32_t)sizeof text;
        jpeg_write_marker(cinfo, JPEG_COM, text, part);
        size -= part;
    }
}

/* DC, all AC, and then `extra` refinements of one coefficient at a time, where each bit plane that
 * is refined must have been left open: coefficients k of the first component come with 13 bits to
 * refine. */
static int bomb_script(jpeg_scan_info *scans, unsigned extra)
{
    int n = 0;
    scans[n++] = (jpeg_scan_info){1, {0}, 0, 0, 0, 0};
    for (int k = 1; k < DCTSIZE2 && (unsigned)n < extra; k++) {
        scans[n++] = (jpeg_scan_info){1, {0}, k, k, 0, 10};
        for (int low = 9; low >= 0 && (unsigned)n < extra; low--)
            scans[n++] = (jpeg_scan_info){1, {0}, k, k, low + 1, low};
    }
    return n;
}

static int separate_script(jpeg_scan_info *scans, int components)
{
    for (int c = 0; c < components; c++)
        scans[c] = (jpeg_scan_info){1, {c}, 0, DCTSIZE2 - 1, 0, 0};
    return components;
}

static void set_colour(struct jpeg_compress_struct *cinfo, const struct jpeg_recipe *recipe)
{
    static const struct {
        J_COLOR_SPACE in, in_file;
        int components;
    } spaces[] = {[JPEG_MAKER_YCC] = {JCS_RGB, JCS_YCbCr, 3},
                  [JPEG_MAKER_RGB] = {JCS_RGB, JCS_RGB, 3},
                  [JPEG_MAKER_GREY] = {JCS_GRAYSCALE, JCS_GRAYSCALE, 1},
                  [JPEG_MAKER_CMYK] = {JCS_CMYK, JCS_CMYK, 4},
                  [JPEG_MAKER_YCCK] = {JCS_CMYK, JCS_YCCK, 4}};
    cinfo->in_color_space = spaces[recipe->colour].in;
    cinfo->input_components = spaces[recipe->colour].components;
    jpeg_set_defaults(cinfo);
    jpeg_set_colorspace(cinfo, spaces[recipe->colour].in_file);
}

static void configure(struct jpeg_compress_struct *cinfo, const struct jpeg_recipe *recipe,
                      jpeg_scan_info *scans)
{
    set_colour(cinfo, recipe);
    jpeg_set_quality(cinfo, recipe->quality ? recipe->quality : 85, TRUE);
    for (int c = 0; c < cinfo->num_components; c++)
        cinfo->comp_info[c].h_samp_factor = cinfo->comp_info[c].v_samp_factor = 1;
    cinfo->comp_info[0].h_samp_factor = recipe->h_samp ? recipe->h_samp : 1;
    cinfo->comp_info[0].v_samp_factor = recipe->v_samp ? recipe->v_samp : 1;
    if (cinfo->num_components == 4) /* K is as fine as the first */
        cinfo->comp_info[3] = (jpeg_component_info){
            .component_id = cinfo->comp_info[3].component_id,
            .h_samp_factor = cinfo->comp_info[0].h_samp_factor,
            .v_samp_factor = cinfo->comp_info[0].v_samp_factor,
            .quant_tbl_no = cinfo->comp_info[3].quant_tbl_no,
            .dc_tbl_no = cinfo->comp_info[3].dc_tbl_no,
            .ac_tbl_no = cinfo->comp_info[3].ac_tbl_no,
        };
    cinfo->arith_code = recipe->arithmetic;
    cinfo->optimize_coding = recipe->optimize;
    cinfo->restart_interval = recipe->restart;
    if (recipe->progressive)
        jpeg_simple_progression(cinfo);
    cinfo->scan_info = recipe->extra_scans || recipe->separate_scans ? scans : cinfo->scan_info;
    if (recipe->extra_scans)
        cinfo->num_scans = bomb_script(scans, recipe->extra_scans);
    else if (recipe->separate_scans)
        cinfo->num_scans = separate_script(scans, cinfo->num_components);
}

static void write_rows(struct jpeg_compress_struct *cinfo, const struct jpeg_recipe *recipe)
{
    uint32_t channels = (uint32_t)cinfo->input_components;
    uint8_t *row = malloc((size_t)cinfo->image_width * channels);
    if (!row)
        abort();
    while (cinfo->next_scanline < cinfo->image_height) {
        for (uint32_t x = 0; x < cinfo->image_width; x++)
            for (uint32_t c = 0; c < channels; c++)
                row[x * channels + c] = sample(recipe, x, cinfo->next_scanline, c);
        jpeg_write_scanlines(cinfo, &row, 1);
    }
    free(row);
}

/* Cuts every DHT segment out of the headers. */
static size_t drop_tables(uint8_t *bytes, size_t size)
{
    size_t at = 2;
    while (at + 4 <= size && bytes[at + 1] != 0xDA) {
        size_t length = 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
        if (bytes[at + 1] == 0xC4) {
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
        } else {
            at += length;
        }
    }
    return size;
}

uint8_t *jpeg_maker_make(const struct jpeg_recipe *recipe, size_t *size)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors; /* the default ends the program with a message */
    jpeg_scan_info scans[SCANS_MAX];
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &bytes, &length);
    cinfo.image_width = recipe->width ? recipe->width : 64;
    cinfo.image_height = recipe->height ? recipe->height : 64;
    configure(&cinfo, recipe, scans);
    jpeg_start_compress(&cinfo, TRUE);
    if (recipe->orientation)
        put_exif(&cinfo, recipe);
    put_comment(&cinfo, recipe->comment);
    write_rows(&cinfo, recipe);
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    *size = recipe->no_tables ? drop_tables(bytes, length) : length;
    return bytes;
}

uint8_t *jpeg_maker_plain(uint32_t width, uint32_t height, uint32_t seed, size_t *size)
{
    struct jpeg_recipe recipe = {.width = width, .height = height, .seed = seed};
    return jpeg_maker_make(&recipe, size);
}

uint8_t *jpeg_maker_damaged(uint32_t seed, size_t *size)
{
    struct jpeg_recipe recipe = {.seed = seed, .restart = 8};
    uint8_t *bytes = jpeg_maker_make(&recipe, size);
    size_t at = *size / 2;
    while (!(bytes[at] == 0xFF && bytes[at + 1] >= 0xD0 && bytes[at + 1] <= 0xD7))
        at++;
    uint8_t *damaged = malloc(*size + 9);
    if (!damaged)
        abort();
    memcpy(damaged, bytes, at);
    memset(damaged + at, 0x55, 9); /* between the data and the restart marker */
    memcpy(damaged + at + 9, bytes + at, *size - at);
    free(bytes);
    *size += 9;
    return damaged;
}
