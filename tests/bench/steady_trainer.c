/* A trainer of known speed: takes batches, works on them for a set time by the clock, gives them
 * back. What a sleep takes too long is taken off the next, so that the mean is right on a busy
 * machine too. Prints one line a batch: when it was taken and how long it was waited for (ns of
 * CLOCK_MONOTONIC), rows. Ends when standard input does.
 *
 *   steady_trainer SOCKET FEED JOB BATCH SLOTS STEP_US BURST
 *
 * STEP_US is for one batch; BURST batches are taken one after the other, then worked on. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dataload.h"

#define SECOND 1000000000LL
#define LATE_MAX SECOND
#define BURST_MAX 16

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static void work(int64_t ns)
{
    static int64_t late;
    int64_t until = now_ns() + ns - late;
    struct timespec time = {until / SECOND, until % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        continue;
    late = now_ns() - until;
    late = late < LATE_MAX ? late : LATE_MAX;
}

static int is_over(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static dataload_batch *take(dataload *handle)
{
    dataload_batch *batch = NULL;
    int64_t begin = now_ns();
    int code = DATALOAD_EPOCH_END;
    while (code == DATALOAD_EPOCH_END)
        code = dataload_next(handle, 60000, &batch);
    if (code < 0) {
        fprintf(stderr, "steady_trainer: %s\n", dataload_error(handle));
        exit(1);
    }
    int64_t now = now_ns();
    printf("%" PRId64 " %" PRId64 " %u\n", now, now - begin, dataload_batch_rows(batch));
    return batch;
}

static void train(dataload *handle, int64_t step_ns, int burst)
{
    dataload_batch *batches[BURST_MAX];
    while (!is_over()) {
        for (int i = 0; i < burst; i++)
            batches[i] = take(handle);
        work(step_ns * burst);
        for (int i = 0; i < burst; i++)
            dataload_release(handle, batches[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: steady_trainer SOCKET FEED JOB BATCH SLOTS STEP_US BURST\n");
        return 2;
    }
    dataload_options options = DATALOAD_OPTIONS_INIT;
    options.socket = argv[1];
    options.job = argv[3];
    options.batch = atoll(argv[4]);
    options.slots = atoll(argv[5]);
    dataload *handle = NULL;
    if (dataload_attach(argv[2], &options, &handle) < 0) {
        fprintf(stderr, "steady_trainer: %s\n", dataload_error(handle));
        return 1;
    }
    int burst = atoi(argv[7]);
    train(handle, atoll(argv[6]) * 1000, burst < BURST_MAX ? burst : BURST_MAX);
    dataload_detach(handle);
    return 0;
}
