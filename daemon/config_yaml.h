/* A YAML document read by schema tables: which keys a mapping may have, how each value is parsed,
 * where it goes. Every error reads "file:line: key: what". Numbers are parsed from whole strings.
 */
#ifndef CONFIG_YAML_H
#define CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

#include "base/error.h"

struct config_yaml {
    const char *path;
    yaml_document_t document;
    struct error *err;
};

struct config_key {
    const char *name;
    /* Parses the value into target; the key's name is for errors. 0 or a negative errno. */
    int (*parse)(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target);
    size_t offset; /* of target in the struct behind the mapping */
};

/* One document without aliases, anchors, duplicate keys or deep nesting; anything else is -EINVAL.
 */
int config_yaml_open(struct config_yaml *yaml, const char *path, const char *text, size_t size,
                     struct error *err);
void config_yaml_close(struct config_yaml *yaml);

/* Parses a mapping by its table; unknown keys are errors that list the known ones. base is the
 * struct that the offsets refer to; *seen (may be NULL) gets bit i for table[i]. */
int config_yaml_map(struct config_yaml *yaml, yaml_node_t *node, const char *what,
                    const struct config_key *table, size_t count, void *base, uint64_t *seen);
/* Calls parse for each item of a sequence (or once for a scalar or mapping in its place). */
int config_yaml_each(struct config_yaml *yaml, yaml_node_t *node, const char *key,
                     int (*parse)(struct config_yaml *yaml, yaml_node_t *node, const char *key,
                                  void *target),
                     void *target);
int config_yaml_error(struct config_yaml *yaml, const yaml_node_t *node, const char *key,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A sum over all keys and values below a node, as written but for comments and layout; begun with
 * CONFIG_YAML_DIGEST, or with the sum of what came before. */
#define CONFIG_YAML_DIGEST 0xcbf29ce484222325U
uint64_t config_yaml_digest(struct config_yaml *yaml, const yaml_node_t *node, uint64_t sum);
uint64_t config_yaml_mix(uint64_t sum, const void *bytes, size_t size); /* FNV-1a */
/* Text of a scalar, or NULL with the error set. */
const char *config_yaml_text(struct config_yaml *yaml, yaml_node_t *node, const char *key);
/* First pair of a mapping with one key ({flip: 0.5}); false when it is not one. */
bool config_yaml_single(struct config_yaml *yaml, yaml_node_t *node, const char **name,
                        yaml_node_t **value);

/* Parsers of table entries; target types in brackets. "auto" is 0 where it says so. */
int config_yaml_string(struct config_yaml *, yaml_node_t *, const char *key,
                       void *target); /* char * */
int config_yaml_u32(struct config_yaml *, yaml_node_t *, const char *key,
                    void *target); /* uint32_t */
int config_yaml_u32_auto(struct config_yaml *, yaml_node_t *, const char *key,
                         void *target); /* uint32_t */
int config_yaml_u64(struct config_yaml *, yaml_node_t *, const char *key,
                    void *target); /* uint64_t */
int config_yaml_i64(struct config_yaml *, yaml_node_t *, const char *key,
                    void *target); /* int64_t */
int config_yaml_size(struct config_yaml *, yaml_node_t *, const char *key,
                     void *target); /* uint64_t: bytes */
int config_yaml_size_auto(struct config_yaml *, yaml_node_t *, const char *key, void *target);
int config_yaml_double(struct config_yaml *, yaml_node_t *, const char *key,
                       void *target); /* double */
/* A list of exactly count numbers. */
int config_yaml_doubles(struct config_yaml *, yaml_node_t *, const char *key, double *out,
                        size_t count);

/* Whole-string parsers, also for command lines: 0 or -EINVAL / -ERANGE. Sizes: 512, 4KiB, 16GiB,
 * 10MB. */
int config_parse_u64(const char *text, uint64_t *out);
int config_parse_size(const char *text, uint64_t *out);

#endif
