/* What a batch costs beside the work on its pictures: a trainer that takes and gives back, against
 * a bare round trip over a Unix socket of as many bytes as the batch has, in the same run.
 *
 *   bench_handoff SOCKET FEED DAEMON CPU OTHER ROUNDS COUNT
 *
 * DAEMON: the daemon's process id. CPU: where this process runs; OTHER: where the other end of the
 * bare socket does, as the daemon. ROUNDS times COUNT round trips and COUNT batches by turns. A
 * line a round: of a round trip wall and processor time of both ends, of a batch the same, then
 * this process's part of it, us; page faults of this process and of the daemon in these batches. */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/dataload.h"

static dataload *handle;
static uint8_t *message;
static size_t size;
static clockid_t own = CLOCK_PROCESS_CPUTIME_ID, of_daemon, of_echo;
static long rounds, count;

static double us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void run_on(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        perror("sched_setaffinity");
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_handoff: %s\n", what);
    exit(1);
}

static void send_all(int fd)
{
    if (send(fd, message, size, MSG_NOSIGNAL) != (ssize_t)size)
        exit(0); /* the other end has ended */
}

static void receive_all(int fd)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, message + at, size - at, 0);
        if (got <= 0)
            exit(0);
        at += (size_t)got;
    }
}

/* Returns this process's end of a socket whose other end sends back what comes. */
static int start_echo(unsigned cpu)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        fail("no socket");
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_on(cpu);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            receive_all(ends[1]);
            send_all(ends[1]);
        }
    }
    close(ends[1]);
    if (child < 0 || clock_getcpuclockid(child, &of_echo))
        fail("no second process");
    return ends[0];
}

static void take_batch(void)
{
    dataload_batch *batch;
    int rc;
    while ((rc = dataload_next(handle, -1, &batch)) == DATALOAD_EPOCH_END)
        continue;
    if (rc < 0 || dataload_release(handle, batch) < 0)
        fail(dataload_error(handle));
}

static void attach(const char *socket, const char *feed)
{
    dataload_options options = DATALOAD_OPTIONS_INIT;
    dataload_batch *batch;
    dataload_tensor tensor;
    options.socket = socket;
    if (dataload_attach(feed, &options, &handle) < 0 || dataload_next(handle, -1, &batch) < 0)
        fail(dataload_error(handle));
    dataload_batch_tensor_at(batch, 0, &tensor);
    size = tensor.bytes;
    message = calloc(1, size);
    dataload_release(handle, batch);
}

/* Of each trip, wall and processor time, us. */
static void round_trips(int fd, double out[2])
{
    double wall = us(CLOCK_MONOTONIC), cpu = us(own) + us(of_echo);
    for (long i = 0; i < count; i++) {
        send_all(fd);
        receive_all(fd);
    }
    out[0] = (us(CLOCK_MONOTONIC) - wall) / (double)count;
    out[1] = (us(own) + us(of_echo) - cpu) / (double)count;
}

static long faults_of(long pid)
{
    char path[64];
    long faults = -1;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %ld", &faults) != 1)
        faults = -1;
    if (file)
        fclose(file);
    return faults;
}

static long own_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* Of each batch: wall, processor time of both processes, that of this one. */
static void batches(double out[3])
{
    double wall = us(CLOCK_MONOTONIC), mine = us(own), its = us(of_daemon);
    for (long i = 0; i < count; i++)
        take_batch();
    mine = us(own) - mine;
    out[0] = (us(CLOCK_MONOTONIC) - wall) / (double)count;
    out[1] = (mine + us(of_daemon) - its) / (double)count;
    out[2] = mine / (double)count;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: %s SOCKET FEED DAEMON CPU OTHER ROUNDS COUNT\n", argv[0]);
        return 64;
    }
    long daemon = atol(argv[3]);
    rounds = atol(argv[6]);
    count = atol(argv[7]);
    if (clock_getcpuclockid((pid_t)daemon, &of_daemon))
        fail("there is no such daemon");
    run_on((unsigned)atoi(argv[4]));
    attach(argv[1], argv[2]);
    int echo = start_echo((unsigned)atoi(argv[5]));
    for (long i = 0; i < count; i++)
        take_batch();
    for (long round = 0; round < rounds; round++) {
        double trip[2], batch[3];
        if (round % 2)
            round_trips(echo, trip);
        long mine = own_faults(), its = faults_of(daemon);
        batches(batch);
        mine = own_faults() - mine;
        its = faults_of(daemon) - its;
        if (round % 2 == 0)
            round_trips(echo, trip);
        printf("%.2f %.2f %.2f %.2f %.2f %ld %ld\n", trip[0], trip[1], batch[0], batch[1], batch[2],
               mine, its);
        fflush(stdout);
    }
    dataload_detach(handle);
    return 0;
}
