#include "control/bad_reply.h"

#include <stdio.h>
#include <string.h>

#include "control/control.h"
#include "control/feeds.h"

#define SAMPLES_A_PART 256 /* of at most 2 KiB */

/* Also false for what is left of a feed that the configuration no longer has. */
static bool may_see(const struct session *session, const char *feed)
{
    int number = control_find_feed(session->control, feed);
    return number >= 0 && access_allowed(session->control->options.feeds[number], &session->peer);
}

static bool wanted(const struct session *session, const struct badlist_entry *entry,
                   const char *feed)
{
    return *feed ? !strcmp(entry->feed, feed) : may_see(session, entry->feed);
}

static void fill_sample(const struct badlist_entry *entry, Dlp__BadSample *out)
{
    dlp__bad_sample__init(out);
    out->feed = entry->feed;
    out->cls = (char *)bad_name(entry->cls);
    out->shard = entry->shard;
    out->key = entry->key;
    out->offset = entry->offset;
    out->reason = entry->reason;
    out->count = entry->count;
}

/* Up to a part's samples from session->listing on. */
static void collect(struct session *session, Dlp__BadSample *samples, Dlp__BadReply *reply)
{
    const struct badlist *list = session->control->badlist;
    struct bad_listing *listing = &session->listing;
    for (; listing->next < badlist_count(list); listing->next++) {
        const struct badlist_entry *entry = badlist_at(list, listing->next);
        if (!wanted(session, entry, listing->feed))
            continue;
        if (reply->n_samples == SAMPLES_A_PART) {
            reply->more = true;
            return;
        }
        fill_sample(entry, &samples[reply->n_samples]);
        reply->samples[reply->n_samples] = &samples[reply->n_samples];
        reply->n_samples++;
    }
}

bool bad_reply_continue(struct session *session)
{
    struct bad_listing *listing = &session->listing;
    if (!listing->active)
        return false;
    Dlp__BadSample samples[SAMPLES_A_PART], *pointers[SAMPLES_A_PART];
    Dlp__BadReply reply = DLP__BAD_REPLY__INIT;
    reply.samples = pointers;
    collect(session, samples, &reply);
    reply.total = listing->total;
    listing->active = reply.more;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = listing->id;
    env.body_case = DLP__ENVELOPE__BODY_BAD_REPLY;
    env.bad_reply = &reply;
    session_send(session, &env);
    return true;
}

/* Those that found no room in the list are not told apart by feed. */
static uint64_t count_all(const struct session *session, const char *feed)
{
    const struct badlist *list = session->control->badlist;
    uint64_t total = *feed ? 0 : badlist_unlisted(list);
    for (uint32_t i = 0; i < badlist_count(list); i++)
        total += wanted(session, badlist_at(list, i), feed);
    return total;
}

void bad_reply_begin(struct session *session, uint64_t id, const char *feed)
{
    struct refusal refusal;
    if (*feed && feeds_check(session->control, &session->peer, feed, &refusal) < 0) {
        session_deny(session, id, "list of bad samples", refusal.code, refusal.text);
        return;
    }
    session->listing =
        (struct bad_listing){.active = true, .id = id, .total = count_all(session, feed)};
    snprintf(session->listing.feed, sizeof session->listing.feed, "%s", feed);
    bad_reply_continue(session);
}
