/* What is done to a picture between decoding and its row: the list of operations with torchvision's
 * (PIL backend) semantics. Pure. image/geometry.h has the boxes that follow from it for one sample.
 */
#ifndef TRANSFORM_H
#define TRANSFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define TRANSFORM_OPS_MAX 16
#define TRANSFORM_SIZE_MAX 16384

enum filter { FILTER_BILINEAR, FILTER_BICUBIC };

enum transform_kind {
    OP_RANDOM_RESIZED_CROP, /* height, width, scale, ratio, filter */
    OP_RESIZE,              /* height, width; width 0 = short side is height, max_size */
    OP_CENTER_CROP,         /* height, width */
    OP_FLIP,                /* probability */
    OP_NORMALIZE,           /* mean, std; last, float outputs only */
    TRANSFORM_KINDS
};

/* A setting left at zero has torchvision's default where zero makes no sense: scale 0.08-1, ratio
 * 3/4-4/3, width (but of a resize) = height. */
struct transform_op {
    enum transform_kind kind;
    uint32_t height, width;
    uint32_t max_size; /* of the long side; 0 = none */
    double scale[2], ratio[2];
    enum filter filter;
    double probability;
    float mean[3], std[3];
};

enum pixels { PIXELS_U8_NHWC, PIXELS_U8_NCHW, PIXELS_F32_NCHW, PIXELS_F16_NCHW, PIXELS_BF16_NCHW };

struct transform {
    struct transform_op ops[TRANSFORM_OPS_MAX];
    uint32_t count;
    bool exif;  /* turn pictures as their EXIF says, before all else */
    bool turbo; /* decode by libjpeg-turbo alone */
    bool fast;  /* scale before colours are made, where that is possible (image/planes.h) */
    enum pixels pixels;
    /* Of float outputs: ((x / 255) - mean) / std; taken from a normalize operation where there is
     * one; std left at 0, 0, 0 becomes 1. */
    float mean[3], std[3];
    /* Set by transform_check: size of every row; 0, 0 = it depends on the picture. */
    uint32_t height, width;
};

/* The presets: train = random_resized_crop 224 + flip 0.5; eval = resize 256 + center_crop 224;
 * none = no operation. Sets the operations only: output type, EXIF and the rest stay as they are.
 * -EINVAL for another name. */
int transform_preset(struct transform *transform, const char *name, struct error *err);
/* Fills in defaults, checks every setting and sets height and width. -EINVAL with operation,
 * setting and value named. */
int transform_check(struct transform *transform, struct error *err);
/* In words, sizes as height x width, "; fast pixels" at the end where they are, e.g.
 * "random_resized_crop 224x224 scale 0.08-1 ratio 0.75-1.33 bilinear, flip 0.5". Returns text. */
char *transform_words(const struct transform *transform, char *text, uint64_t size);
/* Size after a resize operation: torchvision's truncation of the long side, never below 1. */
void transform_resized(const struct transform_op *op, int32_t width, int32_t height,
                       int32_t *new_width, int32_t *new_height);
const char *transform_name(enum transform_kind kind); /* as in the configuration */
bool pixels_float(enum pixels pixels);
uint64_t pixels_size(enum pixels pixels); /* bytes of one value */

#endif
