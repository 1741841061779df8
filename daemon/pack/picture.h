/* Pictures that resemble photographs to a decoder: many sizes, light and noise at all scales with
 * equal contrast at each (the 1/f spectrum of natural pictures), shapes with sharp edges, colours
 * and shapes that depend on the class. A pure function of seed, number and class: integers only, so
 * every machine draws the same. Any thread. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stdint.h>

struct picture {
    uint32_t width, height;
    bool grey;
    bool full_chroma; /* 4:4:4, else 4:2:0 */
    int quality;      /* of the JPEG, 75..95 */
    uint8_t *pixels;  /* RGB, or grey */
};

void picture_draw(struct picture *picture, uint64_t seed, uint32_t number, uint32_t cls,
                  uint32_t classes);
void picture_drop(struct picture *picture);

#endif
