/* base/headroom.c on folders that look like /proc and the cgroups', and in a cgroup with a quota
 * where the machine lets root make one. */
#include "base/headroom.h"

#include <check.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define T0 (100 * CLOCK_SECOND)

static char root[] = "/tmp/test_headroom.XXXXXX";
static struct headroom *headroom;
static uint64_t now;

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

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
    now = T0;
}

static void teardown(void)
{
    headroom_free(headroom);
    headroom = NULL;
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
}

static void put_v2(void)
{
    put("/proc/self/cgroup", "0::/jobs/one\n");
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/jobs/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/jobs/one/cpu.max", "150000 100000\n");
}

static void put_stat(uint64_t used_us, uint64_t throttled_us)
{
    cleanup_free char *text =
        mem_format("usage_usec %llu\nuser_usec 5\nsystem_usec 6\nnr_periods 7\nnr_throttled 3\n"
                   "throttled_usec %llu\n",
                   (unsigned long long)used_us, (unsigned long long)throttled_us);
    put("/sys/fs/cgroup/jobs/one/cpu.stat", text);
}

static void look(void)
{
    headroom_look(headroom, now);
    now += CLOCK_SECOND;
}

/* Ticks of 10 ms on every CPU that there may be. */
static void put_idle(unsigned ticks)
{
    char text[64 << 10];
    size_t length = (size_t)sprintf(text, "cpu  1 2 3 4 5 6 7 8 0 0\n");
    for (int cpu = 0; cpu < 1024; cpu++)
        length += (size_t)sprintf(text + length, "cpu%d 1 2 3 %u %u 6 7 8 0 0\n", cpu, 1000 + ticks,
                                  ticks);
    sprintf(text + length, "intr 7 8 9\n");
    put("/proc/stat", text);
}

START_TEST(nothing_is_known)
{
    headroom = headroom_new(root);
    for (int i = 0; i < 3; i++)
        look();
    ck_assert_uint_ge(headroom_cpus(headroom), 1);
    ck_assert_double_eq_tol(headroom_free_cpus(headroom), headroom_cpus(headroom), 1e-9);
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0, 1e-9);
}
END_TEST

START_TEST(idle_time_of_the_cpus_that_we_may_use)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    put_idle(0);
    headroom = headroom_new(root);
    look();
    put_idle(20); /* 200 ms idle and as much waiting, of each */
    look();
    ck_assert_double_eq_tol(headroom_free_cpus(headroom), 0.4 * CPU_COUNT(&set), 1e-6);
    look();
    ck_assert_double_eq_tol(headroom_free_cpus(headroom), 0, 1e-6);
}
END_TEST

START_TEST(a_quota_of_v2)
{
    put_v2();
    put_stat(1000, 500);
    headroom = headroom_new(root);
    look();
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0, 1e-9);
    put_stat(1000 + 900000, 500);
    look();
    ck_assert_double_le(headroom_free_cpus(headroom), 0.6 + 1e-6);
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0, 1e-9);
    put_stat(1000 + 900000 + 1500000, 500 + 600000); /* of 2.1 s in it */
    look();
    ck_assert_double_eq_tol(headroom_free_cpus(headroom), 0, 1e-9);
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0.2, 1e-6);
    for (int i = 0; i < 6; i++)
        look(); /* it was some seconds ago */
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0, 1e-9);
}
END_TEST

START_TEST(a_limit_that_comes_and_goes)
{
    put_v2();
    put_stat(0, 0);
    headroom = headroom_new(root);
    ck_assert_uint_le(headroom_cpus(headroom), 2);
    put("/sys/fs/cgroup/jobs/cpu.max", "100000 100000\n");
    for (int i = 0; i < 6; i++)
        look();
    ck_assert_uint_eq(headroom_cpus(headroom), 1);
    put("/sys/fs/cgroup/jobs/cpu.max", "max\n");
    put("/sys/fs/cgroup/jobs/one/cpu.max", "max\n");
    for (int i = 0; i < 6; i++)
        look();
    put_stat(1, 1000000);
    look();
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0, 1e-9);
}
END_TEST

START_TEST(a_quota_of_v1)
{
    put("/proc/self/cgroup", "4:cpu,cpuacct:/slow\n");
    put("/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    put("/sys/fs/cgroup/cpu/slow/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu/slow/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/slow/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
    headroom = headroom_new(root);
    look();
    put("/sys/fs/cgroup/cpu/slow/cpu.stat",
        "nr_periods 10\nnr_throttled 4\nthrottled_time 500000000\n");
    look();
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0.4, 1e-9); /* by periods */
    ck_assert_double_eq_tol(headroom_free_cpus(headroom), 0, 1e-9);
    put("/sys/fs/cgroup/cpu/slow/cpuacct.usage", "500000000\n");
    look();
    ck_assert_double_eq_tol(headroom_throttled(headroom), 0.5, 1e-9); /* by time */
}
END_TEST

static const char *const real[][2] = {
    {"/sys/fs/cgroup/cpu/dataloadd-test", "cpu.cfs_quota_us"},
    {"/sys/fs/cgroup/cpu,cpuacct/dataloadd-test", "cpu.cfs_quota_us"},
    {"/sys/fs/cgroup/dataloadd-test", "cpu.max"},
};

/* A cgroup with a twentieth of a CPU, for a process that wants a whole one. */
static const char *make_cgroup(pid_t pid)
{
    for (int i = 0; i < 3; i++) {
        cleanup_free char *limit = mem_format("%s/%s", real[i][0], real[i][1]);
        cleanup_free char *members = mem_format("%s/cgroup.procs", real[i][0]);
        if (mkdir(real[i][0], 0700))
            continue;
        FILE *file = fopen(limit, "r+");
        bool made = file && fprintf(file, strstr(limit, "max") ? "5000 100000" : "5000") > 0;
        made = file && fclose(file) == 0 && made;
        file = made ? fopen(members, "r+") : NULL;
        made = file && fprintf(file, "%d", (int)pid) > 0;
        made = file && fclose(file) == 0 && made;
        if (made)
            return real[i][0];
        rmdir(real[i][0]);
    }
    return NULL;
}

static void spin(int report)
{
    double share = 0;
    headroom = headroom_new("");
    uint64_t end = clock_ns() + 3 * CLOCK_SECOND, next = 0;
    while (clock_ns() < end) {
        if (clock_ns() < next)
            continue;
        headroom_look(headroom, clock_ns());
        next = clock_ns() + CLOCK_SECOND / 2;
    }
    share = headroom_throttled(headroom);
    if (headroom_cpus(headroom) != 1 || write(report, &share, sizeof share) < 0)
        _exit(1);
    _exit(0);
}

START_TEST(a_real_quota)
{
    int go[2], report[2];
    ck_assert_int_eq(pipe(go) | pipe(report), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        if (read(go[0], &byte, 1) == 1)
            spin(report[1]);
        _exit(2);
    }
    const char *folder = make_cgroup(pid);
    double share = -1;
    if (!folder) {
        printf("skipped: no cgroup with a quota of CPU time can be made here\n");
        kill(pid, SIGKILL);
    } else {
        ck_assert_int_eq(write(go[1], "x", 1), 1);
        close(report[1]);
        ck_assert_int_eq(read(report[0], &share, sizeof share), sizeof share);
    }
    int status;
    waitpid(pid, &status, 0);
    if (!folder)
        return;
    rmdir(folder);
    ck_assert_int_eq(status, 0);
    ck_assert_double_ge(share, 0.2);
    ck_assert_double_le(share, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("headroom");
    TCase *tests = tcase_create("headroom");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, nothing_is_known);
    tcase_add_test(tests, idle_time_of_the_cpus_that_we_may_use);
    tcase_add_test(tests, a_quota_of_v2);
    tcase_add_test(tests, a_limit_that_comes_and_goes);
    tcase_add_test(tests, a_quota_of_v1);
    tcase_add_test(tests, a_real_quota);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
