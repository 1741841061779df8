#include "image/decoder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/exif.h"
#include "base/mem.h"
#include "image/geometry.h"
#include "image/jpeg.h"
#include "image/jpeg_marks.h"
#include "image/planes.h"
#include "image/resample.h"
#include "image/simd.h"
#include "image/sniff.h"
#include "image/tensor.h"
#include "image/turn.h"

enum { ALIGN = 64, GROW = 65536 };

/* Scratch over KEEP goes once so many pictures in a row have needed less than a quarter of it. */
enum { KEEP = 4 << 20, PATIENCE = 32 };

struct decoder {
    struct decoder_limits limits;
    struct jpeg_image *jpeg;
    struct jpeg_marks_entry *entry; /* of the next picture; NULL = none */
    struct resampler *resampler;
    struct planes *planes; /* NULL: no fast way on this machine */
    struct tensor tensor;
    uint8_t *scratch;
    uint64_t capacity; /* of scratch */
    uint32_t idle;     /* pictures in a row that needed little of it */
};

/* Regions of the scratch: bytes, then offsets. */
struct layout {
    uint64_t picture, turned, work, stage[2];
    uint64_t total;
};

/* One picture on its way. */
struct job {
    struct decoder *decoder;
    const struct transform *transform;
    struct jpeg_marks_entry *entry; /* NULL = none */
    struct jpeg_image_header header;
    int orientation; /* to be applied; 1 = none */
    struct geometry geometry;
    struct layout layout;
    uint64_t borrowed;
    uint8_t *dst;
    struct decoder_result *result;
};

__attribute__((format(printf, 3, 4))) static bool
refuse(struct decoder_result *result, enum bad_class cls, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(result->reason, sizeof result->reason, format, args);
    va_end(args);
    result->cls = cls;
    return false;
}

struct decoder *decoder_new(const struct decoder_limits *limits)
{
    struct decoder *decoder = mem_new(sizeof *decoder);
    decoder->limits = *limits;
    decoder->jpeg = jpeg_image_new();
    decoder->resampler = resampler_new(resample_best());
    if (planes_best())
        decoder->planes = planes_new(planes_best());
    return decoder;
}

void decoder_free(struct decoder *decoder)
{
    if (!decoder)
        return;
    jpeg_image_free(decoder->jpeg);
    resampler_free(decoder->resampler);
    planes_free(decoder->planes);
    free(decoder->scratch);
    free(decoder);
}

static bool check_type(const uint8_t *bytes, size_t size, struct decoder_result *result)
{
    char words[64];
    if (size == 0)
        return refuse(result, BAD_EMPTY, "no bytes");
    if (sniff_jpeg(bytes, size))
        return true;
    const char *other = sniff_other(bytes, size);
    if (other)
        return refuse(result, BAD_UNSUP, "a %s picture, only JPEG is supported", other);
    return refuse(result, BAD_TYPE, "not a picture: it begins with \"%s\"",
                  sniff_words(bytes, size, words, sizeof words));
}

/* ------- memory ------- */

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_last(const struct job *job, uint32_t step)
{
    return step + 1 == job->geometry.count;
}

static uint64_t frame_bytes(const struct job *job)
{
    return (uint64_t)job->header.width * 3 * (uint64_t)job->header.height;
}

static void measure(struct job *job)
{
    struct layout *layout = &job->layout;
    const struct geometry *geometry = &job->geometry;
    struct resample_reach reach = resampler_reach(&geometry->steps[0]);
    *layout = (struct layout){.picture = frame_bytes(job)};
    if (job->orientation == 1) /* what the first step does not need is not decoded */
        layout->picture = (uint64_t)reach.width * 3 * (uint64_t)reach.height;
    else
        layout->turned = layout->picture;
    for (uint32_t i = 0; i < geometry->count; i++) {
        const struct geometry_step *step = &geometry->steps[i];
        uint64_t out = (uint64_t)step->win_w * 3 * (uint64_t)step->win_h;
        layout->work = most(layout->work, resampler_bytes(step));
        if (!is_last(job, i))
            layout->stage[i % 2] = most(layout->stage[i % 2], out);
    }
}

static uint64_t place(uint64_t *region, uint64_t at)
{
    uint64_t bytes = *region;
    *region = at;
    return bytes ? (at + bytes + RESAMPLE_SLACK + ALIGN - 1) / ALIGN * ALIGN : at;
}

static void arrange(struct layout *layout)
{
    uint64_t at = place(&layout->picture, 0);
    at = place(&layout->turned, at);
    at = place(&layout->work, at);
    at = place(&layout->stage[0], at);
    layout->total = place(&layout->stage[1], at);
}

static bool check_size(const struct job *job)
{
    const struct geometry *geometry = &job->geometry;
    const struct layout *layout = &job->layout;
    const struct decoder_limits *limits = &job->decoder->limits;
    uint64_t whole = job->header.memory + frame_bytes(job) + layout->turned + layout->work +
                     layout->stage[0] + layout->stage[1];
    if (whole <= limits->max)
        return true;
    return refuse(job->result, BAD_SIZE,
                  "%" PRId32 "x%" PRId32 " (result %" PRId32 "x%" PRId32 ") needs %.1f MB to "
                  "decode, the limit is %.1f MB (decode_memory)",
                  job->header.width, job->header.height, geometry->width, geometry->height,
                  (double)whole / 1e6, (double)limits->max / 1e6);
}

static bool check_row(const struct job *job, uint64_t capacity)
{
    const struct geometry *geometry = &job->geometry;
    uint64_t bytes = (uint64_t)geometry->width * 3 * (uint64_t)geometry->height *
                     pixels_size(job->transform->pixels);
    if (bytes <= capacity)
        return true;
    return refuse(job->result, BAD_SIZE,
                  "%" PRId32 "x%" PRId32 " takes %" PRIu64 " bytes, a row has %" PRIu64,
                  geometry->width, geometry->height, bytes, capacity);
}

static bool reserve(struct decoder *decoder, uint64_t bytes)
{
    if (decoder->capacity >= bytes)
        return true;
    free(decoder->scratch);
    decoder->capacity = (bytes + GROW - 1) / GROW * GROW;
    decoder->scratch = malloc(decoder->capacity);
    if (!decoder->scratch)
        decoder->capacity = 0;
    return decoder->scratch != NULL;
}

static bool take_memory(struct job *job)
{
    struct decoder *decoder = job->decoder;
    const struct decoder_limits *limits = &decoder->limits;
    arrange(&job->layout);
    uint64_t need = job->layout.total + job->header.memory;
    if (need > limits->share && limits->borrow) {
        job->result->busy = !limits->borrow(limits->context, need - limits->share);
        if (job->result->busy)
            return refuse(job->result, BAD_SIZE, "no room for %.1f MB to decode it",
                          (double)need / 1e6);
        job->borrowed = need - limits->share;
    }
    if (reserve(decoder, job->layout.total))
        return true;
    return refuse(job->result, BAD_SIZE, "the system has no %.1f MB to decode it",
                  (double)job->layout.total / 1e6);
}

static bool is_too_large(const struct job *job)
{
    struct decoder *decoder = job->decoder;
    decoder->idle = job->layout.total < decoder->capacity / 4 ? decoder->idle + 1 : 0;
    return job->borrowed || decoder->capacity > decoder->limits.share ||
           (decoder->capacity > KEEP && decoder->idle >= PATIENCE);
}

static void return_memory(struct job *job)
{
    struct decoder *decoder = job->decoder;
    const struct decoder_limits *limits = &decoder->limits;
    if (is_too_large(job)) {
        free(decoder->scratch);
        decoder->scratch = NULL;
        decoder->capacity = 0;
        resampler_trim(decoder->resampler);
    }
    if (job->borrowed && limits->give_back)
        limits->give_back(limits->context, job->borrowed);
    job->borrowed = 0;
}

/* ------- pixels ------- */

static bool take_fault(struct job *job)
{
    const struct jpeg_image_fault *fault = jpeg_image_fault(job->decoder->jpeg);
    job->result->damaged = fault->damaged;
    return refuse(job->result, fault->cls, "%s", fault->reason);
}

static bool open_picture(struct job *job, const uint8_t *bytes, size_t size)
{
    enum jpeg_way way = job->transform->turbo ? JPEG_TURBO : JPEG_AUTO;
    if (!jpeg_image_open(job->decoder->jpeg, bytes, size, way, &job->header))
        return take_fault(job);
    if (job->entry)
        jpeg_image_mark(job->decoder->jpeg, job->entry);
    int orientation = exif_orientation(bytes, size);
    job->result->turned = orientation != 1;
    job->orientation = job->transform->exif ? orientation : 1;
    return true;
}

static void draw(struct job *job, uint64_t seed, uint64_t epoch, uint64_t id)
{
    int32_t width = job->header.width, height = job->header.height;
    bool swap = turn_swaps(job->orientation);
    geometry_draw(job->transform, swap ? height : width, swap ? width : height, seed, epoch, id,
                  &job->geometry);
    job->result->width = job->geometry.width;
    job->result->height = job->geometry.height;
}

static bool decode(struct job *job)
{
    struct decoder *decoder = job->decoder;
    const struct geometry_step *first = &job->geometry.steps[0];
    struct resample_reach reach = resampler_reach(first);
    bool turn = job->orientation != 1;
    const struct jpeg_box all = {0, 0, job->header.width, job->header.height};
    const struct jpeg_box part = {first->box_x + reach.x, first->box_y + reach.y, reach.width,
                                  reach.height};
    const struct jpeg_box *box = turn ? &all : &part;
    uint8_t *picture = decoder->scratch + job->layout.picture;
    bool done = jpeg_image_read(decoder->jpeg, box, picture, 3 * (size_t)box->width);
    take_fault(job);
    if (done && turn)
        turn_rgb(picture, job->header.width, job->header.height, job->orientation,
                 decoder->scratch + job->layout.turned);
    return done;
}

/* Corner of what a step needs of the picture that it begins with. */
static const uint8_t *corner(const struct geometry_step *step, const uint8_t *src, size_t stride)
{
    struct resample_reach reach = resampler_reach(step);
    return src + (size_t)(step->box_y + reach.y) * stride + 3 * (size_t)(step->box_x + reach.x);
}

/* That of the first step, and the bytes between its rows. */
static const uint8_t *first_source(const struct job *job, size_t *stride)
{
    const struct geometry_step *first = &job->geometry.steps[0];
    const uint8_t *scratch = job->decoder->scratch;
    bool swap = turn_swaps(job->orientation);
    if (job->orientation == 1) {
        *stride = 3 * (size_t)resampler_reach(first).width;
        return scratch + job->layout.picture;
    }
    *stride = 3 * (size_t)(swap ? job->header.height : job->header.width);
    return corner(first, scratch + job->layout.turned, *stride);
}

/* What turns rows of RGB into the values of the output; NULL: they are these. */
static const struct tensor *set_tensor(const struct job *job)
{
    const struct transform *transform = job->transform;
    struct tensor *tensor = &job->decoder->tensor;
    if (transform->pixels == PIXELS_U8_NHWC)
        return NULL;
    tensor_set(tensor, transform->pixels, transform->mean, transform->std, simd_level());
    return tensor;
}

static bool transform_picture(struct job *job)
{
    struct decoder *decoder = job->decoder;
    const struct geometry *geometry = &job->geometry;
    const struct tensor *tensor = set_tensor(job);
    size_t stride;
    const uint8_t *src = first_source(job, &stride);
    for (uint32_t i = 0; i < geometry->count; i++) {
        const struct geometry_step *step = &geometry->steps[i];
        uint8_t *stage = decoder->scratch + job->layout.stage[i % 2];
        bool last = is_last(job, i);
        if (i > 0)
            src = corner(step, src, stride);
        if (resampler_run(decoder->resampler, step, src, stride, last ? tensor : NULL,
                          last ? job->dst : stage, decoder->scratch + job->layout.work) < 0)
            return refuse(job->result, BAD_SIZE, "the system has no memory to resize it");
        src = stage;
        stride = 3 * (size_t)step->win_w;
    }
    return true;
}

/* ------- pixels: fast ------- */

static bool goes_fast(const struct job *job)
{
    const struct jpeg_header *header = jpeg_image_own(job->decoder->jpeg);
    return job->transform->fast && job->decoder->planes && header && job->orientation == 1 &&
           planes_fit(header, &job->geometry);
}

static void measure_fast(struct job *job)
{
    const struct geometry_step *step = &job->geometry.steps[0];
    struct taps_key keys[2];
    resampler_keys(step, keys);
    job->layout = (struct layout){.work = planes_bytes(jpeg_image_own(job->decoder->jpeg), step) +
                                          taps_bytes(&keys[0]) + taps_bytes(&keys[1])};
}

/* False: damage, which the exact way tells. */
static bool read_planes(struct job *job)
{
    struct decoder *decoder = job->decoder;
    const struct geometry_step *step = &job->geometry.steps[0];
    const struct jpeg_box box = planes_box(step);
    const struct taps *taps[2];
    if (resampler_taps(decoder->resampler, step, taps) < 0)
        return false;
    planes_begin(decoder->planes, jpeg_image_own(decoder->jpeg), step, taps, set_tensor(job),
                 job->dst, decoder->scratch + job->layout.work);
    const struct jpeg_sink sink = planes_sink(decoder->planes);
    return jpeg_image_planes(decoder->jpeg, &box, &sink);
}

/* By marks, which are forgotten now: the bytes must not depend on what the cache holds. */
static bool was_misled(const struct job *job)
{
    return jpeg_image_own(job->decoder->jpeg);
}

static bool run_fast(struct job *job)
{
    uint64_t begin = clock_ns();
    measure_fast(job);
    if (job->layout.work + job->header.memory > job->decoder->limits.max)
        return false;
    bool done = take_memory(job) && (read_planes(job) || (was_misled(job) && read_planes(job)));
    return_memory(job);
    job->result->decode_ns += clock_ns() - begin;
    return done;
}

/* ------- all ------- */

static void run_exact(struct job *job)
{
    uint64_t begin = clock_ns();
    measure(job);
    if (take_memory(job)) {
        bool decoded = decode(job);
        uint64_t middle = clock_ns();
        job->result->decode_ns += middle - begin;
        if (decoded && transform_picture(job))
            job->result->transform_ns = clock_ns() - middle;
    }
    return_memory(job);
}

/* What is too large for the exact way is so for the other: it may have to step in. */
static void run_opened(struct job *job, uint64_t capacity)
{
    measure(job);
    if (!check_row(job, capacity) || !check_size(job))
        return;
    if (goes_fast(job) && run_fast(job))
        return;
    if (job->result->cls == BAD_NONE)
        run_exact(job);
}

void decoder_mark(struct decoder *decoder, struct jpeg_marks_entry *entry)
{
    decoder->entry = entry;
}

void decoder_run(struct decoder *decoder, const uint8_t *bytes, size_t size,
                 const struct transform *transform, uint64_t seed, uint64_t epoch, uint64_t id,
                 void *dst, size_t capacity, struct decoder_result *result)
{
    struct job job = {.decoder = decoder,
                      .transform = transform,
                      .entry = decoder->entry,
                      .dst = dst,
                      .result = result,
                      .orientation = 1};
    uint64_t begin = clock_ns();
    *result = (struct decoder_result){.cls = BAD_NONE};
    decoder->entry = NULL;
    if (!check_type(bytes, size, result))
        return;
    if (open_picture(&job, bytes, size)) {
        draw(&job, seed, epoch, id);
        result->decode_ns = clock_ns() - begin;
        run_opened(&job, capacity);
    }
    jpeg_image_close(decoder->jpeg);
}
