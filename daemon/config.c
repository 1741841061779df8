#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/system.h"
#include "config_feed.h"
#include "config_users.h"
#include "config_yaml.h"
#include "control/http.h"
#include "feed/workers.h"
#include "proto/limits.h"

#define CONFIG_SIZE_MAX (4U << 20)
#define DECODE_MEMORY_MIN (1U << 20) /* hardly a picture needs less */
#define CACHE_BYTES_DEFAULT (4ULL << 30)

static int add_feed(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct config *config = target;
    (void)key;
    config->feeds = mem_grow(config->feeds, config->nfeeds + 1, sizeof(struct feed_spec *));
    int rc = config_feed_parse(yaml, node, &config->feeds[config->nfeeds++]);
    if (rc)
        return rc;
    const char *name = config->feeds[config->nfeeds - 1]->name;
    for (uint32_t i = 0; i + 1 < config->nfeeds; i++)
        if (strcmp(config->feeds[i]->name, name) == 0)
            return config_yaml_error(yaml, node, name, "two feeds have this name");
    return 0;
}

static int parse_feeds(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return config_yaml_error(yaml, node, key, "must be a list of feeds");
    return config_yaml_each(yaml, node, key, add_feed, target);
}

static int parse_cache_path(struct config_yaml *yaml, yaml_node_t *node, const char *key,
                            void *target)
{
    int rc = config_yaml_string(yaml, node, key, target);
    char **path = target;
    if (rc == 0 && strcmp(*path, "auto") == 0) {
        free(*path);
        *path = NULL;
    } else if (rc == 0 && **path != '/') {
        return config_yaml_error(yaml, node, key, "\"%s\" must be an absolute path, or auto",
                                 *path);
    }
    return rc;
}

static int parse_marks(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    *(bool *)target = strcmp(text, "on") == 0;
    if (*(bool *)target || strcmp(text, "off") == 0)
        return 0;
    return config_yaml_error(yaml, node, key, "\"%s\": known are on, off", text);
}

static int parse_cache(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const struct config_key keys[] = {
        {"path", parse_cache_path, offsetof(struct config, cache_dir)},
        {"bytes", config_yaml_size, offsetof(struct config, cache_bytes)},
        {"marks", parse_marks, offsetof(struct config, cache_marks)},
    };
    return config_yaml_map(yaml, node, key, keys, sizeof keys / sizeof *keys, target, NULL);
}

static int parse_yes(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const words[] = {"no", "yes", "false", "true"};
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            *(bool *)target = i % 2;
            return 0;
        }
    }
    return config_yaml_error(yaml, node, key, "\"%s\" must be yes or no", text);
}

static int parse_metrics(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct error why;
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    if (!http_built())
        return config_yaml_error(yaml, node, key,
                                 "this dataloadd was built without libmicrohttpd and has no HTTP "
                                 "port: take the key out (dataloadctl metrics works), or build it "
                                 "with libmicrohttpd-dev");
    if (http_address_parse(text, target, &why))
        return config_yaml_error(yaml, node, key, "%s", why.text);
    return 0;
}

#define CONFIG(member) offsetof(struct config, member)

static const struct config_key config_keys[] = {
    {"workers", config_yaml_u32_auto, CONFIG(workers)},
    {"workers_max", config_yaml_u32_auto, CONFIG(workers_max)},
    {"pin_workers", parse_yes, CONFIG(pin_workers)},
    {"memory", config_yaml_size_auto, CONFIG(memory)},
    {"decode_memory", config_yaml_size_auto, CONFIG(decode_memory)},
    {"client_memory", config_yaml_size_auto, CONFIG(client_memory)},
    {"clients", config_yaml_u32, CONFIG(clients)},
    {"users", config_users, CONFIG(users)},
    {"job_linger", config_yaml_u32, CONFIG(job_linger)},
    {"cache", parse_cache, 0},
    {"metrics", parse_metrics, CONFIG(metrics)},
    {"feeds", parse_feeds, 0},
};

static int check(struct config_yaml *yaml, const struct config *config)
{
    yaml_node_t *root = yaml_document_get_root_node(&yaml->document);
    if (config->nfeeds == 0)
        return config_yaml_error(yaml, root, "feeds", "at least one feed is needed");
    if (config->workers > WORKERS_MAX)
        return config_yaml_error(yaml, root, "workers", "%u is over %u", config->workers,
                                 WORKERS_MAX);
    if (config->workers_max > WORKERS_MAX)
        return config_yaml_error(yaml, root, "workers_max", "%u is over %u", config->workers_max,
                                 WORKERS_MAX);
    if (config->workers && config->workers_max)
        return config_yaml_error(yaml, root, "workers_max",
                                 "is a bound of workers: auto, and workers is %u", config->workers);
    if (config->clients < 1 || config->clients > DLP_CLIENTS_MAX)
        return config_yaml_error(yaml, root, "clients", "%u must be 1 to %u", config->clients,
                                 DLP_CLIENTS_MAX);
    if (config->memory && config->memory < (64U << 20))
        return config_yaml_error(yaml, root, "memory", "must be at least 64MiB");
    if (config->decode_memory && config->decode_memory < DECODE_MEMORY_MIN)
        return config_yaml_error(yaml, root, "decode_memory", "must be at least 1MiB");
    if (config->memory && config->decode_memory >= config->memory)
        return config_yaml_error(yaml, root, "decode_memory",
                                 "must be less than memory, which it is a part of");
    return 0;
}

int config_parse(const char *path, const char *text, size_t size, struct config **out,
                 struct error *err)
{
    struct config_yaml yaml;
    int rc = config_yaml_open(&yaml, path, text, size, err);
    if (rc)
        return rc;
    struct config *config = mem_new(sizeof *config);
    *config = (struct config){.path = mem_string(path),
                              .clients = DLP_CLIENTS_MAX,
                              .job_linger = 60,
                              .cache_bytes = CACHE_BYTES_DEFAULT,
                              .cache_marks = true};
    users_copy(&config->users, NULL);
    rc = config_yaml_map(&yaml, yaml_document_get_root_node(&yaml.document), "the configuration",
                         config_keys, sizeof config_keys / sizeof *config_keys, config, NULL);
    if (rc == 0)
        rc = check(&yaml, config);
    config_yaml_close(&yaml);
    if (rc) {
        config_free(config);
        return rc;
    }
    *out = config;
    return 0;
}

/* The whole file, or NULL with the error set. */
static char *read_file(const char *path, size_t *size, struct error *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        error_set(err, -errno, "cannot read the configuration %s: %s; --config FILE names another",
                  path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > CONFIG_SIZE_MAX) {
        error_set(err, -EINVAL, "cannot read the configuration %s: %s", path,
                  S_ISREG(st.st_mode) ? "larger than 4 MiB" : "not a regular file");
        return NULL;
    }
    char *text = mem_new((size_t)st.st_size + 1);
    ssize_t got = read(fd, text, (size_t)st.st_size);
    if (got < 0) {
        error_set(err, -errno, "cannot read the configuration %s: %s", path, strerror(errno));
        free(text);
        return NULL;
    }
    *size = (size_t)got;
    return text;
}

int config_read(const char *path, struct config **out, struct error *err)
{
    struct error failure = {0};
    size_t size = 0;
    cleanup_free char *text = read_file(path, &size, &failure);
    if (!text)
        return error_set(err, failure.code, "%s", failure.text);
    return config_parse(path, text, size, out, err);
}

void config_free(struct config *config)
{
    if (!config)
        return;
    for (uint32_t i = 0; i < config->nfeeds; i++)
        spec_unref(config->feeds[i]);
    free(config->feeds);
    users_clear(&config->users);
    free(config->cache_dir);
    free(config->path);
    free(config);
}

unsigned config_workers(const struct config *config)
{
    if (config->workers)
        return config->workers;
    unsigned most = config->workers_max ? config->workers_max : system_cpus();
    return most < WORKERS_MAX ? most : WORKERS_MAX;
}

/* $VARIABLE/rest, else $HOME/fallback/rest; the user's own directories by the XDG rules. */
static char *user_path(const char *variable, const char *fallback, const char *rest)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    if (base && *base == '/')
        return mem_format("%s/%s", base, rest);
    return mem_format("%s/%s/%s", home && *home ? home : "/", fallback, rest);
}

char *config_default_path(int user)
{
    return user ? user_path("XDG_CONFIG_HOME", ".config", "dataloadd/dataloadd.yaml")
                : mem_string("/etc/dataloadd/dataloadd.yaml");
}

char *config_cache_dir(const struct config *config, int user)
{
    if (config->cache_dir)
        return mem_string(config->cache_dir);
    return user ? user_path("XDG_CACHE_HOME", ".cache", "dataloadd")
                : mem_string("/var/cache/dataloadd");
}

const struct feed_spec *config_feed(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->nfeeds; i++)
        if (strcmp(config->feeds[i]->name, name) == 0)
            return config->feeds[i];
    return NULL;
}
