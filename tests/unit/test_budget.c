#include "base/budget.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define MIB (1ULL << 20)
#define V1_UNLIMITED "9223372036854771712"

static char root[] = "/tmp/test_budget.XXXXXX";

static void put(const char *path, const char *text)
{
    cleanup_free char *full = mem_format("%s%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
    put("/proc/meminfo", "MemTotal:        8388608 kB\n"
                         "MemFree:          100000 kB\n"
                         "MemAvailable:    4194304 kB\n"
                         "Hugepagesize:       2048 kB\n");
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void teardown(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
}

static void put_v2(const char *path, const char *inner, const char *point)
{
    cleanup_free char *cgroup = mem_format("0::%s\n", path);
    cleanup_free char *mounts =
        mem_format("22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
                   "30 23 0:26 %s %s rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
                   inner, point);
    put("/proc/self/cgroup", cgroup);
    put("/proc/self/mountinfo", mounts);
}

START_TEST(without_cgroups_the_machine_counts)
{
    ck_assert_uint_eq(system_memory_at(root), 8192 * MIB);
    ck_assert_uint_eq(system_memory_free_at(root), 4096 * MIB);
    ck_assert_uint_eq(system_quota_at(root), UINT32_MAX);
}
END_TEST

START_TEST(memory_that_cannot_be_asked_for_is_not_none)
{
    cleanup_free char *path = mem_format("%s/proc/meminfo", root);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_uint_gt(system_memory_free_at(root), 64 * MIB);
    ck_assert_uint_eq(system_memory_free_at(root), system_memory_at(root));
}
END_TEST

START_TEST(v2_every_level_up_to_the_root)
{
    put_v2("/a/b/c", "/", "/sys/fs/cgroup");
    put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    ck_assert_uint_eq(system_memory_at(root), 8192 * MIB);
    put("/sys/fs/cgroup/a/b/memory.max", "2147483648\n");
    ck_assert_uint_eq(system_memory_at(root), 2048 * MIB);
    put("/sys/fs/cgroup/a/memory.max", "1073741824\n");
    ck_assert_uint_eq(system_memory_at(root), 1024 * MIB);
    put("/sys/fs/cgroup/a/b/memory.high", "536870912\n");
    ck_assert_uint_eq(system_memory_at(root), 512 * MIB);
    put("/sys/fs/cgroup/memory.max", "268435456\n");
    ck_assert_uint_eq(system_memory_at(root), 256 * MIB);
    put("/sys/fs/cgroup/other/memory.max", "1\n"); /* not above us */
    put("/sys/fs/memory.max", "1\n");
    ck_assert_uint_eq(system_memory_at(root), 256 * MIB);
}
END_TEST

START_TEST(v2_free_is_limit_less_what_cannot_be_taken_back)
{
    put_v2("/a/b", "/", "/sys/fs/cgroup");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.max", "1048576000\n");
    put("/sys/fs/cgroup/a/memory.current", "943718400\n");
    put("/sys/fs/cgroup/a/memory.stat", "anon 524288000\nfile 419430400\nshmem 1\n"
                                        "inactive_file 314572800\nactive_file 104857600\n");
    ck_assert_uint_eq(system_memory_free_at(root), 500 * MIB);
    put("/sys/fs/cgroup/a/memory.current", "2000000000\n"); /* above the limit: nothing free */
    ck_assert_uint_eq(system_memory_free_at(root), 0);
}
END_TEST

START_TEST(v2_mounted_from_inside)
{
    put_v2("/docker/abc/x", "/docker/abc", "/sys/fs/cgroup");
    put("/sys/fs/cgroup/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/x/memory.max", "536870912\n");
    ck_assert_uint_eq(system_memory_at(root), 512 * MIB);
    put_v2("/docker/abcdef", "/docker/abc", "/sys/fs/cgroup"); /* a sibling: not below it */
    ck_assert_uint_eq(system_memory_at(root), 1024 * MIB);
    put_v2("/../../x", "/", "/sys/fs/cgroup"); /* outside the namespace */
    ck_assert_uint_eq(system_memory_at(root), 1024 * MIB);
}
END_TEST

START_TEST(mount_points_are_unescaped)
{
    put_v2("/a", "/", "/mnt/my\\040group");
    put("/mnt/my group/a/memory.max", "1073741824\n");
    ck_assert_uint_eq(system_memory_at(root), 1024 * MIB);
}
END_TEST

static void put_v1(void)
{
    put("/proc/self/cgroup", "12:cpuset:/elsewhere\n"
                             "9:name=memory:/elsewhere\n"
                             "4:memory:/job/step\n"
                             "3:cpu,cpuacct:/slow\n"
                             "0::/unified\n");
    put("/proc/self/mountinfo",
        "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 25 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
        "32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 25 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
}

START_TEST(v1_every_level_up_to_the_root)
{
    put_v1();
    put("/sys/fs/cgroup/memory/job/step/memory.limit_in_bytes", V1_UNLIMITED "\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_UNLIMITED "\n");
    ck_assert_uint_eq(system_memory_at(root), 8192 * MIB);
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1048576000\n");
    put("/sys/fs/cgroup/memory/elsewhere/memory.limit_in_bytes", "1\n");
    ck_assert_uint_eq(system_memory_at(root), 1000 * MIB);
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "943718400\n");
    put("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\nactive_file 1\nhierarchical_memory_limit 1048576000\n"
        "total_inactive_file 314572800\ntotal_active_file 104857600\n");
    ck_assert_uint_eq(system_memory_free_at(root), 500 * MIB);
}
END_TEST

START_TEST(both_versions_at_once)
{
    put_v1();
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1048576000\n");
    put("/sys/fs/cgroup/unified/unified/memory.max", "524288000\n");
    ck_assert_uint_eq(system_memory_at(root), 500 * MIB);
}
END_TEST

START_TEST(quotas_of_cpus)
{
    put_v2("/a/b", "/", "/sys/fs/cgroup");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    ck_assert_uint_eq(system_quota_at(root), UINT32_MAX);
    put("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
    ck_assert_uint_eq(system_quota_at(root), 4);
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    ck_assert_uint_eq(system_quota_at(root), 1);
    put_v1();
    put("/sys/fs/cgroup/cpu,cpuacct/slow/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slow/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(system_quota_at(root), UINT32_MAX);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(system_quota_at(root), 2);
}
END_TEST

START_TEST(nonsense_is_no_limit)
{
    put("/proc/self/cgroup", "\n:\n::\n0:\n0::\nnonsense\n0::/a\n");
    put("/proc/self/mountinfo", " - \n - cgroup2\n1 2 - cgroup2 x rw\n\\ \\1 \\777777\n"
                                "30 23 0:26 / / rw - cgroup2 c rw\n");
    put("/a/memory.max", "");
    put("/memory.max", "-5\n");
    put("/a/cpu.max", "12");
    put("/a/memory.stat", "one\ntwo 2 3\n\n:::\n");
    ck_assert_uint_eq(system_memory_at(root), 8192 * MIB);
    ck_assert_uint_eq(system_memory_free_at(root), 4096 * MIB);
    ck_assert_uint_eq(system_quota_at(root), UINT32_MAX);
}
END_TEST

START_TEST(the_real_machine)
{
    cpu_set_t one;
    int cpu = sched_getcpu();
    ck_assert_uint_gt(system_memory(), 64 * MIB);
    ck_assert_uint_gt(system_memory_free(), 0);
    ck_assert_uint_ge(system_cpus(), 1);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_uint_eq(system_cpus(), 1);
}
END_TEST

START_TEST(defaults)
{
    struct budget *budget = budget_new(0, 0);
    ck_assert_uint_eq(budget_limit(budget), system_memory() / 2);
    ck_assert_uint_eq(budget_decode_limit(budget), budget_limit(budget) / 8);
    budget_free(budget);
    budget = budget_new(1000, 5000);
    ck_assert_uint_eq(budget_decode_limit(budget), 1000);
    budget_free(budget);
}
END_TEST

START_TEST(takes_gives_and_moves)
{
    struct budget *budget = budget_new(1000, 0);
    ck_assert(budget_try(budget, BUDGET_SLOTS, 600));
    ck_assert(!budget_try(budget, BUDGET_SHUFFLE, 401));
    ck_assert(!budget_try(budget, BUDGET_SHUFFLE, UINT64_MAX)); /* no overflow */
    ck_assert_int_eq(budget_take(budget, BUDGET_SHUFFLE, 400, NULL), 0);
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 1000);
    budget_move(budget, BUDGET_SLOTS, BUDGET_ORPHANED, 500);
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), 100);
    ck_assert_uint_eq(budget_used(budget, BUDGET_ORPHANED), 500);
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 1000);
    ck_assert(!budget_try(budget, BUDGET_DECODE, 1));
    budget_give(budget, BUDGET_ORPHANED, 500);
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 500);
    ck_assert(budget_try(budget, BUDGET_DECODE, 500));
    budget_free(budget);
}
END_TEST

START_TEST(the_limit_may_change)
{
    struct budget *budget = budget_new(64 * MIB, 8 * MIB);
    ck_assert(budget_try(budget, BUDGET_SLOTS, 60 * MIB));
    budget_set_limit(budget, 128 * MIB);
    ck_assert(budget_try(budget, BUDGET_SLOTS, 40 * MIB));
    budget_set_limit(budget, 64 * MIB); /* no less than what is used */
    ck_assert_uint_eq(budget_limit(budget), 100 * MIB);
    ck_assert(!budget_try(budget, BUDGET_SLOTS, 1));
    budget_give(budget, BUDGET_SLOTS, 100 * MIB);
    budget_set_limit(budget, 64 * MIB);
    ck_assert(!budget_try(budget, BUDGET_SLOTS, 64 * MIB + 1));
    ck_assert(budget_try(budget, BUDGET_SLOTS, 64 * MIB));
    budget_give(budget, BUDGET_SLOTS, 64 * MIB);
    ck_assert_uint_eq(budget_decode_limit(budget), 8 * MIB);
    budget_free(budget);
}
END_TEST

START_TEST(refusals_are_in_numbers)
{
    struct budget *budget = budget_new(100 * 1000 * 1000, 0);
    struct error err = {0};
    budget_take(budget, BUDGET_SHUFFLE, 60 * 1000 * 1000, &err);
    ck_assert_int_eq(budget_take(budget, BUDGET_SLOTS, 50 * 1000 * 1000, &err), -ENOMEM);
    ck_assert_int_eq(err.code, -ENOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "50.0 MB (50000000 bytes) asked"));
    ck_assert_ptr_nonnull(strstr(err.text, "60.0 MB of 100.0 MB in use"));
    ck_assert_ptr_nonnull(strstr(err.text, "lower slots or batch"));
    ck_assert_ptr_nonnull(strstr(err.text, "raise memory to at least 110000000"));
    ck_assert_int_eq(budget_take(budget, BUDGET_SHUFFLE, 50 * 1000 * 1000, &err), -ENOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "lower shuffle"));
    budget_free(budget);
}
END_TEST

static void *take_and_give(void *context)
{
    for (int i = 0; i < 20000; i++)
        if (budget_try(context, BUDGET_DECODE, 7)) {
            budget_move(context, BUDGET_DECODE, BUDGET_ORPHANED, 3);
            budget_give(context, BUDGET_DECODE, 4);
            budget_give(context, BUDGET_ORPHANED, 3);
        }
    return NULL;
}

START_TEST(threads_leave_nothing_behind)
{
    struct budget *budget = budget_new(15, 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, take_and_give, budget);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int use = 0; use <= BUDGET_USES; use++)
        ck_assert_uint_eq(budget_used(budget, (enum budget_use)use), 0);
    budget_free(budget);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budget");
    TCase *trees = tcase_create("system");
    tcase_add_checked_fixture(trees, setup, teardown);
    tcase_add_test(trees, without_cgroups_the_machine_counts);
    tcase_add_test(trees, memory_that_cannot_be_asked_for_is_not_none);
    tcase_add_test(trees, v2_every_level_up_to_the_root);
    tcase_add_test(trees, v2_free_is_limit_less_what_cannot_be_taken_back);
    tcase_add_test(trees, v2_mounted_from_inside);
    tcase_add_test(trees, mount_points_are_unescaped);
    tcase_add_test(trees, v1_every_level_up_to_the_root);
    tcase_add_test(trees, both_versions_at_once);
    tcase_add_test(trees, quotas_of_cpus);
    tcase_add_test(trees, nonsense_is_no_limit);
    tcase_add_test(trees, the_real_machine);
    suite_add_tcase(suite, trees);
    TCase *budget = tcase_create("budget");
    tcase_add_test(budget, the_limit_may_change);
    tcase_add_test(budget, defaults);
    tcase_add_test(budget, takes_gives_and_moves);
    tcase_add_test(budget, refusals_are_in_numbers);
    tcase_add_test(budget, threads_leave_nothing_behind);
    suite_add_tcase(suite, budget);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
