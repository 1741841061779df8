/* What limits a client or all clients of a feed, by how much, and what would help: one sentence,
 * from rates alone.
 *
 * Pure: no clock, no I/O, no allocation; any thread. A trainer that never waits is the limit
 * itself; else the stage with the lowest capacity is. What a trainer could take is its rate over
 * the share of its time in which it did not wait: samples_per_s / (1 - wait_share). Where the next
 * capacity is nearer than VERDICT_CLOSE the sentence says "close to": either may be the limit. */
#ifndef VERDICT_H
#define VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICT_WINDOW 2.0 /* seconds below which the rates say nothing: "measuring" */
#define VERDICT_CLOSE 1.15
#define VERDICT_TEXT_MAX 320

/* Rates in samples/s over the window; 0, negative or not finite = not known. */
struct verdict_input {
    double wait_share;    /* the trainer waited for us, 0..1 */
    double samples_per_s; /* delivered */
    double demand;        /* what the trainer could take */
    double read_limit;    /* what one reader could deliver at its busy share */
    double decode_limit;  /* workers x rate of one, of what is left to this client */
    double decode_per_worker;
    double
        others_grow; /* workers that others would take of those added until this one has enough */
    double share;    /* of the workers, by weight; 0 = not known */
    uint32_t user_threads; /* workers that its user may have; 0 = all */
    uint32_t workers;
    uint32_t cpus;          /* that the daemon may use; 0 = not known */
    double throttled_share; /* a cgroup's CPU limit kept the daemon from running, 0..1 */
    double read_bytes_per_s;
    double share_wait_share; /* reads waited while other users had their share, 0..1 */
    bool packed;             /* read from shards */
    double copy_limit;       /* batches completed and handed over, at its busy share */
    double slots_held_share; /* the reader waited because the trainer had all slots, 0..1 */
    double window_s;
    int slow_pid;      /* who limits a mirror group whose others wait for it; 0 = not so */
    const char *cause; /* the daemon's word for what the trainer last waited for; may be NULL */
};

enum verdict_stage {
    VERDICT_UNKNOWN,
    VERDICT_STORAGE,
    VERDICT_DECODE,
    VERDICT_COPY,
    VERDICT_TRAINER
};

/* Writes one sentence with its numbers to text (VERDICT_TEXT_MAX bytes are enough) and returns the
 * stage it names. input NULL: no trainer is attached. */
enum verdict_stage verdict(const struct verdict_input *input, char *text, size_t size);
/* "unknown", "storage", "decode", "copy", "trainer". */
const char *verdict_stage_name(enum verdict_stage stage);

/* What a trainer with these figures could take; 0 = without limit as far as can be seen. */
double verdict_demand(double samples_per_s, double wait_share);
/* The narrowest stage of the input side and its capacity; VERDICT_UNKNOWN, 0: none is known. */
enum verdict_stage verdict_narrowest(const struct verdict_input *input, enum verdict_stage but,
                                     double *limit);
/* All of the workers that its user may have work for it, or could. */
bool verdict_user_has_all(const struct verdict_input *input);
/* Workers that would reach `target` samples/s; 0 = cannot be said. */
uint32_t verdict_workers(const struct verdict_input *input, double target);
/* "1,440/s", "7.5/s"; returns text. */
#define VERDICT_RATE_MAX 32
const char *verdict_rate(double rate, char text[VERDICT_RATE_MAX]);

#endif
