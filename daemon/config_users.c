#include "config_users.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "control/users.h"
#include "feed/shares.h"
#include "feed/workers.h"
#include "proto/limits.h"

int config_user(struct config_yaml *yaml, yaml_node_t *node, const char *key, uid_t *uid)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    const struct passwd *user = getpwnam(text);
    uint64_t number;
    if (!user && (config_parse_u64(text, &number) || number > UINT32_MAX))
        return config_yaml_error(yaml, node, key, "no user \"%s\" on this machine", text);
    *uid = user ? user->pw_uid : (uid_t)number;
    return 0;
}

/* A user of the list as it is written: what it leaves out comes from `default`, which may stand
 * behind it. */
struct entry {
    char *name;
    uid_t uid;
    bool rest; /* it is `default` */
    struct user_limits limits;
    uint64_t seen;
};

struct parse {
    struct users *users;
    struct entry *list;
    uint32_t count;
};

static int parse_name(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct entry *entry = target;
    int rc = config_yaml_string(yaml, node, key, &entry->name);
    if (rc)
        return rc;
    entry->rest = strcmp(entry->name, "default") == 0;
    return entry->rest ? 0 : config_user(yaml, node, key, &entry->uid);
}

/* `none` lifts a limit that `default` sets. */
static bool is_none(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE &&
           strcmp((const char *)node->data.scalar.value, "none") == 0;
}

static int parse_memory(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    uint64_t *memory = target;
    if (is_none(node)) {
        *memory = 0;
        return 0;
    }
    int rc = config_yaml_size(yaml, node, key, memory);
    if (rc == 0 && *memory == 0)
        return config_yaml_error(yaml, node, key, "must be more than 0, or none");
    return rc;
}

static int parse_limit(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target,
                       uint32_t most)
{
    uint32_t *limit = target;
    if (is_none(node)) {
        *limit = 0;
        return 0;
    }
    int rc = config_yaml_u32(yaml, node, key, limit);
    if (rc == 0 && (*limit < 1 || *limit > most))
        return config_yaml_error(yaml, node, key, "%u must be 1 to %u, or none", *limit, most);
    return rc;
}

static int parse_clients(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return parse_limit(yaml, node, key, target, DLP_CLIENTS_MAX);
}

static int parse_threads(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return parse_limit(yaml, node, key, target, WORKERS_MAX);
}

static int parse_weight(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    uint32_t *weight = target;
    int rc = config_yaml_u32(yaml, node, key, weight);
    if (rc == 0 && (*weight < 1 || *weight > SHARES_WEIGHT_MAX))
        return config_yaml_error(yaml, node, key, "%u must be 1 to %u", *weight, SHARES_WEIGHT_MAX);
    return rc;
}

enum { KEY_NAME, KEY_MEMORY, KEY_CLIENTS, KEY_DESCRIPTORS, KEY_THREADS, KEY_WEIGHT };

#define ENTRY(member) offsetof(struct entry, member)

static const struct config_key keys[] = {
    [KEY_NAME] = {"name", parse_name, 0},
    [KEY_MEMORY] = {"memory", parse_memory, ENTRY(limits.memory)},
    [KEY_CLIENTS] = {"clients", parse_clients, ENTRY(limits.clients)},
    [KEY_DESCRIPTORS] = {"descriptors", config_yaml_u32, ENTRY(limits.descriptors)},
    [KEY_THREADS] = {"threads", parse_threads, ENTRY(limits.threads)},
    [KEY_WEIGHT] = {"weight", parse_weight, ENTRY(limits.weight)},
};

static int parse_entry(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct parse *parse = target;
    parse->list = mem_grow(parse->list, parse->count + 1, sizeof *parse->list);
    struct entry *entry = &parse->list[parse->count++];
    *entry = (struct entry){0};
    int rc = config_yaml_map(yaml, node, "a user", keys, sizeof keys / sizeof *keys, entry,
                             &entry->seen);
    if (rc)
        return rc;
    if (!entry->name)
        return config_yaml_error(yaml, node, key, "a user needs a name, or default");
    for (uint32_t i = 0; i + 1 < parse->count; i++) {
        const struct entry *other = &parse->list[i];
        if (other->rest == entry->rest && other->uid == entry->uid)
            return config_yaml_error(yaml, node, entry->name, "%s is in the list already",
                                     other->name);
    }
    return 0;
}

static struct user_limits fill_in(const struct entry *entry, struct user_limits rest)
{
    uint64_t seen = entry->seen;
    struct user_limits limits = entry->limits;
    return (struct user_limits){
        .memory = seen & 1U << KEY_MEMORY ? limits.memory : rest.memory,
        .clients = seen & 1U << KEY_CLIENTS ? limits.clients : rest.clients,
        .descriptors = seen & 1U << KEY_DESCRIPTORS ? limits.descriptors : rest.descriptors,
        .threads = seen & 1U << KEY_THREADS ? limits.threads : rest.threads,
        .weight = seen & 1U << KEY_WEIGHT ? limits.weight : rest.weight,
    };
}

static void keep(const struct parse *parse)
{
    struct users *users = parse->users;
    users->list = mem_grow(users->list, parse->count + 1, sizeof *users->list);
    for (uint32_t i = 0; i < parse->count; i++)
        if (parse->list[i].rest)
            users->rest = fill_in(&parse->list[i], users->rest);
    for (uint32_t i = 0; i < parse->count; i++) {
        const struct entry *entry = &parse->list[i];
        if (!entry->rest)
            users->list[users->count++] = (struct users_entry){entry->uid, mem_string(entry->name),
                                                               fill_in(entry, users->rest)};
    }
}

int config_users(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct parse parse = {.users = target};
    if (node->type != YAML_SEQUENCE_NODE)
        return config_yaml_error(yaml, node, key, "must be a list of users");
    int rc = config_yaml_each(yaml, node, key, parse_entry, &parse);
    if (rc == 0)
        keep(&parse);
    for (uint32_t i = 0; i < parse.count; i++)
        free(parse.list[i].name);
    free(parse.list);
    return rc;
}
