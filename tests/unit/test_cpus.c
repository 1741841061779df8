#include "base/cpus.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "scratch.h"

static struct scratch scratch;
static cpu_set_t allowed;

static void put(const char *path, const char *text)
{
    scratch_file(&scratch, path, text, strlen(text));
}

static void put_siblings(unsigned cpu, const char *list)
{
    cleanup_free char *path =
        mem_format("sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    put(path, list);
}

/* Two nodes of two cores of two threads each, numbered as Linux does: 0 1 | 2 3, then 4 5 | 6 7. */
static void two_nodes(void)
{
    put("sys/devices/system/node/online", "0-1");
    put("sys/devices/system/node/node0/cpulist", "0-1,4-5");
    put("sys/devices/system/node/node1/cpulist", "2-3,6-7");
    for (unsigned cpu = 0; cpu < 8; cpu++) {
        char list[16];
        snprintf(list, sizeof list, "%u,%u", cpu % 4, cpu % 4 + 4);
        put_siblings(cpu, list);
    }
}

static void allow(unsigned first, unsigned last)
{
    for (unsigned cpu = first; cpu <= last; cpu++)
        CPU_SET(cpu, &allowed);
}

/* Numbers and nodes, "0/0 2/1 ...". */
static void check_order(uint32_t most, const char *expected)
{
    cleanup_free struct cpus *cpus = cpus_at(scratch.path, &allowed, sizeof allowed, most);
    char text[400] = "";
    for (uint32_t i = 0; i < cpus->count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u/%u", i ? " " : "",
                 cpus->list[i].number, cpus->list[i].node);
    ck_assert_str_eq(text, expected);
}

static void set_up(void)
{
    scratch_make(&scratch);
    CPU_ZERO(&allowed);
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

START_TEST(one_of_each_core_first_nodes_by_turns)
{
    two_nodes();
    allow(0, 7);
    check_order(CPUS_MAX, "0/0 2/1 1/0 3/1 4/0 6/1 5/0 7/1");
    check_order(3, "0/0 2/1 1/0");
}
END_TEST

/* Only what is allowed counts: CPU 5 is the first of its core then. */
START_TEST(within_the_mask)
{
    two_nodes();
    allow(2, 5);
    check_order(CPUS_MAX, "4/0 2/1 5/0 3/1");
}
END_TEST

START_TEST(nothing_known_is_ascending)
{
    allow(3, 5);
    check_order(CPUS_MAX, "3/0 4/0 5/0");
    ck_assert_int_eq(cpus_node_at(scratch.path, &allowed, sizeof allowed), -1);
}
END_TEST

START_TEST(broken_lists_do_no_harm)
{
    static const char *const lists[] = {"",      "-",          "0-", "x", "7-2", "0-4294967295",
                                        "0,,1x", "99999999999"};
    allow(0, 3);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        put("sys/devices/system/node/online", lists[i]);
        put("sys/devices/system/node/node0/cpulist", lists[i]);
        put_siblings(1, lists[i]);
        cleanup_free struct cpus *cpus = cpus_at(scratch.path, &allowed, sizeof allowed, CPUS_MAX);
        ck_assert_uint_eq(cpus->count, 4);
        cpus_node_at(scratch.path, &allowed, sizeof allowed);
    }
}
END_TEST

START_TEST(a_process_on_one_node_has_it)
{
    two_nodes();
    allow(2, 3);
    ck_assert_int_eq(cpus_node_at(scratch.path, &allowed, sizeof allowed), 1);
    allow(6, 7);
    ck_assert_int_eq(cpus_node_at(scratch.path, &allowed, sizeof allowed), 1);
    allow(0, 0);
    ck_assert_int_eq(cpus_node_at(scratch.path, &allowed, sizeof allowed), -1);
    CPU_ZERO(&allowed);
    ck_assert_int_eq(cpus_node_at(scratch.path, &allowed, sizeof allowed), -1);
}
END_TEST

START_TEST(with_a_single_node_there_is_nothing_to_choose)
{
    put("sys/devices/system/node/online", "0");
    put("sys/devices/system/node/node0/cpulist", "0-3");
    allow(0, 3);
    ck_assert_int_eq(cpus_node_at(scratch.path, &allowed, sizeof allowed), -1);
}
END_TEST

/* A node without CPUs (memory only), and a gap in the numbers. */
START_TEST(nodes_without_cpus)
{
    put("sys/devices/system/node/online", "0,2-3");
    put("sys/devices/system/node/node0/cpulist", "0-1");
    put("sys/devices/system/node/node2/cpulist", "");
    put("sys/devices/system/node/node3/cpulist", "2-3");
    allow(2, 3);
    ck_assert_int_eq(cpus_node_at(scratch.path, &allowed, sizeof allowed), 3);
    check_order(CPUS_MAX, "2/3 3/3");
}
END_TEST

START_TEST(text_is_the_kernels)
{
    char text[CPUS_TEXT_MAX];
    char little[4];
    allow(0, 2);
    allow(5, 5);
    allow(7, 8);
    cleanup_free struct cpus *cpus = cpus_at(scratch.path, &allowed, sizeof allowed, CPUS_MAX);
    ck_assert_str_eq(cpus_text(cpus, text, sizeof text), "0-2,5,7-8");
    ck_assert_str_eq(cpus_text(cpus, little, sizeof little), "0-2");
    cleanup_free struct cpus *none = cpus_at(scratch.path, &allowed, sizeof allowed, 0);
    ck_assert_str_eq(cpus_text(none, text, sizeof text), "");
}
END_TEST

START_TEST(ours_are_those_of_our_mask)
{
    cpu_set_t ours;
    sched_getaffinity(0, sizeof ours, &ours);
    cleanup_free struct cpus *cpus = cpus_allowed(CPUS_MAX);
    ck_assert_int_eq((int)cpus->count, CPU_COUNT(&ours));
    uint32_t last = cpus->list[cpus->count - 1].number;
    ck_assert_int_eq(cpus_pin(last), 0);
    cleanup_free struct cpus *one = cpus_allowed(CPUS_MAX);
    ck_assert_uint_eq(one->count, 1);
    ck_assert_uint_eq(one->list[0].number, last);
    ck_assert_int_lt(cpus_pin(CPUS_MAX - 1), 0);
    sched_setaffinity(0, sizeof ours, &ours);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpus");
    TCase *tests = tcase_create("cpus");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, one_of_each_core_first_nodes_by_turns);
    tcase_add_test(tests, within_the_mask);
    tcase_add_test(tests, nothing_known_is_ascending);
    tcase_add_test(tests, broken_lists_do_no_harm);
    tcase_add_test(tests, a_process_on_one_node_has_it);
    tcase_add_test(tests, with_a_single_node_there_is_nothing_to_choose);
    tcase_add_test(tests, nodes_without_cpus);
    tcase_add_test(tests, text_is_the_kernels);
    tcase_add_test(tests, ours_are_those_of_our_mask);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
