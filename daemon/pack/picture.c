#include "pack/picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"
#include "pack/fractal.h"

enum { SHAPES_MAX = 14, HUES = 1536 };

enum kind { ELLIPSE, BOX, STRIPES, RINGS, KINDS };

/* A part of the picture with a colour, a light that falls from one side, and a roughness. */
struct surface {
    enum kind kind;
    int32_t x, y, rx, ry;     /* middle and half size */
    int32_t colour[2][3];     /* mixed by the coarse field */
    int32_t light_x, light_y; /* change over half a size, of 256 */
    int32_t roughness;        /* of 256 */
};

struct scene {
    struct surface surface[1 + SHAPES_MAX]; /* 0 is the background */
    uint32_t surfaces;
    int32_t tint; /* how much the coarse field shifts red against blue, of 256 */
};

static int32_t pick(struct philox *stream, int32_t low, int32_t high)
{
    return low + (int32_t)philox_below(stream, (uint64_t)(high - low) + 1);
}

static int32_t clamp(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Red, green and blue of a hue, mixed with grey by saturation (of 256). */
static void colour_of(int32_t hue, int32_t saturation, int32_t value, int32_t out[3])
{
    for (int i = 0; i < 3; i++) {
        int32_t at = (hue + HUES - i * HUES / 3) % HUES;
        int32_t far = at < HUES / 2 ? at : HUES - at;
        int32_t pure = clamp(512 - far, 0, 256);
        out[i] = value * (256 - saturation + saturation * pure / 256) / 256;
    }
}

/* Most pictures have a long side of about 500, some are small or large. */
static void choose_size(struct picture *picture, struct philox *stream)
{
    static const int32_t ratios[][2] = {{3, 4}, {3, 4}, {2, 3}, {1, 1}, {9, 16}};
    int32_t kind = pick(stream, 0, 99);
    int32_t side = kind < 65   ? pick(stream, 480, 512)
                   : kind < 84 ? pick(stream, 214, 480)
                               : pick(stream, 512, 1200);
    const int32_t *ratio = ratios[pick(stream, 0, 4)];
    uint32_t other = (uint32_t)clamp(side * ratio[0] / ratio[1] + pick(stream, -9, 9), 160, side);
    bool portrait = pick(stream, 0, 3) == 0;
    picture->width = portrait ? other : (uint32_t)side;
    picture->height = portrait ? (uint32_t)side : other;
}

static void choose_surface(struct surface *surface, struct philox *stream, int32_t hue,
                           int32_t roughness)
{
    for (int i = 0; i < 2; i++) {
        int32_t own = (hue + pick(stream, -90, 90) + HUES) % HUES;
        int32_t saturation = pick(stream, 60, 200);
        int32_t value = pick(stream, 90, 230);
        colour_of(own, saturation, value, surface->colour[i]);
    }
    surface->light_x = pick(stream, -60, 60);
    surface->light_y = pick(stream, -90, 40);
    surface->roughness = roughness * pick(stream, 32, 384) / 256;
}

static void choose_scene(struct scene *scene, const struct picture *picture, struct philox *stream,
                         uint32_t cls, uint32_t classes)
{
    int32_t width = (int32_t)picture->width;
    int32_t height = (int32_t)picture->height;
    int32_t hue = (int32_t)((uint64_t)cls * HUES / classes);
    int32_t roughness = pick(stream, 0, 27);
    roughness = 40 + roughness * pick(stream, 0, 20);
    scene->tint = pick(stream, 10, 60);
    scene->surfaces = (uint32_t)pick(stream, 4, 1 + SHAPES_MAX);
    for (uint32_t i = 0; i < scene->surfaces; i++) {
        struct surface *surface = &scene->surface[i];
        surface->kind =
            pick(stream, 0, 4) ? (enum kind)(cls % KINDS) : (enum kind)pick(stream, 0, KINDS - 1);
        surface->x = i ? pick(stream, 0, width) : width / 2;
        surface->y = i ? pick(stream, 0, height) : height / 2;
        surface->rx = i ? pick(stream, width / 24, width / 4) : width / 2;
        surface->ry = i ? pick(stream, height / 24, height / 4) : height / 2;
        choose_surface(surface, stream, (hue + (i % 3 == 2 ? HUES / 3 : 0)) % HUES, roughness);
    }
}

static bool inside(const struct surface *surface, int32_t dx, int32_t dy)
{
    int32_t x = dx * 256 / surface->rx; /* of 256 */
    int32_t y = dy * 256 / surface->ry;
    int32_t square = x * x + y * y;
    switch (surface->kind) {
    case ELLIPSE:
        return square <= 256 * 256;
    case BOX:
        return true;
    case STRIPES:
        return ((x + y + 1024) / 64) % 2 == 0;
    default:
        return square <= 256 * 256 && (square / 8192) % 2 == 0;
    }
}

/* Which surface is seen at each pixel. */
static void cover(const struct scene *scene, const struct picture *picture, uint8_t *seen)
{
    for (uint32_t i = 1; i < scene->surfaces; i++) {
        const struct surface *surface = &scene->surface[i];
        int32_t left = clamp(surface->x - surface->rx, 0, (int32_t)picture->width);
        int32_t right = clamp(surface->x + surface->rx, 0, (int32_t)picture->width);
        int32_t top = clamp(surface->y - surface->ry, 0, (int32_t)picture->height);
        int32_t bottom = clamp(surface->y + surface->ry, 0, (int32_t)picture->height);
        for (int32_t y = top; y < bottom; y++)
            for (int32_t x = left; x < right; x++)
                if (inside(surface, x - surface->x, y - surface->y))
                    seen[(uint32_t)y * picture->width + (uint32_t)x] = (uint8_t)i;
    }
}

/* fine: -2048..2047 or so, the texture; coarse: the same, what mixes the two colours. */
static void shade(const struct scene *scene, const struct surface *surface, int32_t dx, int32_t dy,
                  int32_t fine, int32_t coarse, int32_t out[3])
{
    int32_t mix = clamp(128 + coarse / 8, 0, 256);
    int32_t light = 256 + dx * surface->light_x / surface->rx + dy * surface->light_y / surface->ry;
    int32_t texture = fine * surface->roughness / 4096;
    int32_t tint = coarse * scene->tint / 8192;
    for (int i = 0; i < 3; i++) {
        int32_t base = (surface->colour[0][i] * (256 - mix) + surface->colour[1][i] * mix) / 256;
        out[i] = clamp(base * light / 256 + texture + (1 - i) * tint, 0, 255);
    }
}

static void paint(struct picture *picture, const struct scene *scene, const uint8_t *seen,
                  const int16_t *fine, const int16_t *coarse)
{
    uint8_t *out = picture->pixels;
    for (uint32_t y = 0; y < picture->height; y++) {
        for (uint32_t x = 0; x < picture->width; x++) {
            size_t at = (size_t)y * picture->width + x;
            const struct surface *surface = &scene->surface[seen[at]];
            int32_t rgb[3];
            shade(scene, surface, (int32_t)x - surface->x, (int32_t)y - surface->y, fine[at],
                  coarse[at], rgb);
            if (picture->grey) {
                *out++ = (uint8_t)((77 * rgb[0] + 150 * rgb[1] + 29 * rgb[2]) / 256);
            } else {
                for (int i = 0; i < 3; i++)
                    *out++ = (uint8_t)rgb[i];
            }
        }
    }
}

void picture_draw(struct picture *picture, uint64_t seed, uint32_t number, uint32_t cls,
                  uint32_t classes)
{
    struct philox stream;
    philox_start(&stream, seed, PHILOX_PACK, 0, 1, number);
    choose_size(picture, &stream);
    picture->grey = pick(&stream, 0, 19) == 0;
    picture->full_chroma = pick(&stream, 0, 3) == 0;
    picture->quality = pick(&stream, 75, 95);
    struct scene scene;
    choose_scene(&scene, picture, &stream, cls, classes);

    size_t area = (size_t)picture->width * picture->height;
    cleanup_free uint8_t *seen = mem_array(area, 1);
    cleanup_free int16_t *fine = mem_array(area, sizeof *fine);
    cleanup_free int16_t *coarse = mem_array(area, sizeof *coarse);
    picture->pixels = mem_array(area, picture->grey ? 1 : 3);
    cover(&scene, picture, seen);
    int32_t fineness = pick(&stream, 230, 290);
    fractal_add(fine, picture->width, picture->height, &stream, 5, 0, fineness);
    fractal_add(coarse, picture->width, picture->height, &stream, FRACTAL_COARSEST, 3, 200);
    paint(picture, &scene, seen, fine, coarse);
}

void picture_drop(struct picture *picture)
{
    free(picture->pixels);
}
