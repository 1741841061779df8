#include "feed/storage.h"

#include "base/clock.h"
#include "base/mem.h"
#include "feed/read_depth.h"
#include "store/read_spans.h"

/* What a read costs beside its bytes: as much as is rather read over than left out. */
#define READ_COST ((double)READ_SPANS_GAP)
/* Bytes that a user may be behind: between two rounds of reads a reader has none, and makes up for
 * it with the next one. */
#define CREDIT (32 << 20)
#define LINGER CLOCK_SECOND     /* after his last read a user counts still */
#define OVERDUE CLOCK_SECOND    /* and: */
#define OVERDUE_FACTOR 8        /* times the usual length, then a read does not count any more */
#define LOOK_NS (50 * CLOCK_MS) /* at interruptions and what is overdue */

struct storage {
    dev_t device;
    uint32_t members;
    struct storage *next;
    pthread_mutex_t mutex;
    struct share_tree shares; /* parts that run are reads that count */
    uint32_t reading, waiting;
    struct storage_turn *first_reading, **last_reading;   /* that count, oldest first */
    struct storage_member *first_waiting, **last_waiting; /* some turns of theirs do */
    uint64_t usual_ns;                                    /* of a read */
    uint64_t looked;         /* when one of those who wait has, for all of them */
    struct read_depth depth; /* while several users read */
};

/* All that are read now. */
static struct {
    pthread_mutex_t mutex;
    struct storage *first;
} storages = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct storage *make(dev_t device)
{
    struct storage *storage = mem_new(sizeof *storage);
    storage->device = device;
    storage->next = storages.first;
    storages.first = storage;
    pthread_mutex_init(&storage->mutex, NULL);
    share_tree_init(&storage->shares, CREDIT);
    storage->last_reading = &storage->first_reading;
    storage->last_waiting = &storage->first_waiting;
    read_depth_init(&storage->depth, clock_ns());
    return storage;
}

static struct storage *find(dev_t device)
{
    struct storage *storage = storages.first;
    while (storage && storage->device != device)
        storage = storage->next;
    return storage ? storage : make(device);
}

void storage_join(dev_t device, const struct share_terms *terms, struct storage_waits *waits,
                  struct storage_member *out)
{
    pthread_mutex_lock(&storages.mutex);
    struct storage *storage = find(device);
    storage->members++;
    pthread_mutex_unlock(&storages.mutex);
    pthread_mutex_lock(&storage->mutex);
    *out = (struct storage_member){
        .storage = storage, .waits = waits, .last_waiting = &out->first_waiting};
    share_join(&storage->shares, &out->share, terms);
    pthread_mutex_unlock(&storage->mutex);
}

static void forget(struct storage *storage)
{
    struct storage **at = &storages.first;
    while (*at != storage)
        at = &(*at)->next;
    *at = storage->next;
    pthread_mutex_destroy(&storage->mutex);
    free(storage);
}

void storage_leave(struct storage_member *member)
{
    struct storage *storage = member->storage;
    pthread_mutex_lock(&storage->mutex);
    share_leave(&storage->shares, &member->share);
    pthread_mutex_unlock(&storage->mutex);
    pthread_mutex_lock(&storages.mutex);
    if (--storage->members == 0)
        forget(storage);
    pthread_mutex_unlock(&storages.mutex);
}

void storage_set_terms(struct storage_member *member, const struct share_terms *terms)
{
    struct storage *storage = member->storage;
    pthread_mutex_lock(&storage->mutex);
    share_set_terms(&storage->shares, &member->share, terms);
    pthread_mutex_unlock(&storage->mutex);
}

/* ------- who reads; all that follows under the mutex ------- */

static bool is_active(const struct share *user, uint64_t now)
{
    return user->running || user->waiting || (user->used_at && now - user->used_at < LINGER);
}

static uint32_t active_users(const struct storage *storage, uint64_t now, uint64_t *weights)
{
    uint32_t users = 0;
    *weights = 0;
    for (const struct share *user = storage->shares.whole.first; user; user = user->next)
        if (is_active(user, now)) {
            users++;
            *weights += user->weight;
        }
    return users;
}

static void put(struct storage_turn ***last, struct storage_turn *turn)
{
    turn->next = NULL;
    turn->at = *last;
    **last = turn;
    *last = &turn->next;
}

static void take(struct storage_turn ***last, struct storage_turn *turn)
{
    *turn->at = turn->next;
    if (turn->next)
        turn->next->at = turn->at;
    else
        *last = turn->at;
}

static void uncount(struct storage *storage, struct storage_turn *turn)
{
    take(&storage->last_reading, turn);
    turn->counts = false;
    storage->reading--;
    share_end(&turn->member->share, 0);
}

static void uncount_overdue(struct storage *storage, uint64_t now)
{
    uint64_t most = OVERDUE + OVERDUE_FACTOR * storage->usual_ns;
    while (storage->first_reading && now - storage->first_reading->begun > most)
        uncount(storage, storage->first_reading);
}

static void start(struct storage *storage, struct storage_turn *turn, uint64_t now)
{
    share_user(&turn->member->share)->used_at = now;
    share_begin(&turn->member->share, (double)turn->bytes + READ_COST);
    put(&storage->last_reading, turn);
    turn->begun = now;
    turn->runs = turn->counts = true;
    read_depth_began(&storage->depth, ++storage->reading);
}

/* ------- waiting ------- */

static void put_member(struct storage *storage, struct storage_member *member)
{
    member->next = NULL;
    member->at = storage->last_waiting;
    *member->at = member;
    storage->last_waiting = &member->next;
}

static void take_member(struct storage *storage, struct storage_member *member)
{
    *member->at = member->next;
    if (member->next)
        member->next->at = member->at;
    else
        storage->last_waiting = member->at;
}

static void begin_wait(struct storage *storage, struct storage_turn *turn, uint64_t now,
                       uint32_t users)
{
    struct storage_waits *waits = turn->member->waits;
    if (!turn->member->first_waiting)
        put_member(storage, turn->member);
    put(&turn->member->last_waiting, turn);
    storage->waiting++;
    share_user(&turn->member->share)->waiting++;
    atomic_store(&waits->others, users ? users - 1 : 0);
    if (atomic_load(&waits->waiting) == 0)
        atomic_store(&waits->since, now);
    atomic_fetch_add(&waits->waiting, 1);
}

static void end_wait(struct storage *storage, struct storage_turn *turn, uint64_t now)
{
    struct storage_waits *waits = turn->member->waits;
    take(&turn->member->last_waiting, turn);
    if (!turn->member->first_waiting)
        take_member(storage, turn->member);
    storage->waiting--;
    share_user(&turn->member->share)->waiting--;
    uint64_t since = atomic_load(&waits->since);
    if (atomic_fetch_sub(&waits->waiting, 1) == 1)
        atomic_fetch_add(&waits->ns, now > since ? now - since : 0);
}

/* Half of a user's part is kept for him: less than all, so that he who is behind can make up. */
static bool may_start(const struct storage *storage, const struct storage_member *member,
                      uint64_t weights)
{
    const struct share *user = share_user(&member->share);
    return storage->reading < storage->depth.reads ||
           2 * (user->running + 1) * weights <= (uint64_t)storage->depth.reads * user->weight;
}

/* Many turns of few members wait. */
static struct storage_turn *next_turn(const struct storage *storage, uint32_t users,
                                      uint64_t weights)
{
    const struct storage_member *next = NULL;
    for (const struct storage_member *it = storage->first_waiting; it; it = it->next)
        if ((users < 2 || may_start(storage, it, weights)) &&
            (!next || share_before(&it->share, &next->share)))
            next = it;
    return next ? next->first_waiting : NULL;
}

static void start_waiting(struct storage *storage, uint64_t now)
{
    if (!storage->waiting)
        return;
    uint64_t weights;
    uint32_t users = active_users(storage, now, &weights);
    for (struct storage_turn *turn; (turn = next_turn(storage, users, weights));) {
        end_wait(storage, turn, now);
        start(storage, turn, now);
        pthread_cond_signal(&turn->begins);
    }
}

static void note_end(struct storage *storage, uint64_t bytes, uint64_t now)
{
    uint64_t weights;
    if (active_users(storage, now, &weights) < 2)
        read_depth_pause(&storage->depth, now);
    else
        read_depth_ended(&storage->depth, bytes, storage->waiting > 0, now);
}

/* ------- a turn ------- */

static void wait_briefly(struct storage *storage, struct storage_turn *turn, uint64_t now)
{
    uint64_t until = now + LOOK_NS;
    struct timespec time = {(time_t)(until / CLOCK_SECOND), (long)(until % CLOCK_SECOND)};
    pthread_cond_timedwait(&turn->begins, &storage->mutex, &time);
}

/* What time alone has changed. */
static void look(struct storage *storage, uint64_t now)
{
    if (now - storage->looked < LOOK_NS)
        return;
    storage->looked = now;
    uncount_overdue(storage, now);
    start_waiting(storage, now);
}

static void wait_for_turn(struct storage *storage, struct storage_turn *turn, uint64_t now,
                          const _Atomic bool *interrupted)
{
    uint64_t weights;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&turn->begins, &monotonic);
    pthread_condattr_destroy(&monotonic);
    begin_wait(storage, turn, now, active_users(storage, now, &weights));
    start_waiting(storage, now);
    while (!turn->runs && !atomic_load(interrupted)) {
        wait_briefly(storage, turn, now);
        now = clock_ns();
        look(storage, now);
    }
    if (!turn->runs)
        end_wait(storage, turn, now);
    pthread_cond_destroy(&turn->begins);
}

bool storage_begin(struct storage_turn *turn, struct storage_member *member, uint64_t bytes,
                   const _Atomic bool *interrupted)
{
    struct storage *storage = member->storage;
    *turn = (struct storage_turn){.member = member, .bytes = bytes};
    pthread_mutex_lock(&storage->mutex);
    uint64_t now = clock_ns(), weights;
    uncount_overdue(storage, now);
    share_user(&member->share)->used_at = now;
    if (!storage->waiting &&
        (active_users(storage, now, &weights) < 2 || may_start(storage, member, weights)))
        start(storage, turn, now);
    else
        wait_for_turn(storage, turn, now, interrupted);
    pthread_mutex_unlock(&storage->mutex);
    return turn->runs;
}

void storage_end(struct storage_turn *turn)
{
    struct storage *storage = turn->member->storage;
    pthread_mutex_lock(&storage->mutex);
    uint64_t now = clock_ns();
    share_user(&turn->member->share)->used_at = now;
    if (turn->counts) {
        storage->usual_ns = (storage->usual_ns * 7 + (now - turn->begun)) / 8;
        uncount(storage, turn);
    }
    note_end(storage, turn->bytes, now);
    start_waiting(storage, now);
    pthread_mutex_unlock(&storage->mutex);
}

bool storage_has_others(struct storage_member *member)
{
    struct storage *storage = member->storage;
    const struct share *own = share_user(&member->share);
    bool has = false;
    pthread_mutex_lock(&storage->mutex);
    uint64_t now = clock_ns();
    for (const struct share *user = storage->shares.whole.first; user && !has; user = user->next)
        has = user != own && is_active(user, now);
    pthread_mutex_unlock(&storage->mutex);
    return has;
}

uint64_t storage_waited(const struct storage_waits *waits, uint64_t now)
{
    uint64_t ns = atomic_load(&waits->ns), since = atomic_load(&waits->since);
    return atomic_load(&waits->waiting) && since < now ? ns + (now - since) : ns;
}
