/* The `transform` and `output` values of a feed. */
#ifndef CONFIG_TRANSFORM_H
#define CONFIG_TRANSFORM_H

#include "config_yaml.h"

/* A preset's name or a list of operations; target: struct transform. */
int config_transform(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target);
/* uint8_nhwc and so on; target: enum pixels. */
int config_output(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target);
/* Three numbers; target: float[3]. */
int config_three(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target);

#endif
