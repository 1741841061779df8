#include "control/giving.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/plural.h"
#include "control/control.h"
#include "control/errands.h"
#include "control/own_feeds.h"

#define WHAT "a feed of its own"

enum giving_state {
    GIVING_NONE,
    GIVING_WAITS, /* for another that gives a feed of this name */
    GIVING_TAKES, /* the next files are the client's to send */
    GIVING_LOOKS, /* a thread is at those that came */
};

struct giving {
    struct giving *next; /* of the user's, in the order of asking */
    struct session *session;
    struct own_user *user; /* NULL: it has not given any feed */
    enum giving_state state;
    uint64_t id;    /* of what is to be answered */
    uint64_t heard; /* ns: its last message about it */
    struct feed_spec *spec;
    uint32_t wanted;     /* files in all */
    struct files *fresh; /* that came last */
    struct files *known; /* of the feed as it is, while a thread looks; NULL: there is none */
    const struct feed_spec *at; /* what it has given: stays as long as the connection */
    int fds[DLP_FDS_MAX];       /* that came with the message */
    size_t nfds;
    struct errand errand;
    bool cancelled;
    char name[ACCESS_USER_MAX]; /* of the thread */
    struct error err;
};

struct giving *giving_new(struct session *session)
{
    struct giving *giving = mem_new(sizeof *giving);
    giving->session = session;
    return giving;
}

const struct feed_spec *giving_given(const struct giving *giving, const char *name)
{
    return giving && giving->at && !strcmp(giving->at->name, name) ? giving->at : NULL;
}

bool giving_is_at_work(const struct giving *giving)
{
    return giving && giving->state != GIVING_NONE;
}

static void drop_rest(struct giving *giving)
{
    if (giving->nfds)
        files_drop(giving->user->files, giving->fds, giving->nfds);
    giving->nfds = 0;
}

void giving_free(struct giving *giving)
{
    if (!giving)
        return;
    drop_rest(giving);
    spec_unref(giving->at);
    free(giving);
}

static bool same_name(const struct giving *a, const struct giving *b)
{
    return !strcmp(a->spec->name, b->spec->name);
}

/* The one that gives a feed of this name now. */
static const struct giving *first_of(const struct giving *giving)
{
    const struct giving *at = giving->user->givings;
    while (!same_name(at, giving))
        at = at->next;
    return at;
}

static void answer_begin(struct giving *giving)
{
    Dlp__GiveFeedReply reply = DLP__GIVE_FEED_REPLY__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    giving->state = GIVING_TAKES;
    giving->heard = clock_ns();
    reply.feed = giving->spec->name;
    env.id = giving->id;
    env.body_case = DLP__ENVELOPE__BODY_GIVE_FEED_REPLY;
    env.give_feed_reply = &reply;
    session_send(giving->session, &env);
}

static void drop_fresh(struct giving *giving)
{
    files_unref(giving->fresh);
    files_unref(giving->known);
    giving->fresh = giving->known = NULL;
}

/* It is over; another that waits for it comes to its turn. */
static void leave(struct giving *giving)
{
    struct giving **at = &giving->user->givings;
    while (*at != giving)
        at = &(*at)->next;
    *at = giving->next;
    giving->state = GIVING_NONE;
    struct giving *heir = giving->user->givings;
    while (heir && !same_name(heir, giving))
        heir = heir->next;
    spec_unref(giving->spec);
    drop_fresh(giving);
    giving->spec = NULL;
    if (heir && heir->state == GIVING_WAITS)
        answer_begin(heir);
}

static void fail(struct giving *giving, enum dlp_error code, const char *text)
{
    leave(giving);
    session_deny(giving->session, giving->id, WHAT, code, text);
}

static void fail_with(struct giving *giving, const struct refusal *refusal)
{
    fail(giving, refusal->code, refusal->text);
}

/* ------- the recipe ------- */

static int check_giver(const struct giving *giving, const Dlp__GiveFeed *message,
                       struct refusal *refusal)
{
    const struct session *session = giving->session;
    const struct control_options *options = &session->control->options;
    if (!options->own_feeds)
        return refuse(refusal, DLP_ERROR_NOT_PERMITTED,
                      "feeds of a client's own are not taken: the daemon's configuration has "
                      "own_feeds: no; use one of its feeds, or a daemon of your own");
    if (!access_known(&session->peer))
        return refuse(refusal, DLP_ERROR_NOT_PERMITTED,
                      "uid %u stands for any user that has no number in the daemon's user "
                      "namespace: it can have no feed of its own",
                      session->peer.uid);
    if (giving->state != GIVING_NONE)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "this connection gives feed %s: one at a time", giving->spec->name);
    if (message->files < 1 || message->files > DLP_FILES_MAX)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST, "%u files are not in 1 to %u", message->files,
                      DLP_FILES_MAX);
    if (strlen(message->recipe) > DLP_RECIPE_MAX)
        return refuse(refusal, DLP_ERROR_CONFIG, "the recipe has %zu bytes, at most %u are taken",
                      strlen(message->recipe), DLP_RECIPE_MAX);
    return 0;
}

static int read_recipe(struct giving *giving, const char *recipe, struct refusal *refusal)
{
    struct error err = {0};
    const struct control_options *options = &giving->session->control->options;
    if (options->read_recipe(recipe, strlen(recipe), giving->session->peer.uid, &giving->spec,
                             &err) == 0)
        return 0;
    return refuse(refusal, DLP_ERROR_CONFIG, "%s", err.text);
}

/* For the files up to this number; those that the feed has as it is count already. */
static int check_room(struct giving *giving, uint32_t until, struct refusal *refusal)
{
    const struct own_feeds *own = giving->session->control->own_feeds;
    const struct feed_spec *known = own_feeds_find(own, giving->spec->name);
    uint32_t taken = files_count(giving->spec->files);
    uint32_t shared = known ? files_count(known->files) : 0;
    uint32_t from = taken > shared ? taken : shared;
    return own_feeds_room(own, giving->user, until > from ? until - from : 0, refusal);
}

void giving_begin(struct session *session, uint64_t id, const Dlp__GiveFeed *message)
{
    struct refusal refusal;
    struct giving *giving = session->giving;
    if (check_giver(giving, message, &refusal) || read_recipe(giving, message->recipe, &refusal)) {
        session_deny(session, id, WHAT, refusal.code, refusal.text);
        return;
    }
    giving->user = own_feeds_user(session->control->own_feeds, session->peer.uid);
    giving->id = id;
    giving->wanted = message->files;
    giving->heard = clock_ns();
    giving->state = GIVING_WAITS;
    giving->spec->files = files_new(giving->user->files);
    giving->next = NULL;
    struct giving **last = &giving->user->givings;
    while (*last)
        last = &(*last)->next;
    *last = giving;
    if (check_room(giving, giving->wanted, &refusal)) {
        fail_with(giving, &refusal);
        return;
    }
    if (session->sink.take_fds)
        session->sink.take_fds(session->sink.context, giving->user->files);
    if (first_of(giving) == giving)
        answer_begin(giving);
}

/* ------- the files ------- */

void giving_receive(struct session *session, const int *fds, size_t count)
{
    memcpy(session->giving->fds, fds, count * sizeof *fds);
    session->giving->nfds = count;
}

void giving_refuse_rest(struct session *session, uint64_t id)
{
    struct giving *giving = session->giving;
    size_t count = giving ? giving->nfds : 0;
    if (!count)
        return;
    char text[DLP_TEXT_MAX];
    drop_rest(giving);
    snprintf(text, sizeof text, "%zu descriptor%s came with a message that takes none", count,
             plural(count));
    if (giving->state == GIVING_TAKES)
        leave(giving);
    session_deny(session, id, WHAT, DLP_ERROR_BAD_REQUEST, text);
}

static int check_files(const struct giving *giving, const Dlp__GiveFiles *message,
                       struct refusal *refusal)
{
    uint32_t left = giving->wanted - files_count(giving->spec->files);
    if (message->n_names != giving->nfds)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "%zu descriptor%s came with %zu name%s: each file has both", giving->nfds,
                      plural(giving->nfds), message->n_names, plural(message->n_names));
    if (giving->nfds < 1 || giving->nfds > left)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "%zu files came, and feed %s lacks %u of %u: 1 to %u at a time", giving->nfds,
                      giving->spec->name, left, giving->wanted, DLP_FDS_MAX);
    for (size_t i = 0; i < message->n_names; i++)
        if (!*message->names[i] || strlen(message->names[i]) > DLP_TEXT_MAX)
            return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                          "the name of a file has 1 to %u bytes, that of file %zu has %zu",
                          DLP_TEXT_MAX, files_count(giving->spec->files) + i + 1,
                          strlen(message->names[i]));
    return 0;
}

static struct giving *of_errand(struct errand *errand)
{
    return (struct giving *)(void *)((char *)errand - offsetof(struct giving, errand));
}

/* A thread of the user's. */
static void look(struct errand *errand)
{
    struct giving *giving = of_errand(errand);
    uint32_t count = files_count(giving->fresh);
    if (!*giving->name)
        access_user_name(giving->session->peer.uid, giving->name);
    for (uint32_t i = 0; i < count && !giving->err.code; i++)
        files_look(giving->fresh, i, &giving->err);
    if (giving->known && !giving->err.code)
        files_share(giving->fresh, giving->known, files_count(giving->spec->files));
}

static void answer_files(struct giving *giving)
{
    Dlp__GiveFilesReply reply = DLP__GIVE_FILES_REPLY__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    reply.taken = files_count(giving->spec->files);
    env.id = giving->id;
    env.body_case = DLP__ENVELOPE__BODY_GIVE_FILES_REPLY;
    env.give_files_reply = &reply;
    session_send(giving->session, &env);
}

static void finish(struct giving *giving)
{
    struct refusal refusal;
    const struct feed_spec *feed;
    if (own_feeds_put(giving->session->control->own_feeds, giving->spec, &feed, &refusal)) {
        fail_with(giving, &refusal);
        return;
    }
    spec_ref(feed);
    spec_unref(giving->at);
    giving->at = feed;
    answer_files(giving);
    leave(giving);
}

static void take_in(struct giving *giving)
{
    files_join(giving->spec->files, giving->fresh);
    drop_fresh(giving);
    giving->state = GIVING_TAKES;
    giving->heard = clock_ns();
    if (files_count(giving->spec->files) == giving->wanted)
        finish(giving);
    else
        answer_files(giving);
}

static void looked(struct errand *errand)
{
    struct giving *giving = of_errand(errand);
    struct session *session = giving->session;
    const struct error *err = errand->err.code ? &errand->err : &giving->err;
    errands_end(errand);
    if (*giving->name)
        memcpy(giving->user->name, giving->name, sizeof giving->name);
    if (giving->cancelled) { /* its peer has gone, or has been told so */
        leave(giving);
        session_reap(session);
    } else if (err->code) {
        fail(giving, errand->err.code ? DLP_ERROR_TOO_MANY : DLP_ERROR_DATASET, err->text);
    } else {
        take_in(giving);
    }
}

void giving_go_on(struct session *session, uint64_t id, const Dlp__GiveFiles *message)
{
    struct refusal refusal;
    struct giving *giving = session->giving;
    if (giving->state != GIVING_TAKES) {
        drop_rest(giving);
        session_deny(session, id, WHAT, DLP_ERROR_BAD_REQUEST,
                     giving->state == GIVING_NONE
                         ? "files of no feed: GiveFeed comes first, and after an Error again"
                         : "files came before the last message was answered: one at a time");
        return;
    }
    giving->id = id;
    giving->heard = clock_ns();
    if (check_files(giving, message, &refusal) ||
        check_room(giving, files_count(giving->spec->files) + (uint32_t)giving->nfds, &refusal)) {
        drop_rest(giving);
        fail_with(giving, &refusal);
        return;
    }
    const struct feed_spec *known = own_feeds_find(session->control->own_feeds, giving->spec->name);
    giving->known = known ? files_ref(known->files) : NULL;
    giving->fresh = files_new(giving->user->files);
    for (size_t i = 0; i < giving->nfds; i++)
        files_add(giving->fresh, giving->fds[i], message->names[i]);
    giving->nfds = 0;
    giving->state = GIVING_LOOKS;
    giving->cancelled = false;
    giving->err = (struct error){0};
    giving->errand.run = look;
    giving->errand.ran = looked;
    errands_add(giving->user->openings, &giving->errand);
}

/* ------- the time ------- */

static void tell_wait(const struct giving *giving, const struct giving *first)
{
    char text[DLP_TEXT_MAX];
    uint32_t before = first->state == GIVING_LOOKS ? errands_before(&first->errand) : 0;
    if (first != giving)
        snprintf(text, sizeof text, "waiting for pid %d, which gives feed %s",
                 (int)first->session->peer.pid, giving->spec->name);
    else if (before)
        snprintf(text, sizeof text,
                 "waiting for %u opening%s of the same user's files and data "
                 "sets",
                 before, plural(before));
    else
        snprintf(text, sizeof text, "looking at the files of feed %s", giving->spec->name);
    session_progress(giving->session, giving->id, text, files_count(first->spec->files),
                     first->wanted);
}

/* The thread that is at its files, if any, is waited for by nobody but what it works with. */
static void give_up(struct giving *giving, const char *why)
{
    char text[DLP_TEXT_MAX];
    snprintf(text, sizeof text, "feed %s is given up: %s", giving->spec->name, why);
    if (giving->state == GIVING_LOOKS && !errands_leave(&giving->errand)) {
        giving->cancelled = true;
        session_deny(giving->session, giving->id, WHAT, DLP_ERROR_DATASET, text);
    } else {
        fail(giving, giving->state == GIVING_TAKES ? DLP_ERROR_BAD_REQUEST : DLP_ERROR_DATASET,
             text);
    }
}

/* Where its files wait for their turn, what is before them counts too. */
static uint64_t silence(const struct giving *giving, uint64_t now)
{
    uint64_t since = giving->heard;
    if (giving->state == GIVING_LOOKS && errands_moved(&giving->errand) > since)
        since = errands_moved(&giving->errand);
    return now > since ? now - since : 0; /* it may have begun in this very tick */
}

void giving_tick(struct session *session, uint64_t now)
{
    struct giving *giving = session->giving;
    if (!giving_is_at_work(giving) || giving->cancelled)
        return;
    const struct giving *first = giving->state == GIVING_WAITS ? first_of(giving) : giving;
    uint64_t silent = silence(first, now);
    if (giving->state == GIVING_TAKES && silent > GIVING_SILENCE_S * CLOCK_SECOND)
        give_up(giving, "no file has come for 30 s");
    else if (silent > GIVING_PATIENCE_S * CLOCK_SECOND)
        give_up(giving, first == giving
                            ? "the storage of its files has not answered for 120 s"
                            : "another process of the user gives it, and the storage of its files "
                              "has not answered for 120 s");
    else if (giving->state != GIVING_TAKES)
        tell_wait(giving, first);
}

void giving_cancel(struct giving *giving)
{
    if (!giving_is_at_work(giving))
        return;
    giving->cancelled = true;
    if (giving->state != GIVING_LOOKS || errands_leave(&giving->errand))
        leave(giving);
}
