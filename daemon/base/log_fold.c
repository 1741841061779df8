#include "base/log_fold.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define WINDOW (5 * CLOCK_SECOND)
#define WINDOW_LINES 10 /* of one place */
#define ENTRIES 64

struct entry {            /* of a line that was printed, or of those of one place that were not */
    struct log_told told; /* site NULL: free */
    uint64_t since;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[ENTRIES + 1]; /* the last one: of all that found no other place */

/* Threads read the clock before they have the lock. */
static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

static struct entry *find(const struct log_site *site, const char *text)
{
    for (struct entry *it = entries; it < entries + ENTRIES; it++)
        if (it->told.site == site && it->told.same && strcmp(it->told.text, text) == 0)
            return it;
    return NULL;
}

static struct entry *find_left_out(const struct log_site *site)
{
    for (struct entry *it = entries; it < entries + ENTRIES; it++)
        if (it->told.site == site && !it->told.same)
            return it;
    return NULL;
}

/* A free one, else the oldest of those that have nothing to tell; NULL: all have. */
static struct entry *make_room(void)
{
    struct entry *oldest = NULL;
    for (struct entry *it = entries; it < entries + ENTRIES; it++) {
        if (!it->told.site)
            return it;
        if (!it->told.count && (!oldest || it->since < oldest->since))
            oldest = it;
    }
    return oldest;
}

static struct entry *keep(struct log_site *site, const char *text, bool same, uint64_t now)
{
    struct entry *it = make_room();
    if (!it)
        return NULL;
    it->told = (struct log_told){.site = site, .same = same};
    snprintf(it->told.text, sizeof it->told.text, "%s", text);
    it->since = now;
    return it;
}

static bool has_room(struct log_site *site, uint64_t now)
{
    unsigned most = site->most ? site->most : WINDOW_LINES;
    if (since(site->window, now) >= WINDOW) {
        site->window = now;
        site->count = 0;
    }
    return site->count++ < most;
}

static struct entry *rest(struct log_site *site, uint64_t now)
{
    struct entry *it = &entries[ENTRIES];
    if (!it->told.site) {
        it->told = (struct log_told){.site = site, .text = "lines of many kinds"};
        it->since = now;
    }
    return it;
}

static struct entry *place_of_left_out(struct log_site *site, const char *text, uint64_t now)
{
    struct entry *it = find_left_out(site);
    if (!it)
        it = keep(site, text, false, now);
    return it ? it : rest(site, now);
}

bool log_fold_admit(struct log_site *site, enum log_level level, enum log_id id, const char *text,
                    uint64_t now)
{
    pthread_mutex_lock(&mutex);
    struct entry *it = find(site, text);
    bool admitted = !it && has_room(site, now);
    if (admitted && strlen(text) < LOG_FOLD_TEXT) {
        keep(site, text, true, now);
    } else if (!admitted) {
        if (!it)
            it = place_of_left_out(site, text, now);
        it->told.count++;
        it->told.level = level;
        it->told.id = id;
    }
    pthread_mutex_unlock(&mutex);
    return admitted;
}

/* A line that goes on and on stays known, so that only its count is told from now on. */
static void take(struct entry *it, uint64_t now, struct log_told *out)
{
    *out = it->told;
    out->seconds = (double)since(it->since, now) / (double)CLOCK_SECOND;
    it->told.count = 0;
    it->since = now;
    if (!it->told.same)
        it->told.site = NULL;
}

bool log_fold_next(uint64_t now, bool all, struct log_told *out)
{
    bool found = false;
    pthread_mutex_lock(&mutex);
    for (struct entry *it = entries; it <= entries + ENTRIES && !found; it++) {
        if (!it->told.site || (!all && since(it->since, now) < WINDOW))
            continue;
        found = it->told.count;
        if (found)
            take(it, now, out);
        else
            it->told.site = NULL;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}
