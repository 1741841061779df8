/* All clients and their streams as they are at one moment, from counters at hand. A stream that
 * several read counts once. Loop thread; good until the loop goes on. */
#ifndef CENSUS_H
#define CENSUS_H

#include "control/control.h"
#include "control/gauge.h"
#include "control/stages.h"
#include "control/verdict.h"
#include "dataload.pb-c.h"

struct view { /* of one client */
    const struct session *session;
    const struct feed *feed; /* NULL: none yet, or none any more */
    struct feed_stats stats;
    struct window_rates rates;
    double share; /* of its stream, of the workers, while all want some; 0..1 */
    bool counts;  /* its figures are those of its stream: it is the fastest member */
    Dlp__ClientStatus status;
    struct stages_status stages;
    Dlp__CauseStatus causes[GAUGE_CAUSES], *cause_list[GAUGE_CAUSES];
    char reason[600], memory_why[DLP_TEXT_MAX], gpu[UPLOADER_NAME_MAX];
    char verdict[VERDICT_TEXT_MAX];
};

struct census {
    const struct control *control;
    uint64_t now;
    const struct access_peer *viewer; /* who is told; NULL: everybody */
    struct view *views;
    uint32_t count;
    uint32_t workers, cpus;
    double throttled_share;  /* as in StatusReply */
    double busy, busy_first; /* workers; with all, with all but probes */
};

void census_take(struct census *census, const struct control *control);
void census_free(struct census *census);
/* Workers that are busy with its stream. */
double census_busy(const struct view *view);
/* Workers that this client could have: those that others leave, at least its share, at most those
 * of its user, and one a row of the slots that are not held; probes come after all others. */
double census_workers_left(const struct census *census, const struct view *view);
/* The same for all streams of a feed that count. */
double census_workers_left_to(const struct census *census, uint32_t feed);
/* What they could do for it, samples/s. */
double census_decode_limit(const struct census *census, const struct view *view);
/* Share of the window in which the reader waited for a slot that no waiting member held up. */
double census_slots_held(const struct census *census, const struct view *view);

#endif
