#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/admit_parts.h"
#include "control/admit_reply.h"
#include "device/arena_cuda.h"
#include "feed/feed_ports.h"
#include "proto/cuda_result.h"
#include "proto/frames.h"

/* For a client to map and read; its driver may have to start. */
#define CHECK_NS (30 * CLOCK_SECOND)

void admit_offer(struct admit *admit, const struct feed *feed, struct feed_place first)
{
    struct session *session = admit->session;
    memcpy(session->started, admit->place.words, sizeof session->started);
    admit_reply_send(session, admit->id, feed, first,
                     handoff_why(&admit->group->handoff, &admit->wish),
                     (const char *const[]){admit->place.note, admit->group->lane_note, NULL});
}

/* Until it says otherwise or its process ends. */
static void lend(struct session *session, struct feed *feed)
{
    borrower_unref(session->borrower);
    session->borrower = borrower_new(session->life);
    feed_lend(feed, (uint32_t)session->port, session->borrower);
}

/* What a running group has from there on waits for it. */
void admit_wait_for_check(struct admit *admit, struct feed *feed, struct feed_place first)
{
    char name[UPLOADER_NAME_MAX];
    admit->stage = ADMIT_CHECK;
    admit->waits_since = clock_ns();
    admit->first = first;
    snprintf(admit->waits_for, sizeof admit->waits_for,
             "waiting for the trainer to map memory of %s",
             uploaders_uuid_text(admit->session->gpu, name));
    if (admit->group->handoff.kind == DLP_MEMORY_IPC)
        lend(admit->session, feed);
    admit->offered = true;
    admit->session->offers++;
    if (!admit->opens)
        group_expect(admit->session, first);
    admit_offer(admit, feed, first);
}

/* The opener's feed has to be gone before another kind of memory is tried, or the end is told. */
static void refuse_offer(struct admit *admit, const char *reason)
{
    struct group *group = admit->group;
    struct feed *feed = admit->feed;
    if (!admit->opens) {
        struct error err;
        error_set(&err, -ENODEV, "group %s of feed %s has its batches on a GPU, and %s",
                  group->job->name, group->params.spec->name, reason);
        admit_fail(admit, DLP_ERROR_GPU, err.text);
        return;
    }
    admit->stage = ADMIT_UNDO;
    admit->session->port = -1;
    admit->feed = NULL;
    snprintf(admit->reason, sizeof admit->reason, "%s", reason);
    group_undo(group, feed);
}

void admit_undone(struct admit *admit)
{
    if (admit->cancelled)
        admit_drop(admit);
    else
        admit_fall_back(admit, admit->reason);
}

void admit_check_tick(struct admit *admit, uint64_t now)
{
    char reason[ERROR_TEXT_MAX];
    if (now < admit->waits_since + CHECK_NS)
        return;
    snprintf(reason, sizeof reason, "the trainer has not said within %.0f s whether it can read it",
             (double)CHECK_NS / (double)CLOCK_SECOND);
    refuse_offer(admit, reason);
}

static char *reason_of(const Dlp__ArenaCheck *message, char *text, size_t size)
{
    char step[DLP_TEXT_MAX], why[ERROR_TEXT_MAX - 100];
    if (message->nonce.len) {
        snprintf(text, size,
                 "the trainer has read other bytes there than the daemon has written: "
                 "its driver is another one, or does not share memory");
        return text;
    }
    dlp_cu_result_explain((dlp_cu_result)message->result,
                          dlp_escape(message->step, step, sizeof step), why, sizeof why);
    snprintf(text, size, "the trainer cannot map it: %s", why);
    return text;
}

static void passed(struct admit *admit)
{
    const struct refusal *stop = &admit->group->stop;
    struct session *session = admit->session;
    if (admit->opens)
        admit_have_feed(admit);
    else if (stop->code)
        admit_fail(admit, stop->code, stop->text);
    else if (feed_has_lost(admit->group->feed, (uint32_t)session->port, &admit->err))
        admit_fail(admit, DLP_ERROR_GPU, admit->err.text);
    else
        admit_begin_stream(admit, admit->first);
}

/* Where it could not map or read it, it has it unmapped. */
static void refused(struct admit *admit, const Dlp__ArenaCheck *message)
{
    char reason[ERROR_TEXT_MAX];
    if (!message->nonce.len)
        session_unmapped(admit->session);
    refuse_offer(admit, reason_of(message, reason, sizeof reason));
}

bool admit_has_offered(const struct admit *admit)
{
    return admit->offered;
}

void admit_check(struct session *session, uint64_t id, const Dlp__ArenaCheck *message)
{
    struct admit *admit = session->admit;
    struct feed_arena arena;
    if (message->offer == 0 || message->offer > session->offers) {
        session_refuse_format(session, id, DLP_ERROR_BAD_REQUEST,
                              "no memory was offered under the number %" PRIu64
                              " that has to be checked",
                              message->offer);
        return;
    }
    if (!admit || admit->stage != ADMIT_CHECK || message->offer != session->offers)
        return; /* too late: that one is taken back */
    feed_get_arena(admit->opens ? admit->feed : admit->group->feed, (uint32_t)session->port,
                   &arena);
    if (message->nonce.len == DLP_NONCE &&
        memcmp(message->nonce.data, arena.offer->nonce, DLP_NONCE) == 0)
        passed(admit);
    else
        refused(admit, message);
}
