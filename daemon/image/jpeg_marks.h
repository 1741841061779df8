/* Marks of a JPEG: where in its scan every so many MCUs begin, and the DC predictors there, so that
 * a later decoding goes straight to the MCUs that it needs. Recorded while the picture is decoded,
 * as far as that gets, and packed into an entry of a few bytes a mark. For pictures without
 * restart markers. Pure; one object a thread.
 *
 * An entry serves only the very bytes that it was recorded from: it holds an XXH3-64 of them, and
 * one of itself. Where decoding comes across a mark without a jump, its state must be the mark's.
 *
 * Entry, in the machine's byte order: struct jpeg_marks_head, then the marks, `width` bits each,
 * lowest first; 8 bytes more, so that a mark is one load. A mark: bits since the one before, zeros
 * stuffed since then, DC predictors; each less its base, in as many bits as the largest takes. */
#ifndef JPEG_MARKS_H
#define JPEG_MARKS_H

#include "image/jpeg_header.h"

enum {
    JPEG_MARKS_ROOM = 16384, /* bytes of an entry, at most */
    JPEG_MARKS_MOST = 8192,  /* marks held while recording */
    JPEG_MARKS_FIELDS = 2 + JPEG_COMPONENTS,
};

/* Room for an entry, and what came of it. The owner is whoever decodes. */
struct jpeg_marks_entry {
    uint8_t *bytes; /* all zeros: there is none */
    size_t room;
    bool used;    /* the picture was decoded with it */
    bool wrong;   /* it is not one of this picture, or misled, and was not used */
    bool changed; /* bytes are another entry now, to be kept */
};

struct jpeg_marks_head {
    uint64_t check;   /* of all behind it */
    uint64_t picture; /* of the bytes of the JPEG */
    uint16_t step;    /* MCUs between two marks; the first is at MCU `step` */
    uint16_t count;
    uint16_t base[1 + JPEG_COMPONENTS]; /* least distance in 8 bits; predictors, signed */
    uint8_t bits[JPEG_MARKS_FIELDS];    /* distance, zeros, predictors */
    uint8_t spare[7];
};

/* The state before an MCU. */
struct jpeg_mark {
    uint32_t bit;   /* from the start of the scan, stuffed zeros not counted */
    uint32_t zeros; /* stuffed before the byte that holds it */
    int16_t dc[JPEG_COMPONENTS];
};

struct jpeg_marks;

struct jpeg_marks *jpeg_marks_new(void);
void jpeg_marks_free(struct jpeg_marks *marks); /* NULL is fine */

/* Takes up the entry of the picture, where it is one. false: neither marks nor recording for this
 * kind of picture. The entry and the bytes stay in use until jpeg_marks_keep. */
bool jpeg_marks_begin(struct jpeg_marks *marks, struct jpeg_marks_entry *entry,
                      const struct jpeg_header *header, const uint8_t *bytes, size_t size);
/* The entry misled: records from the start. false: there was none. */
bool jpeg_marks_forget(struct jpeg_marks *marks);
/* After a decoding that went well: puts what was recorded beyond the entry into it. */
void jpeg_marks_keep(struct jpeg_marks *marks);

/* The last mark at or before an MCU, and its MCU; NULL: none behind `from`. Ascending calls. */
const struct jpeg_mark *jpeg_marks_find(struct jpeg_marks *marks, uint32_t from, uint32_t *mcu);
/* Decoding gets to an MCU that jpeg_marks_next named: compares or records. false: not as marked. */
bool jpeg_marks_pass(struct jpeg_marks *marks, uint32_t mcu, uint64_t bit, const int32_t *dc);
/* The next MCU behind this one to tell of. */
uint32_t jpeg_marks_next(const struct jpeg_marks *marks, uint32_t mcu);

#endif
