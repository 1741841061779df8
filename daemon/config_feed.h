/* One entry of `feeds`, or a recipe: an entry that stands alone, of a feed of a user's own. */
#ifndef CONFIG_FEED_H
#define CONFIG_FEED_H

#include "config_yaml.h"
#include "feed/spec.h"

/* *out is set also on error, to be given back by spec_unref. */
int config_feed_parse(struct config_yaml *yaml, yaml_node_t *node, struct feed_spec **out);
/* *out is a feed ~UID/NAME for this user alone, without files yet. A recipe names no file and
 * nobody else, so nothing is looked up for it. Errors read "recipe:line: key: what". */
int config_recipe_parse(const char *text, size_t size, uint32_t uid, struct feed_spec **out,
                        struct error *err);

#endif
