/* The configuration's `users`: what each user may have. Looks names up, which may block. */
#ifndef CONFIG_USERS_H
#define CONFIG_USERS_H

#include <sys/types.h>

#include "config_yaml.h"

/* A user by name or number; one that there is not is an error. */
int config_user(struct config_yaml *yaml, yaml_node_t *node, const char *key, uid_t *uid);
/* target: a struct users of the built-in defaults (control/users.h). */
int config_users(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target);

#endif
