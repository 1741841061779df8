/* One entry of `feeds`. */
#ifndef CONFIG_FEED_H
#define CONFIG_FEED_H

#include "config_yaml.h"
#include "feed/spec.h"

/* *out is set also on error, to be freed. */
int config_feed_parse(struct config_yaml *yaml, yaml_node_t *node, struct feed_spec **out);
void config_feed_free(struct feed_spec *spec);

#endif
