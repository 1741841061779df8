/* Null trainers, for verbs that measure the input side. */
#ifndef CTL_BENCH_H
#define CTL_BENCH_H

#include "client/ctl/ctl_probe.h"

struct bench_trainer;
struct pollfd;

struct bench {
    const struct ctl *ctl; /* feed, epochs, seconds */
    struct probe probe;
    bool within;                    /* warming up and all takes ctl->seconds, not more */
    struct bench_trainer *trainers; /* probe.world of them */
    struct pollfd *polls;
    double last_batch, started, ended, told; /* seconds of the clock */
};

/* Both print errors; ctl_bench_end in any case. */
int ctl_bench_attach(struct bench *bench);
int ctl_bench_measure(struct bench *bench);
double ctl_bench_rate(const struct bench *bench); /* samples/s of them all, once measured */
void ctl_bench_end(struct bench *bench);

#endif
