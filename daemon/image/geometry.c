#include "image/geometry.h"

#include <math.h>

#include "base/philox.h"

enum { CROP_TRIES = 10 };

struct box {
    int32_t x, y, w, h;
};

/* ln by the series of artanh; libm's own may differ by machine. */
static double natural_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent); /* exact */
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 25; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return 2 * s * sum + exponent * 0.69314718055994531;
}

static double exponential(double x)
{
    double whole = rint(x / 0.69314718055994531);
    double rest = x - whole * 0.69314718055994531, sum = 1;
    for (int k = 18; k >= 1; k--)
        sum = sum * rest / k + 1;
    return ldexp(sum, (int)whole); /* exact */
}

static bool try_crop(const struct transform_op *op, int32_t width, int32_t height,
                     struct philox *draws, struct box *box)
{
    double area = (double)width * height;
    double target = area * (op->scale[0] + (op->scale[1] - op->scale[0]) * philox_unit(draws));
    double aspect =
        op->ratio[0] * exponential(philox_unit(draws) * natural_log(op->ratio[1] / op->ratio[0]));
    double w = rint(sqrt(target * aspect)), h = rint(sqrt(target / aspect));
    if (!(w > 0 && w <= width && h > 0 && h <= height))
        return false;
    box->w = (int32_t)w;
    box->h = (int32_t)h;
    box->y = (int32_t)philox_below(draws, (uint64_t)(height - box->h) + 1);
    box->x = (int32_t)philox_below(draws, (uint64_t)(width - box->w) + 1);
    return true;
}

static struct box central_crop(const struct transform_op *op, int32_t width, int32_t height)
{
    struct box box = {0, 0, width, height};
    double ratio = (double)width / height;
    if (ratio < op->ratio[0])
        box.h = (int32_t)fmax(rint(width / op->ratio[0]), 1);
    else if (ratio > op->ratio[1])
        box.w = (int32_t)fmax(rint(height * op->ratio[1]), 1);
    box.x = (width - box.w) / 2;
    box.y = (height - box.h) / 2;
    return box;
}

static struct geometry_step *last_step(struct geometry *geometry)
{
    return &geometry->steps[geometry->count - 1];
}

/* A step that changes nothing, after which any operation can be merged into the last step. */
static struct geometry_step *add_step(struct geometry *geometry, int32_t width, int32_t height)
{
    struct geometry_step *step = &geometry->steps[geometry->count++];
    *step = (struct geometry_step){.box_w = width,
                                   .box_h = height,
                                   .width = width,
                                   .height = height,
                                   .win_w = width,
                                   .win_h = height};
    return step;
}

static bool window_inside(const struct geometry_step *step)
{
    return step->win_x >= 0 && step->win_y >= 0 && step->win_x + step->win_w <= step->width &&
           step->win_y + step->win_h <= step->height;
}

static void resize(struct geometry *geometry, struct box box, int32_t width, int32_t height,
                   enum filter filter)
{
    struct geometry_step *step = last_step(geometry);
    bool cut_only = step->width == step->box_w && step->height == step->box_h && !step->flip &&
                    window_inside(step);
    if (cut_only) { /* a box of a box */
        box.x += step->box_x + step->win_x;
        box.y += step->box_y + step->win_y;
    } else if (box.w == width && box.h == height && box.w == step->win_w && box.h == step->win_h) {
        return;
    } else {
        step = add_step(geometry, step->win_w, step->win_h);
    }
    *step = (struct geometry_step){.box_x = box.x,
                                   .box_y = box.y,
                                   .box_w = box.w,
                                   .box_h = box.h,
                                   .width = width,
                                   .height = height,
                                   .win_w = width,
                                   .win_h = height,
                                   .filter = filter};
}

static void cut(struct geometry *geometry, struct box box)
{
    struct geometry_step *step = last_step(geometry);
    bool inside =
        box.x >= 0 && box.y >= 0 && box.x + box.w <= step->win_w && box.y + box.h <= step->win_h;
    bool whole = step->win_x == 0 && step->win_y == 0 && step->win_w == step->width &&
                 step->win_h == step->height;
    if (!inside && !whole) /* zeros must come where an earlier window cut pixels off */
        step = add_step(geometry, step->win_w, step->win_h);
    step->win_x += step->flip ? step->win_w - box.x - box.w : box.x;
    step->win_y += box.y;
    step->win_w = box.w;
    step->win_h = box.h;
}

/* torchvision pads a side that is too short by half the difference, rounded down, before it; one
 * that is too long loses half the difference, rounded half to even. */
static int32_t centre(int32_t size, int32_t wanted)
{
    return size < wanted ? -((wanted - size) / 2) : (int32_t)rint((size - wanted) / 2.0);
}

static void apply(struct geometry *geometry, const struct transform_op *op, struct philox *draws)
{
    struct geometry_step *step = last_step(geometry);
    int32_t width = step->win_w, height = step->win_h, new_width, new_height;
    struct box box = {0, 0, width, height};
    switch (op->kind) {
    case OP_RANDOM_RESIZED_CROP:
        for (int i = 0; i < CROP_TRIES; i++) {
            if (try_crop(op, width, height, draws, &box))
                break;
            if (i == CROP_TRIES - 1)
                box = central_crop(op, width, height);
        }
        resize(geometry, box, (int32_t)op->width, (int32_t)op->height, op->filter);
        break;
    case OP_RESIZE:
        transform_resized(op, width, height, &new_width, &new_height);
        resize(geometry, box, new_width, new_height, op->filter);
        break;
    case OP_CENTER_CROP:
        box.w = (int32_t)op->width;
        box.h = (int32_t)op->height;
        box.x = centre(width, box.w);
        box.y = centre(height, box.h);
        cut(geometry, box);
        break;
    case OP_FLIP:
        step->flip ^= philox_unit(draws) < op->probability;
        break;
    case OP_NORMALIZE:
    case TRANSFORM_KINDS:
        break;
    }
}

void geometry_draw(const struct transform *transform, int32_t width, int32_t height, uint64_t seed,
                   uint64_t epoch, uint64_t id, struct geometry *out)
{
    struct philox draws;
    philox_start(&draws, seed, PHILOX_DRAW, epoch, 0, id);
    out->count = 0;
    add_step(out, width, height);
    for (uint32_t i = 0; i < transform->count; i++)
        apply(out, &transform->ops[i], &draws);
    out->width = last_step(out)->win_w;
    out->height = last_step(out)->win_h;
}
