/* One JPEG -> a box of it as RGB, equal to Pillow's decoding: accurate DCT, fancy upsampling, grey
 * as three equal channels, CMYK and YCCK by Pillow's rule. Common files go to our own decoder,
 * which reads no more than the box needs; all others, and those in which it meets damage, to
 * libjpeg-turbo. Pixels and refusals are libjpeg-turbo's on both ways; a warning of what our own
 * does not read is not given. Every byte of the file is untrusted. One object a thread; a picture
 * leaves nothing behind in it. */
#ifndef JPEG_H
#define JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bad.h"

#define JPEG_SCANS_MAX 100 /* more is BAD-SIZE: each scan costs a pass over the whole picture */

/* Always libjpeg-turbo, or as it is fastest: without AVX2 that is libjpeg-turbo too. */
enum jpeg_way { JPEG_AUTO, JPEG_TURBO };

struct jpeg_image;
struct jpeg_header;
struct jpeg_sink;
struct jpeg_marks_entry;

struct jpeg_image_header {
    int32_t width, height;
    uint64_t memory; /* bytes that decoding takes inside, at most */
};

struct jpeg_image_fault {
    enum bad_class cls; /* BAD_NONE = none */
    bool damaged;       /* the library warned */
    char reason[200];
};

/* Part of a picture, in pixels. */
struct jpeg_box {
    int32_t x, y, width, height;
};

struct jpeg_image *jpeg_image_new(void);
void jpeg_image_free(struct jpeg_image *image);

/* Reads the headers; bytes stay in use until jpeg_image_close. false: see the fault. Close it in
 * either case. */
bool jpeg_image_open(struct jpeg_image *image, const uint8_t *bytes, size_t size, enum jpeg_way way,
                     struct jpeg_image_header *header);
/* Before jpeg_image_read, for this picture: room for an entry that lets later readings jump. Pixels
 * do not depend on it, whatever it holds. */
void jpeg_image_mark(struct jpeg_image *image, struct jpeg_marks_entry *entry);
/* The rows of the box, which lies in the picture, go to dst as RGB. false: see the fault. */
bool jpeg_image_read(struct jpeg_image *image, const struct jpeg_box *box, uint8_t *dst,
                     size_t stride);
/* Before it is read: the header where our own decoder does; NULL: libjpeg-turbo does. */
const struct jpeg_header *jpeg_image_own(const struct jpeg_image *image);
/* Samples as they are, image/jpeg_partial.h. Only of pictures that our own decoder reads; false: it
 * met damage, jpeg_image_read must follow and tells; but where jpeg_image_own is still there, marks
 * had misled it and are forgotten: once more. */
bool jpeg_image_planes(struct jpeg_image *image, const struct jpeg_box *box,
                       const struct jpeg_sink *sink);
const struct jpeg_image_fault *jpeg_image_fault(const struct jpeg_image *image);
void jpeg_image_close(struct jpeg_image *image);

#endif
