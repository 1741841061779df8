#include "config_feed.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config_transform.h"
#include "config_users.h"
#include "feed/shares.h"
#include "proto/limits.h"
#include "store/plan.h"

#define LAG_BOUND_MAX 3600U

static bool name_valid(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > DLP_NAME_MAX)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._:/-", *name))
            return false;
    return true;
}

static int parse_name(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    if (!name_valid(text))
        return config_yaml_error(yaml, node, key,
                                 "\"%s\" is no name: 1 to %u of A-Z a-z 0-9 . _ : / -", text,
                                 DLP_NAME_MAX);
    *(char **)target = mem_string(text);
    return 0;
}

static int add_pattern(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct feed_spec *spec = target;
    spec->patterns = mem_grow(spec->patterns, spec->npatterns + 1, sizeof *spec->patterns);
    spec->patterns[spec->npatterns] = NULL;
    int rc = config_yaml_string(yaml, node, key, &spec->patterns[spec->npatterns]);
    if (rc == 0)
        spec->npatterns++;
    return rc;
}

static int parse_source(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return config_yaml_each(yaml, node, key, add_pattern, target);
}

static int parse_folder(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    ((struct feed_spec *)target)->folder = true;
    return add_pattern(yaml, node, key, target);
}

static int add_suffix(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct field_spec *field = target;
    field->from = mem_grow(field->from, field->nfrom + 1, sizeof *field->from);
    field->from[field->nfrom] = NULL;
    int rc = config_yaml_string(yaml, node, key, &field->from[field->nfrom]);
    if (rc)
        return rc;
    for (char *at = field->from[field->nfrom++]; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return 0;
}

static int parse_from(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return config_yaml_each(yaml, node, key, add_suffix, target);
}

/* One of a list of words; target: int-sized enum whose values are the words' numbers. */
static int parse_word(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target,
                      const char *const *words, const char *known)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    for (unsigned i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *(unsigned *)target = i;
            return 0;
        }
    }
    return config_yaml_error(yaml, node, key, "\"%s\": known are %s", text, known);
}

static int parse_kind(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"image", "int", "bytes", "key", NULL};
    return parse_word(yaml, node, key, target, words, "image, int, bytes, key");
}

static int parse_tail(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"wrap", "drop", "partial", NULL};
    return parse_word(yaml, node, key, target, words, "wrap, drop, partial");
}

static int parse_policy(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"replace", "fail", NULL};
    return parse_word(yaml, node, key, target, words, "replace, fail");
}

static int parse_share(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"split", "mirror", NULL};
    return parse_word(yaml, node, key, target, words, "split, mirror");
}

static int parse_lag(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"wait", "detach", "skip", NULL};
    return parse_word(yaml, node, key, target, words, "wait, detach, skip");
}

static int parse_handoff(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"auto", "vmm", "ipc", "host", NULL};
    return parse_word(yaml, node, key, target, words, "auto, vmm, ipc, host");
}

static int parse_exif(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"ignore", "turn", NULL};
    unsigned word = 0;
    int rc = parse_word(yaml, node, key, &word, words, "ignore, turn");
    ((struct feed_spec *)target)->transform.exif = word == 1;
    return rc;
}

static int parse_decoder(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"auto", "turbo", NULL};
    unsigned word = 0;
    int rc = parse_word(yaml, node, key, &word, words, "auto, turbo");
    ((struct feed_spec *)target)->transform.turbo = word == 1;
    return rc;
}

static int parse_pixels(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"exact", "fast", NULL};
    unsigned word = 0;
    int rc = parse_word(yaml, node, key, &word, words, "exact, fast");
    ((struct feed_spec *)target)->transform.fast = word == 1;
    return rc;
}

static int parse_limit(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct feed_spec *spec = target;
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    size_t digits = strspn(text, "0123456789.");
    if (strcmp(text + digits, "%") != 0)
        return config_yaml_u64(yaml, node, key, &spec->bad_limit);
    char *end;
    spec->bad_limit_share = strtod(text, &end) / 100;
    if (end != text + digits || !(spec->bad_limit_share > 0 && spec->bad_limit_share <= 1))
        return config_yaml_error(yaml, node, key, "\"%s\" is no share such as 0.1%%", text);
    return 0;
}

static int parse_pin(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"batch", "seed", "slots", NULL};
    unsigned word = 0;
    int rc = parse_word(yaml, node, key, &word, words, "batch, seed, slots");
    if (rc == 0)
        *(uint32_t *)target |= 1U << word;
    return rc;
}

static int parse_pins(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return config_yaml_each(yaml, node, key, parse_pin, target);
}

static int add_user(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct feed_spec *spec = target;
    uid_t uid;
    int rc = config_user(yaml, node, key, &uid);
    if (rc)
        return rc;
    spec->users = mem_grow(spec->users, spec->nusers + 1, sizeof *spec->users);
    spec->users[spec->nusers++] = uid;
    return 0;
}

static int add_group(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct feed_spec *spec = target;
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    const struct group *group = getgrnam(text);
    uint64_t number;
    if (!group && (config_parse_u64(text, &number) || number > UINT32_MAX))
        return config_yaml_error(yaml, node, key, "no group \"%s\" on this machine", text);
    spec->groups = mem_grow(spec->groups, spec->ngroups + 1, sizeof *spec->groups);
    spec->groups[spec->ngroups++] = group ? group->gr_gid : (uint32_t)number;
    return 0;
}

static int parse_users(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return config_yaml_each(yaml, node, key, add_user, target);
}

static int parse_groups(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return config_yaml_each(yaml, node, key, add_group, target);
}

static int parse_allow(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const struct config_key keys[] = {{"users", parse_users, 0},
                                             {"groups", parse_groups, 0}};
    return config_yaml_map(yaml, node, key, keys, 2, target, NULL);
}

enum { KEY_FIELD_NAME, KEY_FROM, KEY_KIND, KEY_CLASSES, KEY_MAX_BYTES };

static struct field_spec *add_field(struct feed_spec *spec, const char *name, enum field_kind kind)
{
    struct field_spec *field = &spec->fields[spec->nfields++];
    field->kind = kind;
    field->name = mem_string(name);
    return field;
}

static void add_from(struct field_spec *field, const char *suffix)
{
    field->from = mem_grow(field->from, field->nfrom + 1, sizeof *field->from);
    field->from[field->nfrom++] = mem_string(suffix);
}

static int check_field(struct config_yaml *yaml, yaml_node_t *node, struct feed_spec *spec,
                       struct field_spec *field, uint64_t seen)
{
    if (!field->name)
        return config_yaml_error(yaml, node, "fields", "a field needs a name");
    if (!(seen & 1ULL << KEY_KIND))
        return config_yaml_error(yaml, node, field->name,
                                 "kind is missing: image, int, bytes or key");
    if (field->kind == FIELD_KEY && (field->nfrom || field->max_bytes))
        return config_yaml_error(yaml, node, field->name,
                                 "kind: key is the record's name: it has no from and no max_bytes");
    if (field->kind != FIELD_KEY && field->nfrom == 0)
        return config_yaml_error(yaml, node, field->name,
                                 "from is missing: the part to read, such as [jpg, jpeg]");
    if ((seen & 1ULL << KEY_CLASSES && field->classes == 0) ||
        (seen & 1ULL << KEY_MAX_BYTES && field->max_bytes == 0))
        return config_yaml_error(yaml, node, field->name,
                                 "classes and max_bytes must be at least 1, or be left out");
    if (field->kind != FIELD_INT && (field->classes || field->json_key))
        return config_yaml_error(yaml, node, field->name, "classes and key are for kind: int");
    if (field->kind == FIELD_INT && field->max_bytes)
        return config_yaml_error(yaml, node, field->name, "max_bytes is for kind: bytes and image");
    for (uint32_t i = 0; i + 1 < spec->nfields; i++)
        if (strcmp(spec->fields[i].name, field->name) == 0)
            return config_yaml_error(yaml, node, field->name, "two fields have this name");
    if (strcmp(field->name, "valid") == 0 || strcmp(field->name, "index") == 0)
        return config_yaml_error(yaml, node, field->name,
                                 "every batch has a field of this name already");
    return 0;
}

static int parse_field(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const struct config_key keys[] = {
        [KEY_FIELD_NAME] = {"name", parse_name, offsetof(struct field_spec, name)},
        [KEY_FROM] = {"from", parse_from, 0},
        [KEY_KIND] = {"kind", parse_kind, offsetof(struct field_spec, kind)},
        [KEY_CLASSES] = {"classes", config_yaml_i64, offsetof(struct field_spec, classes)},
        [KEY_MAX_BYTES] = {"max_bytes", config_yaml_size, offsetof(struct field_spec, max_bytes)},
        {"key", config_yaml_string, offsetof(struct field_spec, json_key)},
    };
    struct feed_spec *spec = target;
    if (spec->nfields == DATASET_FIELDS_MAX)
        return config_yaml_error(yaml, node, key, "more than %d fields", DATASET_FIELDS_MAX);
    struct field_spec *field = &spec->fields[spec->nfields++];
    uint64_t seen;
    int rc = config_yaml_map(yaml, node, "a field", keys, sizeof keys / sizeof *keys, field, &seen);
    return rc ? rc : check_field(yaml, node, spec, field, seen);
}

static int parse_fields(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return config_yaml_each(yaml, node, key, parse_field, target);
}

#define FEED(member) offsetof(struct feed_spec, member)

enum {
    KEY_NAME,
    KEY_SOURCE,
    KEY_FOLDER,
    KEY_FIELDS,
    KEY_TRANSFORM,
    KEY_SHUFFLE,
    KEY_TAIL,
    KEY_MEAN,
    KEY_STD,
    KEY_LAG,
    KEY_LAG_BOUND
};

static const struct config_key feed_keys[] = {
    [KEY_NAME] = {"name", parse_name, FEED(name)},
    [KEY_SOURCE] = {"source", parse_source, 0},
    [KEY_FOLDER] = {"folder", parse_folder, 0},
    [KEY_FIELDS] = {"fields", parse_fields, 0},
    [KEY_TRANSFORM] = {"transform", config_transform, FEED(transform)},
    [KEY_SHUFFLE] = {"shuffle", config_yaml_u64, FEED(shuffle)},
    [KEY_TAIL] = {"tail", parse_tail, FEED(tail)},
    [KEY_MEAN] = {"mean", config_three, FEED(transform.mean)},
    [KEY_STD] = {"std", config_three, FEED(transform.std)},
    [KEY_LAG] = {"lag", parse_lag, FEED(lag)},
    [KEY_LAG_BOUND] = {"lag_bound", config_yaml_u32, FEED(lag_bound)},
    {"output", config_output, FEED(transform.pixels)},
    {"batch", config_yaml_u32, FEED(batch)},
    {"weight", config_yaml_u32, FEED(weight)},
    {"lanes", config_yaml_u32, FEED(lanes)},
    {"seed", config_yaml_u64, FEED(seed)},
    {"slots", config_yaml_u32, FEED(slots)},
    {"exif", parse_exif, 0},
    {"decoder", parse_decoder, 0},
    {"pixels", parse_pixels, 0},
    {"bad_samples", parse_policy, FEED(bad_samples)},
    {"bad_limit", parse_limit, 0},
    {"share", parse_share, FEED(share)},
    {"handoff", parse_handoff, FEED(handoff)},
    {"pin", parse_pins, FEED(pinned)},
    {"allow", parse_allow, 0},
    {"exclude", config_yaml_string, FEED(exclude)},
};

static bool has_image(const struct feed_spec *spec)
{
    for (uint32_t i = 0; i < spec->nfields; i++)
        if (spec->fields[i].kind == FIELD_IMAGE)
            return true;
    return false;
}

static int check_ranges(struct config_yaml *yaml, yaml_node_t *node, const struct feed_spec *spec)
{
    if (spec->batch > DLP_BATCH_MAX)
        return config_yaml_error(yaml, node, spec->name, "batch %u is over %u", spec->batch,
                                 DLP_BATCH_MAX);
    if (spec->slots < DLP_SLOTS_MIN || spec->slots > DLP_SLOTS_MAX)
        return config_yaml_error(yaml, node, spec->name, "slots %u must be %u to %u", spec->slots,
                                 DLP_SLOTS_MIN, DLP_SLOTS_MAX);
    if (spec->lanes < 1 || spec->lanes > PLAN_LANES_MAX)
        return config_yaml_error(yaml, node, spec->name, "lanes %u must be 1 to %u", spec->lanes,
                                 PLAN_LANES_MAX);
    if (spec->weight < 1 || spec->weight > SHARES_WEIGHT_MAX)
        return config_yaml_error(yaml, node, spec->name, "weight %u must be 1 to %u", spec->weight,
                                 SHARES_WEIGHT_MAX);
    if ((spec->pinned & PIN_BATCH) && spec->batch == 0)
        return config_yaml_error(yaml, node, spec->name, "batch is pinned but not given");
    return 0;
}

static int check_lag(struct config_yaml *yaml, yaml_node_t *node, const struct feed_spec *spec,
                     uint64_t seen)
{
    bool lag = seen & 1ULL << KEY_LAG, bound = seen & 1ULL << KEY_LAG_BOUND;
    if (spec->share != SHARE_MIRROR && (lag || bound))
        return config_yaml_error(yaml, node, spec->name, "lag and lag_bound are for share: mirror");
    if (spec->lag == LAG_WAIT && bound)
        return config_yaml_error(yaml, node, spec->name,
                                 "lag_bound is for lag: detach and lag: skip");
    if (spec->lag_bound < 1 || spec->lag_bound > LAG_BOUND_MAX)
        return config_yaml_error(yaml, node, spec->name, "lag_bound %u must be 1 to %u seconds",
                                 spec->lag_bound, LAG_BOUND_MAX);
    if (spec->lag != LAG_WAIT && spec->slots < SPEC_LAG_SLOTS_MIN)
        return config_yaml_error(yaml, node, spec->name, "slots %u: lag: %s needs at least %u",
                                 spec->slots, spec_lag_name(spec->lag), SPEC_LAG_SLOTS_MIN);
    return 0;
}

static int check_transform(struct config_yaml *yaml, yaml_node_t *node, struct feed_spec *spec)
{
    struct error reason;
    if (spec->transform.fast && spec->transform.turbo)
        return config_yaml_error(yaml, node, spec->name,
                                 "pixels: fast needs our own decoder, and decoder: turbo rules it "
                                 "out: leave one of them out");
    if (has_image(spec) && transform_check(&spec->transform, &reason))
        return config_yaml_error(yaml, node, spec->name, "%s", reason.text);
    return 0;
}

static void set_defaults(struct feed_spec *spec)
{
    spec->shuffle = 16384;
    spec->lanes = PLAN_LANES_DEFAULT;
    spec->slots = 4;
    spec->lag_bound = 10;
    spec->weight = 1;
    spec->bad_limit = UINT64_MAX;
    for (int i = 0; i < 3; i++)
        spec->transform.std[i] = 1;
    transform_preset(&spec->transform, "train", NULL);
}

/* What a feed has when it does not say so. */
static void fill_in(struct feed_spec *spec, uint64_t seen, bool eval)
{
    if (!(seen & 1ULL << KEY_FIELDS)) {
        struct field_spec *image = add_field(spec, "image", FIELD_IMAGE);
        add_from(image, "jpg");
        add_from(image, "jpeg");
        add_from(add_field(spec, "label", FIELD_INT), "cls");
    }
    if (eval && !(seen & 1ULL << KEY_SHUFFLE))
        spec->shuffle = 0;
    if (eval && !(seen & 1ULL << KEY_TAIL))
        spec->tail = TAIL_PARTIAL;
}

static bool is_eval(struct config_yaml *yaml, yaml_node_t *node)
{
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&yaml->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&yaml->document, pair->value);
        if (strcmp((const char *)key->data.scalar.value, "transform") == 0)
            return value->type == YAML_SCALAR_NODE &&
                   strcmp((const char *)value->data.scalar.value, "eval") == 0;
    }
    return false;
}

/* Of all that it says; users and groups by number, since what a name means may change. */
static uint64_t digest(struct config_yaml *yaml, yaml_node_t *node, const struct feed_spec *spec)
{
    uint64_t sum = config_yaml_digest(yaml, node, CONFIG_YAML_DIGEST);
    for (uint32_t i = 0; i < spec->nusers; i++)
        sum = config_yaml_mix(sum, &spec->users[i], sizeof spec->users[i]);
    for (uint32_t i = 0; i < spec->ngroups; i++)
        sum = config_yaml_mix(sum, &spec->groups[i], sizeof spec->groups[i]);
    return sum;
}

int config_feed_parse(struct config_yaml *yaml, yaml_node_t *node, struct feed_spec **out)
{
    struct feed_spec *spec = *out = mem_new(sizeof *spec);
    spec->refs = 1;
    set_defaults(spec);
    uint64_t seen;
    int rc = config_yaml_map(yaml, node, "a feed", feed_keys, sizeof feed_keys / sizeof *feed_keys,
                             spec, &seen);
    if (rc)
        return rc;
    if (!spec->name)
        return config_yaml_error(yaml, node, "feeds", "a feed needs a name");
    if (!(seen & (1ULL << KEY_SOURCE)) == !(seen & (1ULL << KEY_FOLDER)))
        return config_yaml_error(yaml, node, spec->name,
                                 "give either source (tar shards) or folder (an image folder)");
    if (spec->npatterns == 0)
        return config_yaml_error(yaml, node, spec->name, "source is empty");
    fill_in(spec, seen, is_eval(yaml, node));
    if (spec->nfields == 0)
        return config_yaml_error(yaml, node, spec->name, "fields is empty");
    spec->digest = digest(yaml, node, spec);
    rc = check_ranges(yaml, node, spec);
    if (rc == 0)
        rc = check_lag(yaml, node, spec, seen);
    return rc ? rc : check_transform(yaml, node, spec);
}
