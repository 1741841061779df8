/* A feed as configured: a named recipe. Immutable once read, shared by reference: a job keeps that
 * with which it began, whatever the configuration says later. */
#ifndef SPEC_H
#define SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "image/transform.h"
#include "store/dataset.h"
#include "store/steps.h"

#define SPEC_NAME_MAX 128

enum field_kind { FIELD_IMAGE, FIELD_INT, FIELD_BYTES, FIELD_KEY };

struct field_spec {
    char *name;
    char **from; /* suffixes, lower-case; none for FIELD_KEY */
    uint32_t nfrom;
    enum field_kind kind;
    int64_t classes; /* FIELD_INT: valid are 0 .. classes - 1; 0 = any int64 */
    char *json_key; /* FIELD_INT: member of the top object of a json part; NULL = the part's text */
    uint64_t
        max_bytes; /* FIELD_BYTES, and FIELD_IMAGE with transform none: largest row; 0 = default */
};

enum bad_policy { BAD_REPLACE, BAD_FAIL };

/* Each trainer has a stream of its own, or all of a group read the same batches. */
enum feed_share { SHARE_SPLIT, SHARE_MIRROR };

/* What becomes of a member that the others of its group have waited for during lag_bound: they go
 * on waiting; it is detached; batches pass it by until it comes on. */
enum feed_lag { LAG_WAIT, LAG_DETACH, LAG_SKIP };

/* How batches reach a trainer that asks for a GPU: the best way that works, one way, or not at all:
 * shared memory. */
enum feed_handoff { HANDOFF_AUTO, HANDOFF_VMM, HANDOFF_IPC, HANDOFF_HOST };

/* Settings that an attach may not change. */
enum feed_pin { PIN_BATCH = 1, PIN_SEED = 2, PIN_SLOTS = 4 };

struct feed_spec {
    uint32_t refs;   /* 0 = not counted: it stays with whoever has made it */
    uint64_t digest; /* equal ones are the same recipe */
    char *name;
    char **patterns;
    uint32_t npatterns;
    bool folder;
    char *exclude; /* file of the keys to leave out; NULL = none */
    struct field_spec fields[DATASET_FIELDS_MAX];
    uint32_t nfields;
    struct transform transform;
    uint32_t batch; /* 0 = the attach must say it */
    uint64_t shuffle;
    uint32_t lanes;
    uint64_t seed;
    uint32_t slots;
    uint32_t pinned; /* enum feed_pin */
    enum tail tail;
    enum feed_share share;
    enum feed_lag lag;
    uint32_t lag_bound; /* s */
    uint32_t weight;    /* of each job of it among its user's, 1 .. SHARES_WEIGHT_MAX */
    enum feed_handoff handoff;
    enum bad_policy bad_samples;
    uint64_t bad_limit;     /* count; UINT64_MAX = none */
    double bad_limit_share; /* of N; used where > 0 */
    /* who may attach; empty lists = everybody who can connect */
    uint32_t *users;
    uint32_t nusers;
    uint32_t *groups;
    uint32_t ngroups;
};

/* Fewest slots of a feed whose laggards are not waited for. */
#define SPEC_LAG_SLOTS_MIN 3

/* Counted on the loop thread only. spec_unref frees with the last; NULL is fine. */
const struct feed_spec *spec_ref(const struct feed_spec *spec);
void spec_unref(const struct feed_spec *spec);
const char *spec_lag_name(enum feed_lag lag);

/* Opens (or re-opens) the data set of a feed; marks: keeps those of its pictures. Blocks. */
int spec_open_dataset(const struct feed_spec *spec, const char *cache_dir, uint64_t cache_bytes,
                      bool marks, unsigned threads,
                      bool (*progress)(void *context, const char *text, uint64_t done,
                                       uint64_t total),
                      void *context, struct dataset **out, struct error *err);

#endif
