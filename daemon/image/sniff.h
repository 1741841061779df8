/* What kind of file some bytes are, by content. */
#ifndef SNIFF_H
#define SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool sniff_jpeg(const uint8_t *bytes, size_t size);
/* Name of another format of pictures ("PNG"); NULL where it is none that we know. */
const char *sniff_other(const uint8_t *bytes, size_t size);
/* The first bytes for a message: printable ones as they are, others as \xNN. Returns text. */
char *sniff_words(const uint8_t *bytes, size_t size, char *text, size_t room);

#endif
