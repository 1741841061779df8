/* One entry of `feeds`. */
#ifndef CONFIG_FEED_H
#define CONFIG_FEED_H

#include "config_yaml.h"
#include "feed/spec.h"

/* own: without a source, which its user gives. *out is set also on error, to be given back by
 * spec_unref. */
int config_feed_parse(struct config_yaml *yaml, yaml_node_t *node, bool own,
                      struct feed_spec **out);

#endif
