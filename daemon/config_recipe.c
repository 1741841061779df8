#include "config_recipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config_feed.h"
#include "proto/limits.h"

/* What a recipe cannot say, found before it is parsed: that may look up files and users. */
static int check_recipe(struct config_yaml *yaml, const yaml_node_t *node)
{
    static const struct {
        const char *key, *why;
    } refused[] = {
        {"source", "the client opens the shards of a feed of its own, and gives them"},
        {"folder", "a feed of one's own has shards, which the client opens and gives; "
                   "dataload-pack makes them of a folder"},
        {"exclude", "the daemon opens no file for a user"},
        {"allow", "a feed of one's own is for its user alone"},
    };
    if (!node || node->type != YAML_MAPPING_NODE)
        return config_yaml_error(yaml, node, "the recipe", "must be a mapping of keys to values");
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        yaml_node_t *key = yaml_document_get_node(&yaml->document, pair->key);
        const char *name = config_yaml_text(yaml, key, "the recipe");
        if (!name)
            return -EINVAL;
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
            if (strcmp(name, refused[i].key) == 0)
                return config_yaml_error(yaml, key, name, "%s: leave it out", refused[i].why);
    }
    return 0;
}

static int make_own(struct config_yaml *yaml, const yaml_node_t *node, struct feed_spec *spec,
                    uint32_t uid)
{
    char *name = mem_format("~%u/%s", uid, spec->name);
    free(spec->name);
    spec->name = name;
    spec->users = mem_array(1, sizeof *spec->users);
    spec->users[spec->nusers++] = uid;
    if (strlen(name) <= DLP_NAME_MAX)
        return 0;
    return config_yaml_error(yaml, node, "name",
                             "with the user's number it has %zu characters, at "
                             "most %u are possible",
                             strlen(name), DLP_NAME_MAX);
}

int config_recipe_parse(const char *text, size_t size, uint32_t uid, struct feed_spec **out,
                        struct error *err)
{
    struct config_yaml yaml;
    *out = NULL;
    int rc = config_yaml_open(&yaml, "recipe", text, size, err);
    if (rc)
        return rc;
    yaml_node_t *node = yaml_document_get_root_node(&yaml.document);
    rc = check_recipe(&yaml, node);
    if (!rc)
        rc = config_feed_parse(&yaml, node, true, out);
    if (!rc)
        rc = make_own(&yaml, node, *out, uid);
    config_yaml_close(&yaml);
    if (!rc)
        return 0;
    spec_unref(*out);
    *out = NULL;
    return rc;
}
