#include "store/sample_name.h"

#include <string.h>

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* Is the component in front of base (with its slash) there and free of dots? */
static bool parent_is_plain(const char *name, const char *base)
{
    if (base == name)
        return false;
    for (size_t i = (size_t)(base - name) - 1; i > 0 && name[i - 1] != '/'; i--)
        if (name[i - 1] == '.')
            return false;
    return true;
}

bool sample_name_split(const char *name, size_t *key_length, const char **suffix)
{
    const char *base = base_of(name);
    const char *dot = strchr(base, '.');
    if (!dot || (dot == base && !parent_is_plain(name, base)))
        return false;
    *key_length = (size_t)(dot - name);
    *suffix = dot + 1;
    return true;
}

static bool is_meta(const char *name)
{
    size_t length = strcspn(name, "/");
    return length >= 4 && !memcmp(name, "__", 2) && !memcmp(name + length - 2, "__", 2);
}

bool sample_name_is_skipped(const char *name)
{
    const char *base = base_of(name);
    return is_meta(name) || !strncmp(base, "._", 2) || !strcmp(base, ".DS_Store");
}
