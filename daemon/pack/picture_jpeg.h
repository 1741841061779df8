/* A picture as a JPEG: baseline, with Huffman tables of its own. */
#ifndef PICTURE_JPEG_H
#define PICTURE_JPEG_H

#include <stddef.h>
#include <stdint.h>

#include "pack/picture.h"

/* free() what is returned. The library ends the process where memory is short. */
uint8_t *picture_jpeg(const struct picture *picture, size_t *size);

#endif
