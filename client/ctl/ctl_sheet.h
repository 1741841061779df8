/* A contact sheet: images in a grid, their labels below, drawn into memory and written as PNG.
 * Pure but for sheet_write. */
#ifndef CTL_SHEET_H
#define CTL_SHEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/dataload.h"

#define SHEET_GAP 6U    /* pixels around an image; those that are not valid get a red frame in it */
#define SHEET_LABEL 16U /* height of the line below an image, present when there are labels */
#define SHEET_BYTES_MAX (512U * 1024U * 1024U)

/* Images of one size. Pixels: uint8, float16, bfloat16 or float32; with `planar`, channels stand
 * one after the other. Floats within 0..1 are shown as they are, others are stretched between the
 * smallest and the largest of their image. One channel is grey. */
struct sheet_source {
    const void *pixels;
    dataload_dtype dtype;
    bool planar;
    uint32_t height, width, channels; /* 1 or 3 channels */
    uint32_t count;
    const int64_t *labels; /* NULL: none */
    const uint8_t *valid;  /* NULL: all */
};

struct sheet {
    uint8_t *rgb; /* width * height * 3 */
    uint32_t width, height;
    uint32_t columns;
};

/* 0, -EINVAL (a dtype or channel count that is no picture), -EFBIG (over SHEET_BYTES_MAX) or
 * -ENOMEM. Free with sheet_free. */
int sheet_draw(const struct sheet_source *source, struct sheet *out);
int sheet_write(const struct sheet *sheet, const char *path); /* 0 or -errno */
int sheet_encode(const struct sheet *sheet, FILE *file);      /* the same, to an open file */
void sheet_halve(struct sheet *sheet); /* half as wide and as high, each pixel of four */
void sheet_free(struct sheet *sheet);

#endif
