/* Turning a picture as its EXIF orientation (1..8) says, as PIL.ImageOps.exif_transpose does. */
#ifndef TURN_H
#define TURN_H

#include <stdbool.h>
#include <stdint.h>

bool turn_swaps(int orientation); /* width and height change places */
/* src: width x height RGB, rows without gaps; dst: as large, turned. */
void turn_rgb(const uint8_t *src, int32_t width, int32_t height, int orientation, uint8_t *dst);

#endif
