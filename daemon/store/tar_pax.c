#include "store/tar_pax.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define DIGITS_MAX 20

void tar_extra_done(struct tar_extra *extra)
{
    free(extra->path);
    free(extra->link);
    free(extra->sparse_name);
    *extra = (struct tar_extra){0};
}

/* An empty value takes a former one back. */
static const char *set_name(char **at, const char *value, uint64_t size)
{
    if (size > TAR_NAME_MAX || memchr(value, '\0', size))
        return "a name in it is too long or holds a NUL";
    free(*at);
    *at = size ? mem_format("%.*s", (int)size, value) : NULL;
    return NULL;
}

static const char *decimal(const char *text, uint64_t size, uint64_t *out)
{
    uint64_t value = 0;
    if (size == 0)
        return "a number in it is no number";
    for (uint64_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || value > (INT64_MAX - 9) / 10)
            return "a number in it is no number, or too large";
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *out = value;
    return NULL;
}

static bool is(const char *key, uint64_t size, const char *wanted)
{
    return size == strlen(wanted) && !memcmp(key, wanted, size);
}

static const char *take(struct tar_extra *extra, const char *key, uint64_t key_size,
                        const char *value, uint64_t size)
{
    static const char sparse[] = "GNU.sparse.";
    if (is(key, key_size, "path"))
        return set_name(&extra->path, value, size);
    if (is(key, key_size, "linkpath"))
        return set_name(&extra->link, value, size);
    if (is(key, key_size, "size")) {
        extra->has_size = size > 0;
        return size ? decimal(value, size, &extra->size) : NULL;
    }
    if ((key_size >= sizeof sparse - 1 && !memcmp(key, sparse, sizeof sparse - 1)) ||
        is(key, key_size, "SCHILY.realsize"))
        extra->sparse = true;
    if (is(key, key_size, "GNU.sparse.name"))
        return set_name(&extra->sparse_name, value, size);
    return NULL;
}

/* One record from the front of body; its length goes to *length. */
static const char *record(struct tar_extra *extra, const char *body, uint64_t size,
                          uint64_t *length)
{
    const char *space = memchr(body, ' ', size < DIGITS_MAX ? size : DIGITS_MAX);
    if (!space || decimal(body, (uint64_t)(space - body), length))
        return "a record in it has no length";
    uint64_t head = (uint64_t)(space + 1 - body);
    if (*length > size || *length <= head || body[*length - 1] != '\n')
        return "the length of a record in it is wrong";
    const char *key = body + head;
    uint64_t rest = *length - head - 1;
    const char *equals = memchr(key, '=', rest);
    if (!equals)
        return "a record in it has no '='";
    uint64_t key_size = (uint64_t)(equals - key);
    return take(extra, key, key_size, equals + 1, rest - key_size - 1);
}

const char *tar_pax_parse(struct tar_extra *extra, const char *body, uint64_t size)
{
    for (uint64_t length; size; body += length, size -= length) {
        const char *fault = record(extra, body, size, &length);
        if (fault)
            return fault;
    }
    return NULL;
}
