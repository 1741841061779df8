#include "image/jpeg.h"

#include "base/mem.h"
#include "image/jpeg_marks.h"
#include "image/jpeg_partial.h"
#include "image/jpeg_turbo.h"
#include "image/simd.h"

struct jpeg_image {
    struct jpeg_partial *partial; /* NULL: libjpeg-turbo's vector code is faster than our plain C */
    struct jpeg_turbo *turbo;
    struct jpeg_marks *marks;       /* made when first asked for */
    struct jpeg_marks_entry *entry; /* of this picture; NULL = none */
    const uint8_t *bytes;
    size_t size;
    bool ours;   /* the header is one for our own decoder */
    bool opened; /* by libjpeg-turbo */
    struct jpeg_header header;
};

static bool open_turbo(struct jpeg_image *image, struct jpeg_image_header *header)
{
    image->opened = true;
    return jpeg_turbo_open(image->turbo, image->bytes, image->size, header);
}

bool jpeg_image_open(struct jpeg_image *image, const uint8_t *bytes, size_t size, enum jpeg_way way,
                     struct jpeg_image_header *header)
{
    image->bytes = bytes;
    image->size = size;
    image->entry = NULL;
    image->opened = false;
    image->ours =
        image->partial && way == JPEG_AUTO && jpeg_header_parse(&image->header, bytes, size);
    if (!image->ours)
        return open_turbo(image, header);
    /* What libjpeg-turbo takes, which is more than our own: a limit refuses the same on both ways.
     */
    const struct jpeg_header *own = &image->header;
    *header =
        (struct jpeg_image_header){own->width, own->height,
                                   jpeg_turbo_scan_bytes((uint32_t)own->width, own->components,
                                                         own->declared_h, own->declared_v)};
    return true;
}

void jpeg_image_mark(struct jpeg_image *image, struct jpeg_marks_entry *entry)
{
    entry->used = entry->wrong = entry->changed = false;
    image->entry = entry;
    if (!image->marks)
        image->marks = jpeg_marks_new();
}

/* False: this picture is decoded without marks. */
static bool begin_marks(struct jpeg_image *image)
{
    if (!image->entry ||
        !jpeg_marks_begin(image->marks, image->entry, &image->header, image->bytes, image->size))
        return false;
    jpeg_partial_mark(image->partial, image->marks);
    return true;
}

static bool end_marks(struct jpeg_image *image, bool done)
{
    jpeg_partial_mark(image->partial, NULL);
    if (done)
        jpeg_marks_keep(image->marks);
    return done;
}

static bool read_own(struct jpeg_image *image, const struct jpeg_box *box, uint8_t *dst,
                     size_t stride)
{
    struct jpeg_partial *partial = image->partial;
    const struct jpeg_header *header = &image->header;
    bool marked = begin_marks(image);
    bool done = jpeg_partial_read(partial, header, box, dst, stride);
    if (!marked)
        return done;
    if (!done && jpeg_marks_forget(image->marks))
        done = jpeg_partial_read(partial, header, box, dst, stride);
    return end_marks(image, done);
}

bool jpeg_image_read(struct jpeg_image *image, const struct jpeg_box *box, uint8_t *dst,
                     size_t stride)
{
    struct jpeg_image_header again;
    if (image->ours && read_own(image, box, dst, stride))
        return true;
    jpeg_partial_trim(image->partial);
    if (!image->opened && !open_turbo(image, &again))
        return false;
    return jpeg_turbo_read(image->turbo, box, dst, stride);
}

const struct jpeg_header *jpeg_image_own(const struct jpeg_image *image)
{
    return image->ours ? &image->header : NULL;
}

bool jpeg_image_planes(struct jpeg_image *image, const struct jpeg_box *box,
                       const struct jpeg_sink *sink)
{
    bool marked = begin_marks(image);
    bool done = jpeg_partial_planes(image->partial, &image->header, box, sink);
    image->ours = done || (marked && jpeg_marks_forget(image->marks));
    return marked ? end_marks(image, done) : done;
}

const struct jpeg_image_fault *jpeg_image_fault(const struct jpeg_image *image)
{
    static const struct jpeg_image_fault none = {.cls = BAD_NONE};
    return image->opened ? jpeg_turbo_fault(image->turbo) : &none;
}

void jpeg_image_close(struct jpeg_image *image)
{
    if (image->opened)
        jpeg_turbo_close(image->turbo);
    jpeg_partial_trim(image->partial);
}

struct jpeg_image *jpeg_image_new(void)
{
    struct jpeg_image *image = mem_new(sizeof *image);
    if (simd_level() >= SIMD_AVX2)
        image->partial = jpeg_partial_new(true);
    image->turbo = jpeg_turbo_new();
    return image;
}

void jpeg_image_free(struct jpeg_image *image)
{
    if (!image)
        return;
    jpeg_partial_free(image->partial);
    jpeg_turbo_free(image->turbo);
    jpeg_marks_free(image->marks);
    free(image);
}
