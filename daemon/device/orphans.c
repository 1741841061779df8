#include "device/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

struct orphan {
    struct orphan *next;
    int probe;
    uint64_t bytes;
    uid_t uid;
};

struct orphans {
    struct budget *budget;
    pthread_mutex_t mutex;
    struct orphan *list;
    bool told; /* that this kernel grants no lease */
};

struct orphans *orphans_new(struct budget *budget)
{
    struct orphans *orphans = mem_new(sizeof *orphans);
    pthread_mutex_init(&orphans->mutex, NULL);
    orphans->budget = budget;
    return orphans;
}

static void give_back(struct orphans *orphans, struct orphan *list)
{
    for (struct orphan *next; list; list = next) {
        next = list->next;
        close(list->probe);
        budget_give(orphans->budget, BUDGET_ORPHANED, list->bytes);
        free(list);
    }
}

void orphans_free(struct orphans *orphans)
{
    if (!orphans)
        return;
    give_back(orphans, orphans->list);
    pthread_mutex_destroy(&orphans->mutex);
    free(orphans);
}

static void tell(struct orphans *orphans, int error)
{
    if (orphans->told)
        return;
    orphans->told = true;
    log_warning("this kernel does not tell who still maps a mirror's memory (no lease: %s): what "
                "trainers keep mapped after their group's end is not counted, so leave room for it "
                "beside memory",
                strerror(error));
}

/* The kernel grants a write lease to the one who has the only opening of a file; a mapping is one.
 */
static bool is_mapped(struct orphans *orphans, const struct orphan *orphan)
{
    /* Who opens the file through our /proc in the moment of the lease has us sent a signal: without
     * this SIGIO, which ends a process. Asked for anew each time: an ended lease forgets it. */
    fcntl(orphan->probe, F_SETSIG, SIGURG);
    if (fcntl(orphan->probe, F_SETLEASE, F_WRLCK) == 0) {
        fcntl(orphan->probe, F_SETLEASE, F_UNLCK);
        return false;
    }
    if (errno == EAGAIN || errno == ENOMEM)
        return true;
    tell(orphans, errno);
    return false;
}

static struct orphan *take_unmapped(struct orphans *orphans)
{
    struct orphan *unmapped = NULL, *orphan;
    pthread_mutex_lock(&orphans->mutex);
    for (struct orphan **at = &orphans->list; (orphan = *at);) {
        if (is_mapped(orphans, orphan)) {
            at = &orphan->next;
            continue;
        }
        *at = orphan->next;
        orphan->next = unmapped;
        unmapped = orphan;
    }
    pthread_mutex_unlock(&orphans->mutex);
    return unmapped;
}

bool orphans_poll(struct orphans *orphans)
{
    struct orphan *unmapped = take_unmapped(orphans);
    bool any = unmapped;
    give_back(orphans, unmapped);
    return any;
}

uint64_t orphans_bytes(struct orphans *orphans, uid_t uid)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&orphans->mutex);
    for (const struct orphan *orphan = orphans->list; orphan; orphan = orphan->next)
        bytes += orphan->uid == uid ? orphan->bytes : 0;
    pthread_mutex_unlock(&orphans->mutex);
    return bytes;
}

void orphans_adopt(struct orphans *orphans, int probe, uint64_t bytes, uid_t uid)
{
    struct orphan *orphan = mem_new(sizeof *orphan);
    *orphan = (struct orphan){.probe = probe, .bytes = bytes, .uid = uid};
    budget_move(orphans->budget, BUDGET_SLOTS, BUDGET_ORPHANED, bytes);
    pthread_mutex_lock(&orphans->mutex);
    orphan->next = orphans->list;
    orphans->list = orphan;
    pthread_mutex_unlock(&orphans->mutex);
    orphans_poll(orphans);
}
