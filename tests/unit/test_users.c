/* control/users.c, terms.c: limits of users, what counts for whom, and on what terms streams share.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/allowance.h"
#include "group_rig.h"

#define ADA 1000U /* the uid of the rig's peers */
#define BOB 2000U

static void set_limits(struct user_limits ada, struct user_limits rest)
{
    struct users_entry entry = {ADA, (char *)"ada", ada};
    users_set(rig_control, &(struct users){.rest = rest, .list = &entry, .count = 1});
}

static const struct user_limits free_of_limits = {.descriptors = USERS_DESCRIPTORS, .weight = 1};

static Dlp__Attach attach_to(const char *job)
{
    Dlp__Attach message = rig_attach("small");
    message.job = (char *)job;
    return message;
}

static struct rig_peer *greeted_as(uid_t uid, pid_t pid)
{
    struct rig_peer *peer = rig_greeted(pid);
    peer->session->peer.uid = uid;
    return peer;
}

static struct rig_peer *attached_as(uid_t uid, pid_t pid, const char *job)
{
    struct rig_peer *peer = greeted_as(uid, pid);
    Dlp__Attach message = attach_to(job);
    SAY(peer, 2, ATTACH, attach, &message);
    rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    return peer;
}

static const char *refused_as(uid_t uid, const char *job, enum dlp_error code,
                              struct rig_peer **peer)
{
    *peer = greeted_as(uid, 77);
    Dlp__Attach message = attach_to(job);
    SAY(*peer, 5, ATTACH, attach, &message);
    return rig_await_error(*peer, 5, code);
}

static uint64_t promised(const struct rig_peer *peer)
{
    return peer->session->group->promised;
}

START_TEST(who_is_not_named_is_as_default)
{
    struct user_limits limits = users_limits(rig_control, ADA);
    ck_assert_uint_eq(limits.memory + limits.clients + limits.threads, 0);
    ck_assert_uint_eq(limits.descriptors, USERS_DESCRIPTORS);
    ck_assert_uint_eq(limits.weight, 1);
    set_limits((struct user_limits){.memory = 5, .weight = 3},
               (struct user_limits){.clients = 7, .weight = 2});
    ck_assert_uint_eq(users_limits(rig_control, ADA).memory, 5);
    ck_assert_uint_eq(users_limits(rig_control, ADA).weight, 3);
    ck_assert_uint_eq(users_limits(rig_control, BOB).clients, 7);
    char name[ACCESS_USER_MAX];
    ck_assert_str_eq(users_name(rig_control, ADA, name), "ada");
    ck_assert_str_eq(users_name(rig_control, BOB, name), "2000");
    users_set(rig_control, NULL);
    ck_assert_uint_eq(users_limits(rig_control, ADA).memory, 0);
}
END_TEST

START_TEST(clients_of_a_user_are_bounded)
{
    struct rig_peer *away;
    set_limits((struct user_limits){.clients = 1, .weight = 1}, free_of_limits);
    struct rig_peer *first = attached_as(ADA, 1, "a");
    rig_expect_text(refused_as(ADA, "b", DLP_ERROR_TOO_MANY, &away),
                    "user ada has 1 client attached, and may have 1", "set its clients to 2");
    struct rig_peer *other = attached_as(BOB, 2, "b");
    ck_assert_uint_eq(users_clients(rig_control, ADA), 1);
    rig_peer_free(first);
    Dlp__Attach message = attach_to("b");
    SAY(away, 6, ATTACH, attach, &message);
    rig_await(away, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    rig_peer_free(away);
    rig_peer_free(other);
    rig_wait_until_free();
}
END_TEST

START_TEST(memory_of_a_user_is_bounded)
{
    struct rig_peer *first = attached_as(ADA, 1, "a"), *away;
    struct error err = {0};
    uint64_t one = promised(first);
    ck_assert_uint_eq(users_memory(rig_control, ADA), one);
    set_limits((struct user_limits){.memory = 2 * one - 1, .weight = 1}, free_of_limits);
    rig_expect_text(refused_as(ADA, "b", DLP_ERROR_NO_MEMORY, &away), "user ada may have memory",
                    "or set its memory to");
    ck_assert_uint_eq(users_memory(rig_control, ADA), one);
    struct rig_peer *other = attached_as(BOB, 2, "b");
    set_limits((struct user_limits){.memory = 2 * one, .weight = 1}, free_of_limits);
    Dlp__Attach message = attach_to("b");
    SAY(away, 6, ATTACH, attach, &message);
    rig_await(away, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    ck_assert_uint_eq(users_memory(rig_control, ADA), 2 * one);
    ck_assert_uint_eq(users_memory(rig_control, BOB), one);
    set_limits((struct user_limits){.memory = one - 1, .weight = 1}, free_of_limits);
    ck_assert_int_eq(allowance_check(first->session->group, &err), -E2BIG); /* it stays, though */
    ck_assert_int_eq(first->session->state, SESSION_STREAMING);
    rig_peer_free(first);
    rig_peer_free(away);
    rig_peer_free(other);
    rig_wait_until_free();
    ck_assert_uint_eq(users_memory(rig_control, ADA), 0);
}
END_TEST

/* What is being given back is waited for: the user's limit has room for one stream only. */
START_TEST(memory_of_a_user_that_is_given_back_is_waited_for)
{
    struct rig_peer *first = attached_as(ADA, 1, "a");
    set_limits((struct user_limits){.memory = promised(first), .weight = 1}, free_of_limits);
    for (pid_t pid = 2; pid < 20; pid++) {
        rig_peer_free(first);
        first = attached_as(ADA, pid, "b");
    }
    rig_peer_free(first);
    rig_wait_until_free();
}
END_TEST

START_TEST(terms_follow_the_configuration)
{
    set_limits((struct user_limits){.threads = 3, .weight = 5}, free_of_limits);
    struct rig_peer *a = attached_as(ADA, 1, "a"), *b = attached_as(BOB, 2, "b");
    const struct share_terms *terms = &a->session->group->params.terms,
                             *others = &b->session->group->params.terms;
    ck_assert_uint_eq(terms->uid, ADA);
    ck_assert_uint_eq(terms->user_weight, 5);
    ck_assert_uint_eq(terms->threads, 3);
    ck_assert_uint_eq(terms->job_weight, 1);
    ck_assert_uint_gt(terms->job, 0);
    ck_assert_uint_ne(terms->job, others->job);
    ck_assert_uint_eq(others->uid, BOB);
    ck_assert_uint_eq(others->user_weight, 1);
    rig_small.weight = 9; /* of the feed, which is the rig's own */
    set_limits((struct user_limits){.threads = 2, .weight = 6}, (struct user_limits){.weight = 7});
    ck_assert_uint_eq(terms->user_weight, 6);
    ck_assert_uint_eq(terms->threads, 2);
    ck_assert_uint_eq(terms->job_weight, 9);
    ck_assert_uint_eq(others->user_weight, 7);
    rig_peer_free(a);
    rig_peer_free(b);
    rig_wait_until_free();
}
END_TEST

/* Each rank of a job is a stream of its own, of one job. */
START_TEST(ranks_of_a_job_share_its_terms)
{
    struct rig_peer *ranks[2];
    for (uint64_t i = 0; i < 2; i++)
        ranks[i] = rig_attached((pid_t)i + 1, rig_attach_as("small", i, 2));
    ck_assert_ptr_ne(ranks[0]->session->group, ranks[1]->session->group);
    const struct share_terms *a = &ranks[0]->session->group->params.terms,
                             *b = &ranks[1]->session->group->params.terms;
    ck_assert_uint_eq(a->job, b->job);
    ck_assert_uint_eq(a->uid, b->uid);
    rig_peer_free(ranks[0]);
    rig_peer_free(ranks[1]);
    rig_wait_until_free();
}
END_TEST

/* A mirror group counts for its opener as long as one of his is in it, then for who is in it
 * longest. */
START_TEST(a_group_counts_for_those_who_read_it)
{
    rig_small.share = SHARE_MIRROR;
    set_limits((struct user_limits){.weight = 5}, (struct user_limits){.weight = 2});
    struct rig_peer *opener = attached_as(ADA, 1, ""), *bob = attached_as(BOB, 2, ""),
                    *third = attached_as(3000, 3, ""), *second = attached_as(ADA, 4, "");
    const struct group *group = opener->session->group;
    uint64_t bytes = group->promised;
    ck_assert_ptr_eq(third->session->group, group);
    rig_peer_free(opener);
    ck_assert_uint_eq(users_memory(rig_control, ADA), bytes);
    ck_assert_uint_eq(users_memory(rig_control, BOB), 0);
    rig_peer_free(second);
    ck_assert_uint_eq(users_memory(rig_control, ADA), 0);
    ck_assert_uint_eq(users_memory(rig_control, BOB), bytes);
    ck_assert_uint_eq(group->params.terms.uid, BOB);
    ck_assert_uint_eq(group->params.terms.user_weight, 2);
    rig_peer_free(bob);
    ck_assert_uint_eq(users_memory(rig_control, 3000), bytes);
    rig_peer_free(third);
    rig_wait_until_free();
}
END_TEST

/* Else a user could keep as much as he likes by leaving groups that he goes on mapping. */
START_TEST(memory_that_is_still_mapped_counts)
{
    rig_small.share = SHARE_MIRROR;
    struct rig_peer *opener = attached_as(ADA, 1, ""), *bob = attached_as(BOB, 2, "");
    uint64_t bytes = promised(opener);
    int kept = dup(opener->fd);
    rig_peer_free(opener);
    rig_peer_free(bob);
    rig_wait_until_free();
    ck_assert_uint_eq(users_memory(rig_control, ADA), 0);
    ck_assert_uint_eq(users_memory(rig_control, BOB), bytes);
    close(kept);
    orphans_poll(rig_orphans);
    ck_assert_uint_eq(users_memory(rig_control, BOB), 0);
}
END_TEST

START_TEST(status_tells_of_those_who_have_clients)
{
    set_limits((struct user_limits){.memory = 64 << 20, .clients = 4, .threads = 2, .weight = 5},
               free_of_limits);
    struct rig_peer *b = attached_as(BOB, 2, "b"), *a = attached_as(ADA, 1, "a"),
                    *more = attached_as(ADA, 3, "c");
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    SAY(a, 6, STATUS_REQUEST, status_request, &request);
    const Dlp__StatusReply *reply = rig_await(a, DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply;
    ck_assert_uint_eq(reply->n_users, 2);
    const Dlp__UserStatus *ada = reply->users[0], *bob = reply->users[1];
    ck_assert_str_eq(ada->user, "ada");
    ck_assert_uint_eq(ada->uid, ADA);
    ck_assert_uint_eq(ada->clients, 2);
    ck_assert_uint_eq(ada->memory, promised(a) + promised(more));
    ck_assert_uint_eq(ada->memory_limit, 64 << 20);
    ck_assert_uint_eq(ada->clients_limit, 4);
    ck_assert_uint_eq(ada->threads_limit, 2);
    ck_assert_uint_eq(ada->weight, 5);
    ck_assert(ada->busy >= 0 && ada->busy <= 1);
    ck_assert_uint_eq(bob->uid, BOB);
    ck_assert_uint_eq(bob->clients, 1);
    ck_assert_uint_eq(bob->memory_limit + bob->clients_limit + bob->threads_limit, 0);
    ck_assert_uint_eq(bob->descriptors_limit, USERS_DESCRIPTORS);
    rig_peer_free(a);
    rig_peer_free(b);
    rig_peer_free(more);
    rig_wait_until_free();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("users");
    TCase *test = tcase_create("users");
    tcase_add_checked_fixture(test, rig_setup, rig_teardown);
    tcase_add_test(test, who_is_not_named_is_as_default);
    tcase_add_test(test, clients_of_a_user_are_bounded);
    tcase_add_test(test, memory_of_a_user_is_bounded);
    tcase_add_test(test, memory_of_a_user_that_is_given_back_is_waited_for);
    tcase_add_test(test, terms_follow_the_configuration);
    tcase_add_test(test, ranks_of_a_job_share_its_terms);
    tcase_add_test(test, a_group_counts_for_those_who_read_it);
    tcase_add_test(test, memory_that_is_still_mapped_counts);
    tcase_add_test(test, status_tells_of_those_who_have_clients);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
