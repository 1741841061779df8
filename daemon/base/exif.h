/* The one EXIF value that changes what a picture looks like. Pure. */
#ifndef EXIF_H
#define EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Orientation (1..8; 1 where there is none or it is broken) from the first bytes of a JPEG, as
 * EXIF 2.3 has it: APP1 "Exif", TIFF header, tag 0x0112 of IFD0. Never reads past size; looks at
 * markers before the first scan only. */
int exif_orientation(const uint8_t *bytes, size_t size);

#endif
