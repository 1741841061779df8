#include "control/dispatch.h"

#include <inttypes.h>
#include <string.h>

#include "base/trace.h"
#include "control/admit.h"
#include "control/bad_reply.h"
#include "control/check_reply.h"
#include "control/control.h"
#include "control/drain.h"
#include "control/evict.h"
#include "control/feeds.h"
#include "control/find_reply.h"
#include "control/giving.h"
#include "control/gpu_reply.h"
#include "control/mix_reply.h"
#include "control/page_reply.h"
#include "control/replay_request.h"
#include "control/rows_reply.h"
#include "control/settings.h"
#include "control/slices.h"
#include "control/status.h"
#include "control/token_reply.h"
#include "control/trace_reply.h"
#include "proto/frames.h"

#define VERSION_GIVE 2 /* the first with GiveFeed */
#define STATE(state) (1U << SESSION_##state)
#define GREETED_STATES (STATE(GREETED) | STATE(ATTACHING) | STATE(STREAMING) | STATE(CLOSING))

static bool greet(struct session *session, const Dlp__Envelope *env)
{
    const Dlp__Hello *hello = env->hello;
    if (hello->version_min > DLP_VERSION_MAX || hello->version_max < DLP_VERSION_MIN) {
        session_refuse_format(session, env->id, DLP_ERROR_VERSION,
                              "the peer speaks protocol versions %u to %u, this daemon (%s) %u to "
                              "%u: use a client and a daemon of one release",
                              hello->version_min, hello->version_max, DATALOADD_VERSION,
                              DLP_VERSION_MIN, DLP_VERSION_MAX);
        return false;
    }
    dlp_printable(hello->program, session->program, sizeof session->program);
    session->state = SESSION_GREETED;
    Dlp__HelloReply reply = DLP__HELLO_REPLY__INIT;
    reply.version = hello->version_max < DLP_VERSION_MAX ? hello->version_max : DLP_VERSION_MAX;
    if (reply.version >= VERSION_GIVE)
        session->giving = giving_new(session);
    reply.instance = session->control->instance;
    reply.daemon_version = DATALOADD_VERSION;
    Dlp__Envelope out = DLP__ENVELOPE__INIT;
    out.id = env->id;
    out.body_case = DLP__ENVELOPE__BODY_HELLO_REPLY;
    out.hello_reply = &reply;
    session_send(session, &out);
    return true;
}

static bool refuse_value(struct session *session, uint64_t id, const char *what, uint64_t value,
                         uint64_t min, uint64_t max)
{
    session_refuse_format(session, id, DLP_ERROR_BAD_REQUEST,
                          "%s %" PRIu64 " is not in %" PRIu64 " to %" PRIu64, what, value, min,
                          max);
    return false;
}

static bool check_range(struct session *session, uint64_t id, const char *what,
                        const Dlp__Number *number, uint64_t min, uint64_t max)
{
    if (!number || (number->value >= min && number->value <= max))
        return true;
    return refuse_value(session, id, what, number->value, min, max);
}

static bool check_name(struct session *session, uint64_t id, const char *what, const char *name)
{
    if (dlp_name_valid(name))
        return true;
    session_refuse_format(session, id, DLP_ERROR_BAD_REQUEST,
                          "the name of a %s has 1 to %u characters of A-Z a-z 0-9 . _ : / -", what,
                          DLP_NAME_MAX);
    return false;
}

static bool check_feed(struct session *session, uint64_t id, const char *name)
{
    return dlp_feed_name_valid(name) || check_name(session, id, "feed", name);
}

static bool check_position(struct session *session, uint64_t id, const Dlp__Position *position)
{
    if (position->start_epoch > DLP_EPOCH_MAX)
        return refuse_value(session, id, "start epoch", position->start_epoch, 0, DLP_EPOCH_MAX);
    if (position->epoch > DLP_EPOCH_MAX)
        return refuse_value(session, id, "epoch", position->epoch, 0, DLP_EPOCH_MAX);
    return true;
}

static bool check_token(struct session *session, uint64_t id, const char *token)
{
    if (strlen(token) < DLP_TOKEN_MAX)
        return true;
    session_refuse_format(session, id, DLP_ERROR_RESUME,
                          "a resume token has at most %u characters, this one %zu",
                          DLP_TOKEN_MAX - 1, strlen(token));
    return false;
}

static bool attach(struct session *session, const Dlp__Envelope *env)
{
    const Dlp__Attach *message = env->attach;
    uint64_t id = env->id;
    if (check_feed(session, id, message->feed) &&
        (!*message->job || check_name(session, id, "job", message->job)) &&
        (!*message->group || check_name(session, id, "group", message->group)) &&
        check_range(session, id, "rank", message->rank, 0, DLP_WORLD_MAX - 1) &&
        check_range(session, id, "world", message->world, 1, DLP_WORLD_MAX) &&
        check_range(session, id, "batch", message->batch, 1, DLP_BATCH_MAX) &&
        check_range(session, id, "epoch", message->epoch, 0, DLP_EPOCH_MAX) &&
        check_range(session, id, "slots", message->slots, DLP_SLOTS_MIN, DLP_SLOTS_MAX) &&
        (!message->resume || check_position(session, id, message->resume)) &&
        check_token(session, id, message->token))
        admit_begin(session, id, message);
    return true;
}

static bool arena_check(struct session *session, const Dlp__Envelope *env)
{
    admit_check(session, env->id, env->arena_check);
    return true;
}

static bool wait(struct session *session, const Dlp__Envelope *env)
{
    (void)env;
    session_wait(session);
    return true;
}

static bool take(struct session *session, const Dlp__Envelope *env)
{
    session_take(session, env->id, env->take);
    return true;
}

static bool release(struct session *session, const Dlp__Envelope *env)
{
    session_release(session, env->id, env->release);
    return true;
}

static bool seek(struct session *session, const Dlp__Envelope *env)
{
    if (env->seek->epoch > DLP_EPOCH_MAX)
        refuse_value(session, env->id, "epoch", env->seek->epoch, 0, DLP_EPOCH_MAX);
    else
        session_seek(session, env->id, env->seek->epoch);
    return true;
}

static bool detach(struct session *session, const Dlp__Envelope *env)
{
    session_detach(session, env->id);
    return true;
}

static bool status(struct session *session, const Dlp__Envelope *env)
{
    status_reply(session, env->id);
    return true;
}

static bool feeds(struct session *session, const Dlp__Envelope *env)
{
    feeds_reply(session, env->id);
    return true;
}

static bool bad(struct session *session, const Dlp__Envelope *env)
{
    const char *feed = env->bad_request->feed;
    if (!*feed || check_feed(session, env->id, feed))
        bad_reply_begin(session, env->id, feed);
    return true;
}

static bool check_question(struct session *session, uint64_t id, const Dlp__Question *question)
{
    if (!question) {
        session_refuse(session, id, DLP_ERROR_BAD_REQUEST, "there is no question in the request");
        return false;
    }
    return check_feed(session, id, question->feed) &&
           check_range(session, id, "world", question->world, 1, DLP_WORLD_MAX) &&
           check_range(session, id, "batch", question->batch, 1, DLP_BATCH_MAX) &&
           check_range(session, id, "epoch", question->epoch, 0, DLP_EPOCH_MAX) &&
           check_token(session, id, question->token);
}

static bool slices(struct session *session, const Dlp__Envelope *env)
{
    if (check_question(session, env->id, env->slices_request->question))
        slices_begin(session, env->id, env->slices_request);
    return true;
}

static bool token(struct session *session, const Dlp__Envelope *env)
{
    if (check_question(session, env->id, env->token_request->question))
        token_reply_begin(session, env->id, env->token_request);
    return true;
}

static bool mix(struct session *session, const Dlp__Envelope *env)
{
    if (check_question(session, env->id, env->mix_request->question))
        mix_reply_begin(session, env->id, env->mix_request);
    return true;
}

static bool rows(struct session *session, const Dlp__Envelope *env)
{
    const Dlp__RowsRequest *message = env->rows_request;
    if (check_question(session, env->id, message->question) &&
        check_range(session, env->id, "rank", message->rank, 0, DLP_WORLD_MAX - 1))
        rows_reply_begin(session, env->id, message);
    return true;
}

static bool find(struct session *session, const Dlp__Envelope *env)
{
    const Dlp__FindRequest *message = env->find_request;
    if (check_question(session, env->id, message->question) &&
        check_range(session, env->id, "epochs", message->epochs, 1, FIND_EPOCHS_MAX))
        find_reply_begin(session, env->id, message);
    return true;
}

static bool check_seconds(struct session *session, uint64_t id, double seconds)
{
    if (seconds >= REPLAY_SECONDS_MIN && seconds <= REPLAY_SECONDS_MAX)
        return true;
    session_refuse_format(session, id, DLP_ERROR_BAD_REQUEST, "%g seconds are not in %g to %g",
                          seconds, REPLAY_SECONDS_MIN, REPLAY_SECONDS_MAX);
    return false;
}

static bool replay(struct session *session, const Dlp__Envelope *env)
{
    const Dlp__ReplayRequest *message = env->replay_request;
    if (check_name(session, env->id, "job", message->job) &&
        (!*message->feed || check_feed(session, env->id, message->feed)) &&
        check_range(session, env->id, "epoch", message->epoch, 0, DLP_EPOCH_MAX) &&
        check_range(session, env->id, "batches", message->batches, 1, REPLAY_BATCHES_MAX) &&
        (message->batches || check_seconds(session, env->id, message->seconds)))
        replay_begin(session, env->id, message);
    return true;
}

static bool gpu(struct session *session, const Dlp__Envelope *env)
{
    gpu_reply(session, env->id, env->gpu_request);
    return true;
}

static bool page(struct session *session, const Dlp__Envelope *env)
{
    if (check_name(session, env->id, "page", env->page_request->name))
        page_reply_begin(session, env->id, env->page_request->name);
    return true;
}

static bool trace(struct session *session, const Dlp__Envelope *env)
{
    trace_reply_begin(session, env->id, env->trace_request->seconds);
    return true;
}

static bool evict(struct session *session, const Dlp__Envelope *env)
{
    const Dlp__EvictRequest *message = env->evict_request;
    if (!*message->feed || check_feed(session, env->id, message->feed))
        evict_reply(session, env->id, message);
    return true;
}

static bool drain(struct session *session, const Dlp__Envelope *env)
{
    drain_reply(session, env->id, env->drain_request);
    return true;
}

static bool check(struct session *session, const Dlp__Envelope *env)
{
    check_reply_begin(session, env->id);
    return true;
}

static bool reload(struct session *session, const Dlp__Envelope *env)
{
    settings_reload(session, env->id);
    return true;
}

static bool ping(struct session *session, const Dlp__Envelope *env)
{
    status_pong(session, env->id);
    return true;
}

static bool give_feed(struct session *session, const Dlp__Envelope *env)
{
    giving_begin(session, env->id, env->give_feed);
    return true;
}

static bool give_files(struct session *session, const Dlp__Envelope *env)
{
    giving_go_on(session, env->id, env->give_files);
    return true;
}

struct handler {
    unsigned states; /* in which it is allowed */
    bool (*handle)(struct session *session, const Dlp__Envelope *env);
};

static const struct handler handlers[] = {
    [DLP__ENVELOPE__BODY_HELLO] = {STATE(NEW), greet},
    [DLP__ENVELOPE__BODY_ATTACH] = {STATE(GREETED), attach},
    [DLP__ENVELOPE__BODY_ARENA_CHECK] = {STATE(ATTACHING) | STATE(STREAMING), arena_check},
    [DLP__ENVELOPE__BODY_WAIT] = {STATE(STREAMING), wait},
    [DLP__ENVELOPE__BODY_TAKE] = {STATE(STREAMING), take},
    [DLP__ENVELOPE__BODY_RELEASE] = {STATE(STREAMING), release},
    [DLP__ENVELOPE__BODY_SEEK] = {STATE(STREAMING), seek},
    [DLP__ENVELOPE__BODY_DETACH] = {STATE(STREAMING), detach},
    [DLP__ENVELOPE__BODY_STATUS_REQUEST] = {GREETED_STATES, status},
    [DLP__ENVELOPE__BODY_FEEDS_REQUEST] = {GREETED_STATES, feeds},
    [DLP__ENVELOPE__BODY_SLICES_REQUEST] = {GREETED_STATES, slices},
    [DLP__ENVELOPE__BODY_BAD_REQUEST] = {GREETED_STATES, bad},
    [DLP__ENVELOPE__BODY_TOKEN_REQUEST] = {GREETED_STATES, token},
    [DLP__ENVELOPE__BODY_PING] = {GREETED_STATES, ping},
    [DLP__ENVELOPE__BODY_MIX_REQUEST] = {GREETED_STATES, mix},
    [DLP__ENVELOPE__BODY_ROWS_REQUEST] = {GREETED_STATES, rows},
    [DLP__ENVELOPE__BODY_FIND_REQUEST] = {GREETED_STATES, find},
    [DLP__ENVELOPE__BODY_GPU_REQUEST] = {GREETED_STATES, gpu},
    [DLP__ENVELOPE__BODY_PAGE_REQUEST] = {GREETED_STATES, page},
    [DLP__ENVELOPE__BODY_TRACE_REQUEST] = {GREETED_STATES, trace},
    [DLP__ENVELOPE__BODY_REPLAY_REQUEST] = {GREETED_STATES, replay},
    [DLP__ENVELOPE__BODY_EVICT_REQUEST] = {GREETED_STATES, evict},
    [DLP__ENVELOPE__BODY_DRAIN_REQUEST] = {GREETED_STATES, drain},
    [DLP__ENVELOPE__BODY_CHECK_REQUEST] = {GREETED_STATES, check},
    [DLP__ENVELOPE__BODY_RELOAD_REQUEST] = {GREETED_STATES, reload},
    [DLP__ENVELOPE__BODY_GIVE_FEED] = {GREETED_STATES, give_feed},
    [DLP__ENVELOPE__BODY_GIVE_FILES] = {GREETED_STATES, give_files},
};

/* NULL: the daemon does not know the message, in the version that the peer speaks. */
static const struct handler *find_handler(const struct session *session, const Dlp__Envelope *env)
{
    size_t number = (size_t)env->body_case;
    bool give = number == DLP__ENVELOPE__BODY_GIVE_FEED || number == DLP__ENVELOPE__BODY_GIVE_FILES;
    if (give && !session->giving)
        return NULL;
    if (number >= sizeof handlers / sizeof handlers[0] || !handlers[number].handle)
        return NULL;
    return &handlers[number];
}

static bool refuse_state(struct session *session, const Dlp__Envelope *env)
{
    if (session->state == SESSION_NEW) {
        session_refuse(session, env->id, DLP_ERROR_BAD_REQUEST, "the first message must be Hello");
        return false;
    }
    if (env->body_case == DLP__ENVELOPE__BODY_HELLO)
        session_refuse(session, env->id, DLP_ERROR_BAD_REQUEST, "Hello was said before");
    else if (env->body_case == DLP__ENVELOPE__BODY_ATTACH)
        session_refuse(session, env->id, DLP_ERROR_BAD_REQUEST,
                       "this connection is attached already: one attachment at a time");
    else
        session_refuse(session, env->id, DLP_ERROR_NOT_ATTACHED,
                       dlp_error_text(DLP_ERROR_NOT_ATTACHED));
    return true;
}

/* Of a client that could read memory which is taken back all the same: it believes itself attached
 * until another AttachReply tells it so, and says this again then. */
static bool comes_early(const struct session *session, const Dlp__Envelope *env)
{
    bool early =
        env->body_case == DLP__ENVELOPE__BODY_WAIT || env->body_case == DLP__ENVELOPE__BODY_SEEK;
    return early && session->state == SESSION_ATTACHING && admit_has_offered(session->admit);
}

static bool dispatch(struct session *session, const Dlp__Envelope *env)
{
    const struct handler *handler = find_handler(session, env);
    session->heard = clock_ns();
    if (env->body_case == DLP__ENVELOPE__BODY_DETACH)
        session_unmapped(session); /* which comes first, also where the attachment has ended */
    if (comes_early(session, env))
        return true;
    if (handler && handler->states & 1U << session->state)
        return handler->handle(session, env);
    if (handler || session->state == SESSION_NEW)
        return refuse_state(session, env);
    session_refuse(session, env->id, DLP_ERROR_UNSUPPORTED, dlp_error_text(DLP_ERROR_UNSUPPORTED));
    return true;
}

bool dispatch_message(struct session *session, const Dlp__Envelope *env)
{
    uint64_t begin = trace_now();
    bool goes_on = dispatch(session, env);
    giving_refuse_rest(session, env->id);
    trace_long("message", begin);
    return goes_on;
}
