/* The number of an int field: text of a part, a member of a json part, or a value of the index. */
#ifndef LABEL_H
#define LABEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/bad.h"
#include "feed/sample.h"
#include "feed/spec.h"

#define LABEL_JSON_MAX (256U * 1024U) /* bytes of one json part */
#define LABEL_JSON_DEPTH 32
#define LABEL_REASON_MAX 200

/* Each returns BAD_NONE, or BAD_LABEL with the reason. */

/* Optional white space, an optional sign, decimal digits, optional white space, nothing else; a
 * number beyond int64 is bad. */
enum bad_class label_text(const uint8_t *text, size_t size, int64_t *out,
                          char reason[LABEL_REASON_MAX]);
/* An integer member of the object at the top. */
enum bad_class label_json(const uint8_t *text, size_t size, const char *key, int64_t *out,
                          char reason[LABEL_REASON_MAX]);
/* By the field's settings; also 0 .. classes - 1. */
enum bad_class label_of(const struct field_spec *field, const struct sample_part *part,
                        int64_t *out, char reason[LABEL_REASON_MAX]);

#endif
