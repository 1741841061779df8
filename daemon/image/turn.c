#include "image/turn.h"

#include <stddef.h>
#include <string.h>

/* Where the pixel at the turned picture's (x, y) comes from: swap the axes, then run the source's
 * columns or rows backwards. */
static const struct {
    bool swap, back_x, back_y;
} turns[9] = {
    [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
    [5] = {true, false, false}, [6] = {true, false, true}, [7] = {true, true, true},
    [8] = {true, true, false},
};

bool turn_swaps(int orientation)
{
    return turns[orientation].swap;
}

void turn_rgb(const uint8_t *src, int32_t width, int32_t height, int orientation, uint8_t *dst)
{
    ptrdiff_t row = 3 * (ptrdiff_t)width;
    ptrdiff_t step_x = turns[orientation].back_x ? -3 : 3;
    ptrdiff_t step_y = turns[orientation].back_y ? -row : row;
    bool swap = turns[orientation].swap;
    int32_t out_width = swap ? height : width, out_height = swap ? width : height;
    const uint8_t *from = src + (step_x < 0 ? row - 3 : 0) + (step_y < 0 ? row * (height - 1) : 0);
    for (int32_t y = 0; y < out_height; y++) {
        const uint8_t *at = from + y * (swap ? step_x : step_y);
        for (int32_t x = 0; x < out_width; x++, at += swap ? step_y : step_x, dst += 3)
            memcpy(dst, at, 3);
    }
}
