#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* So is the recipe of a user, which names no file and nobody else. */
static void read_recipe(const char *text, size_t size)
{
    struct feed_spec *spec = NULL;
    struct error err = {0};
    if (config_recipe_parse(text, size, 1000, &spec, &err) == 0) {
        if (!spec || spec->npatterns || spec->exclude || spec->ngroups || spec->nusers != 1 ||
            strncmp(spec->name, "~1000/", 6) != 0)
            abort();
        spec_unref(spec);
    } else if (spec || !*err.text) {
        abort();
    }
}

/* A configuration is read, or refused in one line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *config = NULL;
    struct error err = {0};
    read_recipe((const char *)data, size);
    if (config_parse("F", (const char *)data, size, &config, &err) == 0) {
        if (!config || config->nfeeds == 0)
            abort();
        config_free(config);
    } else if (config || !*err.text) {
        abort();
    }
    return 0;
}
