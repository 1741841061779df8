#include "control/own_feeds.h"

#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plural.h"
#include "control/group.h"
#include "control/users.h"

#define LIMIT_SHARE 2  /* of the descriptors that the process may have, for files that are given */
#define MEMORY_SHARE 8 /* of memory, for what is known of one user's files */
#define USES 2         /* of a feed that nobody uses: ours, and the data set's */

struct own_feeds {
    struct control *control;
    struct own_user *users;
};

/* What stands where no feed is. */
static struct feed_spec vacant = {.name = ""};

struct own_feeds *own_feeds_new(struct control *control)
{
    struct own_feeds *own = mem_new(sizeof *own);
    own->control = control;
    return own;
}

void own_feeds_free(struct own_feeds *own)
{
    while (own->users) {
        struct own_user *user = own->users;
        own->users = user->next;
        errands_free(user->openings);
        files_owner_unref(user->files);
        free(user);
    }
    free(own);
}

static struct own_user *find_user(const struct own_feeds *own, uid_t uid)
{
    struct own_user *user = own->users;
    while (user && user->uid != uid)
        user = user->next;
    return user;
}

static struct own_user *add_user(struct own_feeds *own, uid_t uid)
{
    struct own_user *user = mem_new(sizeof *user);
    user->uid = uid;
    user->files = files_owner_new(uid);
    user->openings = errands_new(own->control->options.mailbox, OWN_OPENINGS_AT_ONCE);
    user->next = own->users;
    own->users = user;
    return user;
}

/* The memory may be another by now. */
struct own_user *own_feeds_user(struct own_feeds *own, uid_t uid)
{
    const struct control_options *options = &own->control->options;
    struct own_user *user = find_user(own, uid);
    if (!user)
        user = add_user(own, uid);
    files_owner_allow(user->files, budget_limit(options->budget) / MEMORY_SHARE);
    return user;
}

const struct own_user *own_feeds_giver(const struct own_feeds *own, const struct feed_spec *spec)
{
    return find_user(own, files_owner_uid(files_owner(spec->files)));
}

struct errands *own_feeds_lane(const struct own_feeds *own, const struct feed_spec *spec)
{
    return spec->files ? own_feeds_giver(own, spec)->openings : NULL;
}

int own_feeds_room(const struct own_feeds *own, struct own_user *user, uint32_t more,
                   struct refusal *refusal)
{
    uint32_t most = users_limits(own->control, user->uid).descriptors;
    uint32_t held = files_owner_held(user->files);
    uint64_t all = 0;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &limit);
    for (const struct own_user *each = own->users; each; each = each->next)
        all += files_owner_held(each->files);
    if (!most)
        return refuse(refusal, DLP_ERROR_NOT_PERMITTED,
                      "uid %u may give no files: descriptors is 0 for it in the daemon's "
                      "configuration (users)",
                      user->uid);
    if (held + (uint64_t)more > most)
        return refuse(
            refusal, DLP_ERROR_TOO_MANY,
            "the daemon has %u file%s of uid %u open and would have %llu: %u are possible "
            "(descriptors, of users); larger shards are fewer",
            held, plural(held), user->uid, held + (unsigned long long)more, most);
    if (all + more > limit.rlim_cur / LIMIT_SHARE)
        return refuse(refusal, DLP_ERROR_TOO_MANY,
                      "the daemon has %llu files open that were given and would have %llu: half of "
                      "the %llu descriptors that it may have (LimitNOFILE, ulimit -n) are for them",
                      (unsigned long long)all, (unsigned long long)all + more,
                      (unsigned long long)limit.rlim_cur);
    return 0;
}

const struct feed_spec *own_feeds_find(const struct own_feeds *own, const char *name)
{
    int number = control_find_any(own->control, name);
    return number < 0 ? NULL : own->control->feeds[number];
}

static bool is_attached_to(const struct control *control, uint32_t number)
{
    for (const struct session *s = control->sessions; s; s = s->next)
        if (s->spec && s->feed_number == number)
            return true;
    for (const struct group *group = control->groups; group; group = group->next)
        if (group->feed_number == number)
            return true;
    return false;
}

static bool is_used(const struct control *control, uint32_t number)
{
    const struct feed_spec *spec = control->feeds[number];
    if (spec->refs > USES || datasets_busy(control->datasets, number) ||
        is_attached_to(control, number))
        return true;
    for (const struct job *job = jobs_first(control->jobs); job; job = job->next)
        if (!strcmp(job->feed, spec->name))
            return true;
    return false;
}

static void vacate(struct control *control, uint32_t number)
{
    log_notice("feed %s is closed: nobody uses it", control->feeds[number]->name);
    badlist_forget(control->badlist, control->feeds[number]->name);
    control_set_feed(control, number, &vacant);
    control->totals[number] = (struct control_totals){.removed = true};
}

/* Number of the feed that nobody has used for the longest time, of one user or of all; -1: all are
 * used. */
static int find_idle(const struct control *control, const struct files_owner *owner)
{
    int oldest = -1;
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < control->options.nfeeds; i++) {
        const struct feed_spec *spec = control->feeds[i];
        uint64_t since = control->totals[i].unused_since;
        if (!spec->files || (owner && files_owner(spec->files) != owner) || is_used(control, i))
            continue;
        if (oldest < 0 || (since && since < first)) { /* 0: not since the last tick */
            oldest = (int)i;
            first = since ? since : UINT64_MAX;
        }
    }
    return oldest;
}

static void count(const struct control *control, const struct files_owner *owner, uint32_t *his,
                  uint32_t *all)
{
    *his = *all = 0;
    for (uint32_t i = 0; i < control->options.nfeeds; i++) {
        const struct feed_spec *spec = control->feeds[i];
        *all += spec->files != NULL;
        *his += spec->files && files_owner(spec->files) == owner;
    }
}

static int make_room(struct control *control, const struct feed_spec *spec, struct refusal *refusal)
{
    const struct files_owner *owner = files_owner(spec->files);
    uint32_t his, all;
    count(control, owner, &his, &all);
    if (his < OWN_FEEDS_OF_USER && all < OWN_FEEDS_MAX)
        return 0;
    int place = find_idle(control, his < OWN_FEEDS_OF_USER ? NULL : owner);
    if (place < 0)
        return refuse(refusal, DLP_ERROR_TOO_MANY,
                      "%u feeds of uid %u's own and %u of all users' are in use: at most %u of one "
                      "user and %u of all are possible; one is free once its jobs and connections "
                      "have ended",
                      his, files_owner_uid(owner), all, OWN_FEEDS_OF_USER, OWN_FEEDS_MAX);
    vacate(control, (uint32_t)place);
    return 0;
}

static void add(struct control *control, struct feed_spec *spec)
{
    uint32_t number = 0;
    while (number < control->options.nfeeds && control->feeds[number] != &vacant)
        number++;
    if (number == control->options.nfeeds)
        control_add_feed(control, spec);
    else
        control_set_feed(control, number, spec);
    control->totals[number].removed = false;
}

int own_feeds_put(struct own_feeds *own, struct feed_spec *spec, const struct feed_spec **out,
                  struct refusal *refusal)
{
    struct control *control = own->control;
    int number = control_find_any(control, spec->name);
    const struct feed_spec *old = number < 0 ? NULL : control->feeds[number];
    if (old && old->digest == spec->digest && files_equal(old->files, spec->files)) {
        *out = old;
        return 0;
    }
    if (!old && make_room(control, spec, refusal))
        return (int)refusal->code;
    log_notice("feed %s %s: %u file%s", spec->name,
               old ? "has changed, new jobs have it so" : "is given", files_count(spec->files),
               plural(files_count(spec->files)));
    if (old)
        control_set_feed(control, (uint32_t)number, spec);
    else
        add(control, spec);
    *out = spec;
    return 0;
}

void own_feeds_tick(struct own_feeds *own, uint64_t now)
{
    struct control *control = own->control;
    for (uint32_t i = 0; i < control->options.nfeeds; i++) {
        uint64_t *since = &control->totals[i].unused_since;
        if (!control->feeds[i]->files)
            continue;
        if (is_used(control, i))
            *since = 0;
        else if (!*since)
            *since = now;
        else if (now - *since > OWN_LINGER_S * CLOCK_SECOND)
            vacate(control, i);
    }
    for (struct own_user *user = own->users; user; user = user->next)
        files_owner_tidy(user->files);
}
