/* The recipe of a feed of a user's own: an entry of `feeds` that stands alone, and names no file
 * and nobody else. */
#ifndef CONFIG_RECIPE_H
#define CONFIG_RECIPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "feed/spec.h"

/* *out is a feed ~UID/NAME for this user alone, without files yet. Looks nothing up; the loop
 * thread may wait for it. Errors read "recipe:line: key: what". */
int config_recipe_parse(const char *text, size_t size, uint32_t uid, struct feed_spec **out,
                        struct error *err);

#endif
