/* The configuration file: read and checked whole, immutable after. Every error names file, line
 * and key. */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "control/http_address.h"
#include "control/users.h"
#include "feed/spec.h"

struct config {
    char *path;             /* of the file read; NULL = none */
    unsigned workers;       /* 0 = auto: */
    unsigned workers_max;   /* up to so many; 0 = as there are CPUs */
    bool pin_workers;       /* each stays on one CPU */
    uint64_t memory;        /* bytes; 0 = auto */
    uint64_t decode_memory; /* bytes; 0 = memory / 8 */
    uint64_t client_memory; /* bytes of one client; 0 = memory / 4 */
    unsigned clients;       /* most at once */
    struct users users;     /* what each of them may have */
    unsigned job_linger;    /* seconds a job outlives its last client */
    char *cache_dir;        /* NULL = auto */
    uint64_t cache_bytes;
    bool cache_marks;            /* marks of JPEGs are kept there */
    struct http_address metrics; /* of the HTTP port; size 0 = none */
    struct feed_spec **feeds;
    uint32_t nfeeds;
};

/* -ENOENT, -EINVAL with "file:line: key: what" in err. */
int config_read(const char *path, struct config **out, struct error *err);
int config_parse(const char *path, const char *text, size_t size, struct config **out,
                 struct error *err);
void config_free(struct config *config);
/* Workers that there may be: as said, else by the CPUs that affinity and cgroup allow now. */
unsigned config_workers(const struct config *config);
/* The file to read where none is named: the user's (~/.config/dataloadd/dataloadd.yaml under XDG
 * rules) or /etc/dataloadd/dataloadd.yaml. */
char *config_default_path(int user);
/* Where indexes are kept: as configured, or $XDG_CACHE_HOME/dataloadd (user), /var/cache/dataloadd.
 */
char *config_cache_dir(const struct config *config, int user);
const struct feed_spec *config_feed(const struct config *config, const char *name);

#endif
