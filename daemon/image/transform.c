#include "image/transform.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double default_scale[2] = {0.08, 1}, default_ratio[2] = {3. / 4, 4. / 3};

static const char *const names[TRANSFORM_KINDS] = {
    [OP_RANDOM_RESIZED_CROP] = "random_resized_crop",
    [OP_RESIZE] = "resize",
    [OP_CENTER_CROP] = "center_crop",
    [OP_FLIP] = "flip",
    [OP_NORMALIZE] = "normalize",
};

const char *transform_name(enum transform_kind kind)
{
    return names[kind];
}

bool pixels_float(enum pixels pixels)
{
    return pixels >= PIXELS_F32_NCHW;
}

uint64_t pixels_size(enum pixels pixels)
{
    static const uint8_t sizes[] = {[PIXELS_U8_NHWC] = 1,
                                    [PIXELS_U8_NCHW] = 1,
                                    [PIXELS_F32_NCHW] = 4,
                                    [PIXELS_F16_NCHW] = 2,
                                    [PIXELS_BF16_NCHW] = 2};
    return sizes[pixels];
}

int transform_preset(struct transform *transform, const char *name, struct error *err)
{
    static const struct transform_op train[] = {
        {.kind = OP_RANDOM_RESIZED_CROP, .height = 224, .width = 224},
        {.kind = OP_FLIP, .probability = 0.5}};
    static const struct transform_op eval[] = {
        {.kind = OP_RESIZE, .height = 256}, {.kind = OP_CENTER_CROP, .height = 224, .width = 224}};
    transform->count = 0;
    memset(transform->ops, 0, sizeof transform->ops);
    if (strcmp(name, "none") == 0)
        return 0;
    if (strcmp(name, "train") != 0 && strcmp(name, "eval") != 0)
        return error_set(err, -EINVAL,
                         "no preset %s; there are train, eval and none, or a list of "
                         "operations",
                         name);
    memcpy(transform->ops, name[0] == 't' ? train : eval, sizeof train);
    transform->count = 2;
    return 0;
}

static void fill_defaults(struct transform_op *op)
{
    if (op->kind == OP_RANDOM_RESIZED_CROP && op->scale[0] == 0 && op->scale[1] == 0)
        memcpy(op->scale, default_scale, sizeof op->scale);
    if (op->kind == OP_RANDOM_RESIZED_CROP && op->ratio[0] == 0 && op->ratio[1] == 0)
        memcpy(op->ratio, default_ratio, sizeof op->ratio);
    if (op->kind != OP_RESIZE && op->width == 0)
        op->width = op->height;
}

static int check_size(const struct transform_op *op, struct error *err)
{
    if (op->height < 1 || op->height > TRANSFORM_SIZE_MAX || op->width > TRANSFORM_SIZE_MAX)
        return error_set(err, -EINVAL, "size %" PRIu32 "x%" PRIu32 " is outside 1..%d", op->height,
                         op->width, TRANSFORM_SIZE_MAX);
    if (op->max_size && (op->kind != OP_RESIZE || op->width))
        return error_set(err, -EINVAL, "max_size goes with a resize of the short side only");
    if (op->max_size && (op->max_size <= op->height || op->max_size > TRANSFORM_SIZE_MAX))
        return error_set(err, -EINVAL, "max_size %" PRIu32 " is outside %" PRIu32 "..%d",
                         op->max_size, op->height + 1, TRANSFORM_SIZE_MAX);
    if (op->filter != FILTER_BILINEAR && op->filter != FILTER_BICUBIC)
        return error_set(err, -EINVAL, "no interpolation number %d", (int)op->filter);
    return 0;
}

/* Written so that a NaN is refused. */
static int check_range(const char *what, const double range[2], double least, double most,
                       struct error *err)
{
    if (range[0] >= least && range[0] <= range[1] && range[1] <= most && range[1] > 0)
        return 0;
    return error_set(err, -EINVAL, "%s %g-%g is not a range within %g-%g", what, range[0], range[1],
                     least, most);
}

static int check_crop(const struct transform_op *op, struct error *err)
{
    int rc = check_size(op, err);
    if (rc == 0)
        rc = check_range("scale", op->scale, 0, 1, err);
    if (rc == 0)
        rc = check_range("ratio", op->ratio, 1e-3, 1e3, err);
    return rc;
}

static int check_normal(const float mean[3], const float std[3], struct error *err)
{
    for (int c = 0; c < 3; c++) {
        if (!isfinite(mean[c]))
            return error_set(err, -EINVAL, "mean %g is not a number", (double)mean[c]);
        if (!isfinite(std[c]) || !(std[c] > 0))
            return error_set(err, -EINVAL, "std %g is not above 0", (double)std[c]);
    }
    return 0;
}

static int check_op(const struct transform *transform, uint32_t index, struct error *err)
{
    const struct transform_op *op = &transform->ops[index];
    switch (op->kind) {
    case OP_RANDOM_RESIZED_CROP:
        return check_crop(op, err);
    case OP_RESIZE:
    case OP_CENTER_CROP:
        return check_size(op, err);
    case OP_FLIP:
        if (op->probability >= 0 && op->probability <= 1)
            return 0;
        return error_set(err, -EINVAL, "probability %g is outside 0..1", op->probability);
    case OP_NORMALIZE:
        if (index + 1 != transform->count)
            return error_set(err, -EINVAL, "it must be the last operation");
        if (!pixels_float(transform->pixels))
            return error_set(err, -EINVAL,
                             "the output is uint8; ask for float32_nchw, "
                             "float16_nchw or bfloat16_nchw");
        return check_normal(op->mean, op->std, err);
    case TRANSFORM_KINDS:
        break;
    }
    return error_set(err, -EINVAL, "no such operation");
}

void transform_resized(const struct transform_op *op, int32_t width, int32_t height,
                       int32_t *new_width, int32_t *new_height)
{
    if (op->width) {
        *new_width = (int32_t)op->width;
        *new_height = (int32_t)op->height;
        return;
    }
    const double most = 1 << 30; /* beyond every limit, but no overflow */
    double from_short = width <= height ? width : height,
           from_long = width <= height ? height : width;
    double to_short = op->height, to_long = fmin(trunc(to_short * from_long / from_short), most);
    if (op->max_size && to_long > op->max_size) {
        to_short = fmax(trunc(op->max_size * to_short / to_long), 1);
        to_long = op->max_size;
    }
    *new_width = (int32_t)(width <= height ? to_short : to_long);
    *new_height = (int32_t)(width <= height ? to_long : to_short);
}

/* What is known of the size after an operation from what was known before. */
static void follow_size(struct transform *transform, const struct transform_op *op)
{
    bool by_side = op->kind == OP_RESIZE && op->width == 0;
    if (op->kind == OP_FLIP || op->kind == OP_NORMALIZE || (by_side && transform->width == 0))
        return;
    int32_t width = (int32_t)op->width, height = (int32_t)op->height;
    if (by_side)
        transform_resized(op, (int32_t)transform->width, (int32_t)transform->height, &width,
                          &height);
    transform->width = (uint32_t)width;
    transform->height = (uint32_t)height;
}

static bool normalizes(const struct transform *transform)
{
    for (int c = 0; c < 3; c++)
        if (transform->mean[c] != 0 || transform->std[c] != 1)
            return true;
    return false;
}

static int check_output(struct transform *transform, struct error *err)
{
    if (transform->pixels < PIXELS_U8_NHWC || transform->pixels > PIXELS_BF16_NCHW)
        return error_set(err, -EINVAL, "transform: no output number %d", (int)transform->pixels);
    const struct transform_op *last =
        transform->ops + (transform->count ? transform->count - 1 : 0);
    if (transform->count && last->kind == OP_NORMALIZE) {
        memcpy(transform->mean, last->mean, sizeof transform->mean);
        memcpy(transform->std, last->std, sizeof transform->std);
    }
    if (transform->std[0] == 0 && transform->std[1] == 0 && transform->std[2] == 0)
        transform->std[0] = transform->std[1] = transform->std[2] = 1;
    if (check_normal(transform->mean, transform->std, err) < 0)
        return error_prefix(err, "transform");
    if (!pixels_float(transform->pixels) && normalizes(transform))
        return error_set(err, -EINVAL,
                         "mean and std go with float outputs, and the output is uint8: leave them "
                         "out, or set output: float32_nchw, float16_nchw or bfloat16_nchw");
    if (transform->width > TRANSFORM_SIZE_MAX || transform->height > TRANSFORM_SIZE_MAX)
        return error_set(err, -EINVAL,
                         "transform: the result is %" PRIu32 "x%" PRIu32 ", more than %d",
                         transform->height, transform->width, TRANSFORM_SIZE_MAX);
    return 0;
}

int transform_check(struct transform *transform, struct error *err)
{
    if (transform->count > TRANSFORM_OPS_MAX)
        return error_set(err, -EINVAL, "transform: %" PRIu32 " operations, at most %d",
                         transform->count, TRANSFORM_OPS_MAX);
    transform->height = transform->width = 0;
    for (uint32_t i = 0; i < transform->count; i++) {
        struct transform_op *op = &transform->ops[i];
        fill_defaults(op);
        if (check_op(transform, i, err) < 0)
            return error_prefix(err, "transform: operation %" PRIu32 " (%s)", i + 1,
                                op->kind < TRANSFORM_KINDS ? transform_name(op->kind) : "?");
        follow_size(transform, op);
    }
    return check_output(transform, err);
}

struct words {
    char *text;
    uint64_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format, ...)
{
    if (words->used >= words->size)
        return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(words->text + words->used, words->size - words->used, format, args);
    va_end(args);
    words->used += n > 0 ? (uint64_t)n : 0;
}

static void add_op(struct words *words, const struct transform_op *op)
{
    const char *filter = op->filter == FILTER_BICUBIC ? "bicubic" : "bilinear";
    add(words, "%s", transform_name(op->kind));
    if (op->kind == OP_FLIP)
        add(words, " %g", op->probability);
    else if (op->kind == OP_NORMALIZE)
        add(words, " mean %g/%g/%g std %g/%g/%g", (double)op->mean[0], (double)op->mean[1],
            (double)op->mean[2], (double)op->std[0], (double)op->std[1], (double)op->std[2]);
    else if (op->width)
        add(words, " %" PRIu32 "x%" PRIu32, op->height, op->width);
    else
        add(words, " %" PRIu32, op->height);
    if (op->max_size)
        add(words, " max %" PRIu32, op->max_size);
    if (op->kind == OP_RANDOM_RESIZED_CROP)
        add(words, " scale %.3g-%.3g ratio %.3g-%.3g", op->scale[0], op->scale[1], op->ratio[0],
            op->ratio[1]);
    if (op->kind == OP_RANDOM_RESIZED_CROP || op->kind == OP_RESIZE)
        add(words, " %s", filter);
}

char *transform_words(const struct transform *transform, char *text, uint64_t size)
{
    struct words words = {text, size, 0};
    add(&words, "%s", transform->exif ? "exif turn" : transform->count ? "" : "none");
    for (uint32_t i = 0; i < transform->count; i++) {
        add(&words, "%s", i || transform->exif ? ", " : "");
        add_op(&words, &transform->ops[i]);
    }
    if (transform->fast)
        add(&words, "; fast pixels");
    return text;
}
