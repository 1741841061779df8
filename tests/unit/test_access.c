/* control/access.c: users, groups, supplementary groups, overflow ids; the kernel's word. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/access.h"

#define NOBODY 65534U

static gid_t groups[] = {20, 30, NOBODY};
static const struct access_peer peer = {
    .pid = 1, .uid = 1000, .gid = 10, .groups = groups, .ngroups = 3};

static bool allowed(uint32_t user, uint32_t group, uid_t uid)
{
    struct feed_spec spec = {.users = &user, .groups = &group};
    struct access_peer who = peer;
    who.uid = uid;
    spec.nusers = user != 0;
    spec.ngroups = group != 0;
    return access_allowed(&spec, &who);
}

START_TEST(empty_lists_let_everybody_in)
{
    ck_assert(allowed(0, 0, 1000));
    ck_assert(allowed(0, 0, NOBODY));
}
END_TEST

START_TEST(users_and_groups)
{
    ck_assert(allowed(1000, 0, 1000));
    ck_assert(!allowed(1001, 0, 1000));
    ck_assert(allowed(1001, 10, 1000)); /* primary group */
    ck_assert(allowed(0, 30, 1000));    /* supplementary group */
    ck_assert(!allowed(1001, 40, 1000));
    ck_assert(!allowed(0, 1000, 1000)); /* a uid is no gid */
    ck_assert(!allowed(1001, 0, 0));    /* root is on no list by itself */
}
END_TEST

START_TEST(overflow_ids_match_no_list)
{
    ck_assert(!allowed(NOBODY, 0, NOBODY));
    ck_assert(!allowed(0, NOBODY, 1000));
}
END_TEST

START_TEST(who_may_act_on_what_is_a_users)
{
    struct access_peer root = {.uid = 0}, own = {.uid = geteuid()}, other = {.uid = 4242},
                       nobody = {.uid = NOBODY};
    ck_assert(access_owns(&root, 1000) && access_owns(&own, 1000));
    ck_assert(access_owns(&other, 4242) && !access_owns(&other, 4243));
    ck_assert(!access_owns(&nobody, NOBODY)); /* may be anybody */
}
END_TEST

/* Where the daemon's own uid has no name in its user namespace, all that have none look like it. */
static bool unnamed_is_admin(void)
{
    uid_t before = geteuid();
    struct access_peer nobody = {.uid = NOBODY};
    if (seteuid(NOBODY))
        return false; /* only root can become others */
    bool admin = access_admin(&nobody);
    return seteuid(before) || admin;
}

START_TEST(the_overflow_uid_is_never_an_admin)
{
    ck_assert(!unnamed_is_admin());
}
END_TEST

START_TEST(who_is_told_of_data)
{
    uint32_t user = 1000;
    struct feed_spec open = {0}, closed = {.users = &user, .nusers = 1};
    struct access_peer root = {.uid = 0}, own = {.uid = geteuid()}, other = {.uid = 4242};
    ck_assert(access_tells(&closed, &peer) && !access_tells(&closed, &other));
    ck_assert(access_tells(&open, &other));
    ck_assert(access_tells(&closed, &root) && access_tells(&closed, &own));
    ck_assert(!access_tells(&open, NULL) && !access_tells(&closed, NULL));
}
END_TEST

START_TEST(second_entry_of_a_list_counts)
{
    uint32_t users[] = {1, 1000};
    struct feed_spec spec = {.users = users, .nusers = 2};
    ck_assert(access_allowed(&spec, &peer));
}
END_TEST

START_TEST(peer_of_a_socket_pair_is_this_process)
{
    int ends[2];
    gid_t mine[256];
    struct access_peer who;
    struct error err;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert_int_eq(access_peer_read(ends[0], &who, &err), 0);
    ck_assert_int_eq(who.pid, getpid());
    ck_assert_uint_eq(who.uid, getuid());
    ck_assert_uint_eq(who.gid, getgid());
    int count = getgroups(256, mine);
    ck_assert_int_eq((int)who.ngroups, count);
    if (count)
        ck_assert_mem_eq(who.groups, mine, (size_t)count * sizeof *mine);
    access_peer_clear(&who);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_lt(access_peer_read(ends[0], &who, &err), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("access");
    TCase *test = tcase_create("access");
    tcase_add_test(test, empty_lists_let_everybody_in);
    tcase_add_test(test, users_and_groups);
    tcase_add_test(test, overflow_ids_match_no_list);
    tcase_add_test(test, who_may_act_on_what_is_a_users);
    tcase_add_test(test, the_overflow_uid_is_never_an_admin);
    tcase_add_test(test, who_is_told_of_data);
    tcase_add_test(test, second_entry_of_a_list_counts);
    tcase_add_test(test, peer_of_a_socket_pair_is_this_process);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
