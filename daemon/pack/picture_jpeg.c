#include "pack/picture_jpeg.h"

#include <stdio.h>

#include <jpeglib.h>

static void set_form(struct jpeg_compress_struct *jpeg, const struct picture *picture)
{
    jpeg->image_width = picture->width;
    jpeg->image_height = picture->height;
    jpeg->input_components = picture->grey ? 1 : 3;
    jpeg->in_color_space = picture->grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, picture->quality, TRUE);
    jpeg->optimize_coding = TRUE;
    if (picture->full_chroma)
        jpeg->comp_info[0].h_samp_factor = jpeg->comp_info[0].v_samp_factor = 1;
}

uint8_t *picture_jpeg(const struct picture *picture, size_t *size)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    jpeg_mem_dest(&jpeg, &bytes, &length);
    set_form(&jpeg, picture);
    jpeg_start_compress(&jpeg, TRUE);
    size_t stride = (size_t)picture->width * (picture->grey ? 1 : 3);
    while (jpeg.next_scanline < picture->height) {
        JSAMPROW row = picture->pixels + jpeg.next_scanline * stride;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *size = length;
    return bytes;
}
