#include "config_yaml.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define DEPTH_MAX 16

int config_yaml_error(struct config_yaml *yaml, const yaml_node_t *node, const char *key,
                      const char *format, ...)
{
    char what[ERROR_TEXT_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    size_t line = node ? node->start_mark.line + 1 : 1;
    return error_set(yaml->err, -EINVAL, "%s:%zu: %s: %s", yaml->path, line, key, what);
}

static int event_error(struct config_yaml *yaml, const yaml_mark_t *mark, const char *what)
{
    return error_set(yaml->err, -EINVAL, "%s:%zu: %s", yaml->path, mark->line + 1, what);
}

static int parser_error(struct config_yaml *yaml, const yaml_parser_t *parser)
{
    return error_set(yaml->err, -EINVAL, "%s:%zu: not valid YAML: %s%s%s", yaml->path,
                     parser->problem_mark.line + 1, parser->context ? parser->context : "",
                     parser->context ? ", " : "", parser->problem ? parser->problem : "unreadable");
}

struct scan {
    int documents;
    int depth;
};

static int check_event(struct config_yaml *yaml, const yaml_event_t *event, struct scan *scan)
{
    const yaml_mark_t *mark = &event->start_mark;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return event_error(yaml, mark, "aliases are not allowed; write the value out");
    case YAML_DOCUMENT_START_EVENT:
        return ++scan->documents > 1
                   ? event_error(yaml, mark, "a second document: only one is read")
                   : 0;
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        return ++scan->depth > DEPTH_MAX ? event_error(yaml, mark, "nested too deeply") : 0;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        scan->depth--;
        return 0;
    default:
        return 0;
    }
}

/* The document loader resolves aliases and stops after one document without a word, so a pass over
 * the events comes first. */
static int check_events(struct config_yaml *yaml, const char *text, size_t size)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(yaml->err, -ENOMEM, "%s: no memory to read it", yaml->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    struct scan scan = {0};
    int rc = 0;
    bool end = false;
    while (rc == 0 && !end) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = parser_error(yaml, &parser);
            break;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        rc = check_event(yaml, &event, &scan);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (rc == 0 && scan.documents == 0)
        rc = error_set(yaml->err, -EINVAL, "%s:1: the file is empty: at least one feed is needed",
                       yaml->path);
    return rc;
}

int config_yaml_open(struct config_yaml *yaml, const char *path, const char *text, size_t size,
                     struct error *err)
{
    *yaml = (struct config_yaml){.path = path, .err = err};
    int rc = check_events(yaml, text, size);
    if (rc)
        return rc;
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(err, -ENOMEM, "%s: no memory to read it", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (!yaml_parser_load(&parser, &yaml->document))
        rc = parser_error(yaml, &parser);
    yaml_parser_delete(&parser);
    return rc;
}

void config_yaml_close(struct config_yaml *yaml)
{
    yaml_document_delete(&yaml->document);
}

static const struct config_key *find_key(const struct config_key *table, size_t count,
                                         const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static int unknown_key(struct config_yaml *yaml, const yaml_node_t *node, const char *name,
                       const char *what, const struct config_key *table, size_t count)
{
    char known[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 table[i].name);
    return config_yaml_error(yaml, node, name, "unknown key in %s; known are: %s", what, known);
}

static int map_pair(struct config_yaml *yaml, const yaml_node_pair_t *pair, const char *what,
                    const struct config_key *table, size_t count, void *base, uint64_t *seen)
{
    yaml_node_t *key = yaml_document_get_node(&yaml->document, pair->key);
    yaml_node_t *value = yaml_document_get_node(&yaml->document, pair->value);
    const char *name = config_yaml_text(yaml, key, what);
    if (!name)
        return -EINVAL;
    const struct config_key *entry = find_key(table, count, name);
    if (!entry)
        return unknown_key(yaml, key, name, what, table, count);
    uint64_t bit = 1ULL << (entry - table);
    if (*seen & bit)
        return config_yaml_error(yaml, key, name, "given twice");
    *seen |= bit;
    return entry->parse(yaml, value, name, (char *)base + entry->offset);
}

int config_yaml_map(struct config_yaml *yaml, yaml_node_t *node, const char *what,
                    const struct config_key *table, size_t count, void *base, uint64_t *seen)
{
    uint64_t keys = 0;
    if (node->type != YAML_MAPPING_NODE)
        return config_yaml_error(yaml, node, what, "must be a mapping of keys to values");
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        int rc = map_pair(yaml, pair, what, table, count, base, &keys);
        if (rc)
            return rc;
    }
    if (seen)
        *seen = keys;
    return 0;
}

int config_yaml_each(struct config_yaml *yaml, yaml_node_t *node, const char *key,
                     int (*parse)(struct config_yaml *, yaml_node_t *, const char *, void *),
                     void *target)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return parse(yaml, node, key, target);
    for (const yaml_node_item_t *item = node->data.sequence.items.start;
         item < node->data.sequence.items.top; item++) {
        int rc = parse(yaml, yaml_document_get_node(&yaml->document, *item), key, target);
        if (rc)
            return rc;
    }
    return 0;
}

bool config_yaml_single(struct config_yaml *yaml, yaml_node_t *node, const char **name,
                        yaml_node_t **value)
{
    if (node->type != YAML_MAPPING_NODE ||
        node->data.mapping.pairs.top - node->data.mapping.pairs.start != 1)
        return false;
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    yaml_node_t *key = yaml_document_get_node(&yaml->document, pair->key);
    if (key->type != YAML_SCALAR_NODE)
        return false;
    *name = (const char *)key->data.scalar.value;
    *value = yaml_document_get_node(&yaml->document, pair->value);
    return true;
}

const char *config_yaml_text(struct config_yaml *yaml, yaml_node_t *node, const char *key)
{
    if (node->type != YAML_SCALAR_NODE) {
        config_yaml_error(yaml, node, key, "must be a single value");
        return NULL;
    }
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length) {
        config_yaml_error(yaml, node, key, "contains a NUL character");
        return NULL;
    }
    return text;
}

int config_yaml_string(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    if (!*text)
        return config_yaml_error(yaml, node, key, "must not be empty");
    *(char **)target = mem_string(text);
    return 0;
}

int config_parse_u64(const char *text, uint64_t *out)
{
    if (!isdigit((unsigned char)text[0]) || (text[0] == '0' && text[1]))
        return -EINVAL;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*end)
        return -EINVAL;
    return -errno;
}

static uint64_t unit_of(const char *suffix)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"kB", 1000},
                 {"KB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"TB", 1000000000000},
                 {"KiB", 1ULL << 10},
                 {"MiB", 1ULL << 20},
                 {"GiB", 1ULL << 30},
                 {"TiB", 1ULL << 40}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, suffix) == 0)
            return units[i].bytes;
    return 0;
}

int config_parse_size(const char *text, uint64_t *out)
{
    char digits[24];
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length >= sizeof digits)
        return -EINVAL;
    memcpy(digits, text, length);
    digits[length] = '\0';
    const char *suffix = text + length;
    uint64_t unit = unit_of(*suffix == ' ' ? suffix + 1 : suffix), number;
    int rc = unit ? config_parse_u64(digits, &number) : -EINVAL;
    if (rc)
        return rc;
    return __builtin_mul_overflow(number, unit, out) ? -ERANGE : 0;
}

int config_yaml_u64(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    if (config_parse_u64(text, target))
        return config_yaml_error(yaml, node, key, "\"%s\" is not a whole decimal number >= 0",
                                 text);
    return 0;
}

int config_yaml_i64(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    uint64_t value = 0;
    int rc = config_yaml_u64(yaml, node, key, &value);
    if (rc)
        return rc;
    if (value > INT64_MAX)
        return config_yaml_error(yaml, node, key, "is too large");
    *(int64_t *)target = (int64_t)value;
    return 0;
}

int config_yaml_u32(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    uint64_t value = 0;
    int rc = config_yaml_u64(yaml, node, key, &value);
    if (rc)
        return rc;
    if (value > UINT32_MAX)
        return config_yaml_error(yaml, node, key, "%llu is too large", (unsigned long long)value);
    *(uint32_t *)target = (uint32_t)value;
    return 0;
}

static bool is_auto(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE &&
           strcmp((const char *)node->data.scalar.value, "auto") == 0;
}

int config_yaml_u32_auto(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    if (is_auto(node)) {
        *(uint32_t *)target = 0;
        return 0;
    }
    int rc = config_yaml_u32(yaml, node, key, target);
    if (rc == 0 && *(uint32_t *)target == 0)
        return config_yaml_error(yaml, node, key, "must be at least 1, or auto");
    return rc;
}

int config_yaml_size(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    if (config_parse_size(text, target))
        return config_yaml_error(yaml, node, key, "\"%s\" is not a size such as 512MiB or 16GiB",
                                 text);
    return 0;
}

int config_yaml_size_auto(struct config_yaml *yaml, yaml_node_t *node, const char *key,
                          void *target)
{
    if (is_auto(node)) {
        *(uint64_t *)target = 0;
        return 0;
    }
    int rc = config_yaml_size(yaml, node, key, target);
    if (rc == 0 && *(uint64_t *)target == 0)
        return config_yaml_error(yaml, node, key, "must be more than 0, or auto");
    return rc;
}

int config_yaml_double(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    bool plain = *text && strspn(text, "0123456789.eE+-") == strlen(text);
    char *end;
    double value = plain ? strtod(text, &end) : NAN;
    if (!plain || *end || !isfinite(value))
        return config_yaml_error(yaml, node, key, "\"%s\" is not a number", text);
    *(double *)target = value;
    return 0;
}

int config_yaml_doubles(struct config_yaml *yaml, yaml_node_t *node, const char *key, double *out,
                        size_t count)
{
    if (node->type != YAML_SEQUENCE_NODE ||
        (size_t)(node->data.sequence.items.top - node->data.sequence.items.start) != count)
        return config_yaml_error(yaml, node, key, "must be a list of %zu numbers", count);
    for (size_t i = 0; i < count; i++) {
        yaml_node_t *item =
            yaml_document_get_node(&yaml->document, node->data.sequence.items.start[i]);
        int rc = config_yaml_double(yaml, item, key, &out[i]);
        if (rc)
            return rc;
    }
    return 0;
}

uint64_t config_yaml_mix(uint64_t sum, const void *bytes, size_t size)
{
    for (const unsigned char *byte = bytes; size--; byte++)
        sum = (sum ^ *byte) * 0x100000001b3U;
    return sum;
}

/* The document is not deeper than config_yaml_open allows. */
uint64_t config_yaml_digest(struct config_yaml *yaml, const yaml_node_t *node, uint64_t sum)
{
    sum = config_yaml_mix(sum, &node->type, sizeof node->type);
    if (node->type == YAML_SCALAR_NODE)
        sum = config_yaml_mix(sum, node->data.scalar.value, node->data.scalar.length);
    if (node->type == YAML_SEQUENCE_NODE)
        for (const yaml_node_item_t *item = node->data.sequence.items.start;
             item < node->data.sequence.items.top; item++)
            sum = config_yaml_digest(yaml, yaml_document_get_node(&yaml->document, *item), sum);
    if (node->type == YAML_MAPPING_NODE)
        for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
             pair < node->data.mapping.pairs.top; pair++) {
            sum = config_yaml_digest(yaml, yaml_document_get_node(&yaml->document, pair->key), sum);
            sum =
                config_yaml_digest(yaml, yaml_document_get_node(&yaml->document, pair->value), sum);
        }
    return config_yaml_mix(sum, "", 1);
}
