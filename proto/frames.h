/* Length-prefixed frames out of and into byte buffers. No I/O, no allocation beyond the unpack.
 *
 * The unpack runs with an allocator capped by the caller, since protobuf-c multiplies the bytes
 * of a hostile frame by up to 84. */
#ifndef DLP_FRAMES_H
#define DLP_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "dataload.pb-c.h"

/* Bytes of the frame of env, prefix included. */
size_t dlp_frame_size(const Dlp__Envelope *env);
/* Writes the frame of env to out, which has room for dlp_frame_size() bytes. */
size_t dlp_frame_pack(const Dlp__Envelope *env, uint8_t *out);

/* Looks at the start of a byte buffer. Returns 0 when no whole frame is there yet, the size of
 * the frame (prefix included) when it is, -EMSGSIZE when it is longer than max, -EPROTO when it
 * is empty. */
long dlp_frame_peek(const uint8_t *bytes, size_t size, size_t max);
/* Unpacks the frame of `size` bytes at bytes; at most unpack_max bytes are allocated. NULL when it
 * is malformed or over the cap. Free with dlp_frame_free. */
Dlp__Envelope *dlp_frame_unpack(const uint8_t *bytes, size_t size, size_t unpack_max);
void dlp_frame_free(Dlp__Envelope *env);
/* The same of any message without a prefix. Free with dlp_unpacked_free. */
void *dlp_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                 size_t unpack_max);
void dlp_unpacked_free(void *message); /* NULL is fine */

/* True when text is a name by the rule [A-Za-z0-9._:/-]{1,128}. */
int dlp_name_valid(const char *text);
/* The same of a feed, which may also be a user's own: ~UID/NAME. */
int dlp_feed_name_valid(const char *text);
/* Copies text to out (size > 0) with control characters, those that turn the direction of text,
 * backslash and invalid UTF-8 escaped as \xNN: what comes from peers or shards is sent and printed
 * only through this. Cuts at a character boundary; returns out. */
char *dlp_escape(const char *text, char *out, size_t size);
/* The same for a text that the sender should have escaped: backslashes stay as they are. */
char *dlp_printable(const char *text, char *out, size_t size);

#endif
