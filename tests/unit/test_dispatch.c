/* control/dispatch.c: bytes in, replies out, no sockets; status, slices, bad, feeds. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/bad_reply.h"
#include "control/inquiry.h"
#include "control_rig.h"

START_TEST(hello_comes_first)
{
    struct rig_peer *peer = rig_peer_new(1);
    Dlp__Ping ping = DLP__PING__INIT;
    ck_assert(!SAY(peer, 3, PING, ping, &ping));
    rig_expect_text(rig_await_error(peer, 3, DLP_ERROR_BAD_REQUEST), "first", "Hello");
    rig_peer_free(peer);
    peer = rig_peer_new(1);
    ck_assert(!rig_hello(peer, 3, 9));
    rig_expect_text(rig_await_error(peer, 1, DLP_ERROR_VERSION), "3 to 9", "1 to 2");
    rig_peer_free(peer);
    peer = rig_peer_new(1);
    ck_assert(rig_hello(peer, 0, 9));
    const Dlp__HelloReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_HELLO_REPLY)->hello_reply;
    ck_assert_uint_eq(reply->version, 2);
    ck_assert_uint_eq(reply->instance, rig_control->instance);
    ck_assert_uint_ne(reply->instance, 0);
    ck_assert_ptr_null(strchr(peer->session->program, '\n'));
    ck_assert(rig_hello(peer, 1, 1)); /* again: told, and no more */
    rig_await_error(peer, 1, DLP_ERROR_BAD_REQUEST);
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

START_TEST(unknown_messages_are_answered)
{
    struct rig_peer *peer = rig_greeted(1);
    const uint8_t future[] = {6,    0,    0,    0,    0x08,
                              0x07, 0xfa, 0x3e, 0x01, 0x00}; /* id 7, field 1007 */
    ck_assert(rig_say_bytes(peer, future, sizeof future));
    rig_await_error(peer, 7, DLP_ERROR_UNSUPPORTED);
    Dlp__Pong pong = DLP__PONG__INIT; /* a reply, from a client */
    ck_assert(SAY(peer, 8, PONG, pong, &pong));
    rig_await_error(peer, 8, DLP_ERROR_UNSUPPORTED);
    Dlp__Ping ping = DLP__PING__INIT;
    ck_assert(SAY(peer, 9, PING, ping, &ping));
    ck_assert_int_eq(rig_await(peer, DLP__ENVELOPE__BODY_PONG)->pong->pid, getpid());
    rig_peer_free(peer);
}
END_TEST

START_TEST(messages_of_an_attachment_need_one)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Wait wait = DLP__WAIT__INIT;
    Dlp__Seek seek = DLP__SEEK__INIT;
    Dlp__Detach detach = DLP__DETACH__INIT;
    SAY(peer, 2, WAIT, wait, &wait);
    rig_await_error(peer, 2, DLP_ERROR_NOT_ATTACHED);
    rig_take(peer, &(Dlp__BatchReady){.slot = 0, .generation = 1}, 3);
    rig_await_error(peer, 3, DLP_ERROR_NOT_ATTACHED);
    rig_release(peer, 0, 1, 4);
    rig_await_error(peer, 4, DLP_ERROR_NOT_ATTACHED);
    SAY(peer, 5, SEEK, seek, &seek);
    rig_await_error(peer, 5, DLP_ERROR_NOT_ATTACHED);
    SAY(peer, 6, DETACH, detach, &detach);
    rig_await_error(peer, 6, DLP_ERROR_NOT_ATTACHED);
    rig_peer_free(peer);
}
END_TEST

static void refused_value(struct rig_peer *peer, Dlp__Attach message, const char *what,
                          const char *limit)
{
    SAY(peer, 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_BAD_REQUEST), what, limit);
}

START_TEST(values_are_checked)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Attach message = rig_attach("no such name");
    refused_value(peer, message, "name of a feed", "128");
    message = rig_attach("small");
    message.job = "x\x1b[2J";
    refused_value(peer, message, "name of a job", "128");
    message = rig_attach_as("small", 65536, 2);
    refused_value(peer, message, "rank 65536", "65535");
    message = rig_attach_as("small", 0, 0);
    refused_value(peer, message, "world 0", "1 to 65536");
    message = rig_attach("small");
    message.batch = rig_number(0);
    refused_value(peer, message, "batch 0", "65536");
    message.batch = rig_number(UINT64_MAX);
    refused_value(peer, message, "batch 18446744073709551615", "65536");
    message = rig_attach("small");
    message.slots = rig_number(1);
    refused_value(peer, message, "slots 1", "2 to 64");
    message = rig_attach("small");
    message.epoch = rig_number(1 << 24);
    refused_value(peer, message, "epoch 16777216", "16777215");
    Dlp__Position position = DLP__POSITION__INIT;
    position.epoch = 1 << 24;
    message = rig_attach("small");
    message.resume = &position;
    refused_value(peer, message, "epoch 16777216", "16777215");
    ck_assert_ptr_null(jobs_first(rig_control->jobs));
    rig_peer_free(peer);
}
END_TEST

START_TEST(feeds_that_are_not_there_or_not_for_all)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Attach message = rig_attach("smal");
    SAY(peer, 5, ATTACH, attach, &message);
    const char *text = rig_await_error(peer, 5, DLP_ERROR_NO_SUCH_FEED);
    rig_expect_text(text, "smal", "small, gone");
    ck_assert_ptr_null(strstr(text, "secret"));
    message = rig_attach("secret");
    SAY(peer, 6, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_NOT_PERMITTED), "uid 1000", "secret");
    message = rig_attach("gone");
    SAY(peer, 7, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 7, DLP_ERROR_DATASET), "/nowhere", "No such file");
    ck_assert_uint_eq(rig_control->nattached, 0);
    ck_assert_uint_eq(rig_control->refused, 3);
    Dlp__FeedsRequest request = DLP__FEEDS_REQUEST__INIT;
    SAY(peer, 8, FEEDS_REQUEST, feeds_request, &request);
    const Dlp__FeedsReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_FEEDS_REPLY)->feeds_reply;
    ck_assert_uint_eq(reply->n_feeds, 3);
    ck_assert(reply->feeds[0]->allowed && strstr(reply->feeds[0]->source, "a.tar"));
    ck_assert(!reply->feeds[1]->allowed && !*reply->feeds[1]->source);
    rig_peer_free(peer);
}
END_TEST

/* What the driver says is another's test: here it may be there or not. */
START_TEST(gpus_are_told)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__GpuRequest request = DLP__GPU_REQUEST__INIT;
    SAY(peer, 8, GPU_REQUEST, gpu_request, &request);
    const Dlp__GpuReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_GPU_REPLY)->gpu_reply;
    ck_assert_ptr_eq(strstr(reply->device, "shared memory"), reply->device);
    ck_assert(!reply->n_gpus || reply->driver >= 12000);
    rig_peer_free(peer);
}
END_TEST

START_TEST(status_shows_clients_and_feeds)
{
    struct rig_peer *peer = rig_attached(77, rig_attach_as("small", 1, 2));
    const Dlp__BatchReady *ready = rig_next_ready(peer);
    rig_take(peer, ready, 0);
    struct rig_peer *looker = rig_greeted(2);
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    SAY(looker, 5, STATUS_REQUEST, status_request, &request);
    const Dlp__StatusReply *status =
        rig_await(looker, DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply;
    ck_assert(!status->more);
    ck_assert_uint_eq(status->n_clients, 1);
    const Dlp__ClientStatus *client = status->clients[0];
    ck_assert_int_eq(client->pid, 77);
    ck_assert_uint_eq(client->uid, 1000);
    ck_assert_str_eq(client->job, "j");
    ck_assert_uint_eq(client->rank, 1);
    ck_assert_uint_eq(client->world, 2);
    ck_assert_uint_eq(client->step, 1);
    ck_assert_uint_eq(client->held, 1);
    ck_assert_uint_eq(client->samples, RIG_BATCH);
    ck_assert_str_eq(client->state, "streaming");
    ck_assert_str_eq(client->started, "from the start");
    ck_assert_uint_eq(status->n_feeds, 3);
    ck_assert_uint_eq(status->feeds[0]->clients, 1);
    ck_assert_uint_eq(status->feeds[0]->records, RIG_RECORDS);
    ck_assert_uint_eq(status->feeds[1]->clients, 0);
    ck_assert_uint_eq(status->workers, 2);
    ck_assert_uint_gt(status->memory_used, 0);
    rig_peer_free(peer);
    rig_peer_free(looker);
}
END_TEST

static Dlp__Question question;

/* A question about a feed, of which more can be said. */
static Dlp__Question *about(const char *feed)
{
    dlp__question__init(&question);
    question.feed = (char *)feed;
    return &question;
}

START_TEST(tokens_of_places)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__TokenRequest request = DLP__TOKEN_REQUEST__INIT;
    request.question = about("small");
    question.epoch = rig_number(2);
    question.world = rig_number(2);
    request.step = 3;
    SAY(peer, 5, TOKEN_REQUEST, token_request, &request);
    SAY(peer, 6, TOKEN_REQUEST, token_request, &request); /* the first is not answered yet */
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST), "one", "at a time");
    const char *text = rig_await(peer, DLP__ENVELOPE__BODY_TOKEN_REPLY)->token_reply->token;
    rig_expect_text(text, "\"epoch\":2", "\"next\":24,");
    request.step = 4; /* of 4: 26 records in steps of 8 */
    SAY(peer, 7, TOKEN_REQUEST, token_request, &request);
    text = rig_await(peer, DLP__ENVELOPE__BODY_TOKEN_REPLY)->token_reply->token;
    rig_expect_text(text, "\"epoch\":3", "\"next\":0,");
    request.step = 5;
    SAY(peer, 8, TOKEN_REQUEST, token_request, &request);
    rig_expect_text(rig_await_error(peer, 8, DLP_ERROR_BAD_REQUEST), "step 5", "4 steps");
    request.question = about("secret");
    SAY(peer, 11, TOKEN_REQUEST, token_request, &request);
    rig_await_error(peer, 11, DLP_ERROR_NOT_PERMITTED);
    request.question = about("gone");
    SAY(peer, 12, TOKEN_REQUEST, token_request, &request);
    rig_await_error(peer, 12, DLP_ERROR_DATASET);
    rig_peer_free(peer);
}
END_TEST

/* After the last step of the last epoch there is nothing. */
START_TEST(tokens_of_the_last_epoch)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__TokenRequest request = DLP__TOKEN_REQUEST__INIT;
    request.question = about("small");
    question.epoch = rig_number((1 << 24) - 1);
    request.step = 6;
    SAY(peer, 5, TOKEN_REQUEST, token_request, &request);
    char *text = strdup(rig_await(peer, DLP__ENVELOPE__BODY_TOKEN_REPLY)->token_reply->token);
    rig_expect_text(text, "\"epoch\":16777215", "\"next\":24,");
    request.step = 7;
    SAY(peer, 6, TOKEN_REQUEST, token_request, &request);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_RESUME), "16777216", "the last");
    question.epoch = NULL;
    question.token = text;
    request.step = 1;
    SAY(peer, 7, TOKEN_REQUEST, token_request, &request);
    rig_await_error(peer, 7, DLP_ERROR_RESUME);
    Dlp__Attach attach = rig_attach("small");
    attach.token = text;
    SAY(peer, 8, ATTACH, attach, &attach);
    ck_assert_uint_eq(rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply->epoch,
                      (1 << 24) - 1);
    free(text);
    rig_peer_free(peer);
}
END_TEST

/* A job that began from a token: steps count from its place, in its epoch only. */
START_TEST(questions_about_a_job_that_began_from_a_token)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__TokenRequest place = DLP__TOKEN_REQUEST__INIT;
    Dlp__RowsRequest rows = DLP__ROWS_REQUEST__INIT;
    place.question = about("small");
    question.epoch = rig_number(2);
    question.seed = rig_number(9);
    place.step = 3;
    SAY(peer, 5, TOKEN_REQUEST, token_request, &place);
    char *text = strdup(rig_await(peer, DLP__ENVELOPE__BODY_TOKEN_REPLY)->token_reply->token);
    rows.question = place.question = about("small");
    question.token = text;
    place.step = 2;
    SAY(peer, 6, TOKEN_REQUEST, token_request, &place);
    rig_expect_text(rig_await(peer, DLP__ENVELOPE__BODY_TOKEN_REPLY)->token_reply->token,
                    "\"seed\":9,\"epoch\":2,", "\"next\":20,");
    SAY(peer, 7, ROWS_REQUEST, rows_request, &rows);
    const Dlp__RowsReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_ROWS_REPLY)->rows_reply;
    ck_assert(reply->epoch == 2 && reply->start == 12 && reply->steps == 4);
    ck_assert_str_eq(reply->token, text);
    question.epoch = rig_number(3);
    SAY(peer, 8, ROWS_REQUEST, rows_request, &rows);
    reply = rig_await(peer, DLP__ENVELOPE__BODY_ROWS_REPLY)->rows_reply;
    ck_assert(reply->epoch == 3 && reply->start == 0 && reply->steps == 7);
    question.token = "{\"schema\":1}";
    SAY(peer, 9, ROWS_REQUEST, rows_request, &rows);
    rig_expect_text(rig_await_error(peer, 9, DLP_ERROR_RESUME), "damaged", "missing");
    free(text);
    rig_peer_free(peer);
}
END_TEST

START_TEST(an_asker_for_a_token_vanishes)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__TokenRequest request = DLP__TOKEN_REQUEST__INIT;
    request.question = about("small");
    SAY(peer, 5, TOKEN_REQUEST, token_request, &request);
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

START_TEST(slices_cover_the_records)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__SlicesRequest request = DLP__SLICES_REQUEST__INIT;
    request.question = about("small");
    question.world = rig_number(3);
    SAY(peer, 5, SLICES_REQUEST, slices_request, &request);
    SAY(peer, 6, SLICES_REQUEST, slices_request, &request);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST), "one", "time");
    const Dlp__SlicesReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_SLICES_REPLY)->slices_reply;
    uint64_t records = 0, repeated = 0;
    ck_assert_uint_eq(reply->n_ranks, 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(reply->ranks[i]->rank, i);
        ck_assert_uint_eq(reply->ranks[i]->steps, 3);
        ck_assert_uint_eq(reply->ranks[i]->shards, 1);
        records += reply->ranks[i]->records;
        repeated += reply->ranks[i]->repeated_rows;
    }
    ck_assert_uint_eq(records, RIG_RECORDS);
    ck_assert_uint_eq(repeated, 3 * 3 * RIG_BATCH - RIG_RECORDS);
    ck_assert_uint_eq(reply->records, RIG_RECORDS);
    question.world = rig_number(0);
    SAY(peer, 7, SLICES_REQUEST, slices_request, &request);
    rig_await_error(peer, 7, DLP_ERROR_BAD_REQUEST);
    question.world = rig_number(3);
    SAY(peer, 8, SLICES_REQUEST, slices_request, &request);
    rig_peer_free(peer); /* while it is being reckoned */
    rig_wait_until_free();
}
END_TEST

START_TEST(rows_of_a_batch)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__RowsRequest request = DLP__ROWS_REQUEST__INIT;
    bool seen[RIG_RECORDS] = {false};
    uint64_t valid = 0;
    request.question = about("small");
    question.world = rig_number(3);
    for (request.step = 0; request.step < 3; request.step++) {
        SAY(peer, 5, ROWS_REQUEST, rows_request, &request);
        const Dlp__RowsReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_ROWS_REPLY)->rows_reply;
        ck_assert_uint_eq(reply->n_rows, 3 * RIG_BATCH);
        ck_assert_uint_eq(reply->steps, 3);
        ck_assert(!reply->more);
        for (size_t i = 0; i < reply->n_rows; i++) {
            ck_assert_uint_eq(reply->rows[i]->rank, i / RIG_BATCH);
            ck_assert_uint_eq(reply->rows[i]->row, i % RIG_BATCH);
            valid += reply->rows[i]->valid;
            seen[reply->rows[i]->sample] |= reply->rows[i]->valid;
        }
    }
    ck_assert_uint_eq(valid, RIG_RECORDS);
    for (int i = 0; i < RIG_RECORDS; i++)
        ck_assert(seen[i]);
    SAY(peer, 6, ROWS_REQUEST, rows_request, &request);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST), "step 3", "0 to 2");
    request.rank = rig_number(3);
    request.step = 0;
    SAY(peer, 7, ROWS_REQUEST, rows_request, &request);
    rig_expect_text(rig_await_error(peer, 7, DLP_ERROR_BAD_REQUEST), "rank 3", "world 3");
    rig_peer_free(peer);
}
END_TEST

START_TEST(long_answers_come_in_parts)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__RowsRequest request = DLP__ROWS_REQUEST__INIT;
    uint64_t rows = 0, parts = 0;
    bool more = true;
    request.question = about("small");
    question.batch = rig_number(2000);
    SAY(peer, 5, ROWS_REQUEST, rows_request, &request);
    for (; more; parts++) {
        const Dlp__RowsReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_ROWS_REPLY)->rows_reply;
        for (size_t i = 0; i < reply->n_rows; i++)
            ck_assert_uint_eq(reply->rows[i]->row, rows++);
        more = reply->more;
    }
    ck_assert_uint_eq(rows, 2000);
    ck_assert_uint_gt(parts, 1);
    rig_peer_free(peer);
}
END_TEST

static bool answered;

static void fetch_later(void *context)
{
    (void)context;
    answered = true;
}

START_TEST(an_answer_that_is_not_read_is_given_up)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__RowsRequest request = DLP__ROWS_REQUEST__INIT;
    answered = false;
    request.question = about("small");
    question.batch = rig_number(2000);
    peer->session->sink.more = fetch_later;
    SAY(peer, 5, ROWS_REQUEST, rows_request, &request);
    while (!answered)
        rig_turn();
    peer->session->sink.more = NULL;
    ck_assert(inquiry_continue(peer->session)); /* one part is read */
    for (int second = 0; second < 30; second++) {
        ck_assert_ptr_nonnull(peer->session->inquiry);
        inquiry_tick(peer->session->inquiry);
    }
    inquiry_tick(peer->session->inquiry);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_TOO_MANY), "not read for 30 s", "ask again");
    ck_assert_ptr_null(peer->session->inquiry);
    question.batch = NULL;
    SAY(peer, 6, ROWS_REQUEST, rows_request, &request); /* there is a place again */
    ck_assert_uint_eq(rig_await(peer, DLP__ENVELOPE__BODY_ROWS_REPLY)->rows_reply->n_rows, 4);
    rig_peer_free(peer);
}
END_TEST

/* Each question about a plan needs the right to attach, and is refused for a strange value. */
START_TEST(questions_need_rights_and_fit)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__MixRequest mix = DLP__MIX_REQUEST__INIT;
    Dlp__RowsRequest rows = DLP__ROWS_REQUEST__INIT;
    Dlp__FindRequest find = DLP__FIND_REQUEST__INIT;
    Dlp__SlicesRequest slices = DLP__SLICES_REQUEST__INIT;
    mix.question = rows.question = find.question = slices.question = about("secret");
    SAY(peer, 5, MIX_REQUEST, mix_request, &mix);
    rig_await_error(peer, 5, DLP_ERROR_NOT_PERMITTED);
    SAY(peer, 6, ROWS_REQUEST, rows_request, &rows);
    rig_await_error(peer, 6, DLP_ERROR_NOT_PERMITTED);
    SAY(peer, 7, FIND_REQUEST, find_request, &find);
    rig_await_error(peer, 7, DLP_ERROR_NOT_PERMITTED);
    SAY(peer, 8, SLICES_REQUEST, slices_request, &slices);
    rig_await_error(peer, 8, DLP_ERROR_NOT_PERMITTED);
    about("small");
    question.world = rig_number(0);
    SAY(peer, 9, MIX_REQUEST, mix_request, &mix);
    rig_await_error(peer, 9, DLP_ERROR_BAD_REQUEST);
    about("small");
    question.epoch = rig_number(1ULL << 24);
    SAY(peer, 10, ROWS_REQUEST, rows_request, &rows);
    rig_expect_text(rig_await_error(peer, 10, DLP_ERROR_BAD_REQUEST), "epoch", "16777215");
    question.epoch = rig_number((1ULL << 24) - 1);
    find.epochs = rig_number(2);
    SAY(peer, 11, FIND_REQUEST, find_request, &find);
    rig_expect_text(rig_await_error(peer, 11, DLP_ERROR_BAD_REQUEST), "16777216", "the last");
    about("gone");
    question.batch = rig_number(4);
    SAY(peer, 12, MIX_REQUEST, mix_request, &mix);
    rig_await_error(peer, 12, DLP_ERROR_DATASET);
    mix.question = NULL;
    SAY(peer, 13, MIX_REQUEST, mix_request, &mix);
    rig_await_error(peer, 13, DLP_ERROR_BAD_REQUEST);
    rig_peer_free(peer);
}
END_TEST

START_TEST(mix_and_find)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__MixRequest mix = DLP__MIX_REQUEST__INIT;
    Dlp__FindRequest find = DLP__FIND_REQUEST__INIT;
    mix.question = find.question = about("small");
    SAY(peer, 5, MIX_REQUEST, mix_request, &mix);
    const Dlp__MixReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_MIX_REPLY)->mix_reply;
    ck_assert_uint_eq(reply->records, RIG_RECORDS);
    ck_assert_uint_eq(reply->rows, RIG_RECORDS);
    ck_assert_uint_eq(reply->batches, (RIG_RECORDS + RIG_BATCH - 1) / RIG_BATCH);
    ck_assert_double_eq_tol(reply->label_mix->all, 0, 1e-12);
    /* Each record is a class of its own: six batches of 4 and one of 2. */
    ck_assert_double_eq_tol(reply->label_mix->batch, (6 * (1 - 4 / 26.0) + (1 - 2 / 26.0)) / 7,
                            1e-9);
    find.key = "none of these";
    SAY(peer, 6, FIND_REQUEST, find_request, &find);
    const Dlp__FindReply *found = rig_await(peer, DLP__ENVELOPE__BODY_FIND_REPLY)->find_reply;
    ck_assert(found->n_records == 0 && found->n_sightings == 0 && !found->more);
    find.epochs = rig_number(1000);
    SAY(peer, 7, FIND_REQUEST, find_request, &find);
    rig_peer_free(peer); /* while it is being reckoned */
    rig_wait_until_free();
}
END_TEST

START_TEST(bad_samples_in_parts)
{
    struct rig_peer *peer = rig_greeted(1);
    struct bad_report report = {.cls = BAD_TRUNC, .shard = "/s.tar", .key = "k", .reason = "r"};
    for (report.offset = 0; report.offset < 600; report.offset++) {
        badlist_add(rig_control->badlist, "small", &report);
        badlist_add(rig_control->badlist, "secret", &report);
        badlist_add(rig_control->badlist, "of-old", &report);
    }
    Dlp__BadRequest request = DLP__BAD_REQUEST__INIT;
    SAY(peer, 5, BAD_REQUEST, bad_request, &request);
    uint64_t offset = 0;
    unsigned parts = 0;
    for (bool more = true; more; parts++) {
        const Dlp__BadReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_BAD_REPLY)->bad_reply;
        for (size_t i = 0; i < reply->n_samples; i++, offset++) {
            ck_assert_uint_eq(reply->samples[i]->offset, offset);
            ck_assert_str_eq(reply->samples[i]->feed, "small");
            ck_assert_str_eq(reply->samples[i]->cls, "BAD-TRUNC");
        }
        more = reply->more;
        ck_assert(more == bad_reply_continue(peer->session));
    }
    ck_assert_uint_eq(offset, 600);
    ck_assert_uint_ge(parts, 3);
    request.feed = "secret";
    SAY(peer, 6, BAD_REQUEST, bad_request, &request);
    rig_await_error(peer, 6, DLP_ERROR_NOT_PERMITTED);
    rig_peer_free(peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatch");
    TCase *test = tcase_create("dispatch");
    tcase_add_checked_fixture(test, rig_setup, rig_teardown);
    tcase_add_test(test, hello_comes_first);
    tcase_add_test(test, unknown_messages_are_answered);
    tcase_add_test(test, messages_of_an_attachment_need_one);
    tcase_add_test(test, values_are_checked);
    tcase_add_test(test, feeds_that_are_not_there_or_not_for_all);
    tcase_add_test(test, gpus_are_told);
    tcase_add_test(test, status_shows_clients_and_feeds);
    tcase_add_test(test, slices_cover_the_records);
    tcase_add_test(test, rows_of_a_batch);
    tcase_add_test(test, long_answers_come_in_parts);
    tcase_add_test(test, an_answer_that_is_not_read_is_given_up);
    tcase_add_test(test, questions_need_rights_and_fit);
    tcase_add_test(test, mix_and_find);
    tcase_add_test(test, tokens_of_places);
    tcase_add_test(test, tokens_of_the_last_epoch);
    tcase_add_test(test, questions_about_a_job_that_began_from_a_token);
    tcase_add_test(test, an_asker_for_a_token_vanishes);
    tcase_add_test(test, bad_samples_in_parts);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
