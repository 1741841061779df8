/* What a file that is no tar archive probably is, and what to do about it. Pure. */
#ifndef TAR_KIND_H
#define TAR_KIND_H

#include <stddef.h>
#include <stdint.h>

/* From its first bytes; NULL = not known. */
const char *tar_kind_guess(const uint8_t *bytes, size_t size);

#endif
