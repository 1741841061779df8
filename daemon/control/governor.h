/* How many workers there should be, once a second, from the figures of the last one. Pure: no
 * clock, no I/O.
 *
 * Needed are, for each stream, what its trainer could take or its storage could deliver, whichever
 * is less, over what one worker does; the sum is gone to at once, up while a trainer waits for
 * workers that are all busy, down when fewer have been enough for some seconds. Half of the ceiling
 * is the workers' in any case, more only as far as CPUs are free. What more workers have not
 * brought is taken back. Going down soon before going up makes the next way down slower. */
#ifndef GOVERNOR_H
#define GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct governor_stream {
    bool fresh;        /* has just begun: what is not known yet may be anything */
    double demand;     /* rows/s that its trainer could take; 0: not known, or it asks for none */
    double supply;     /* rows/s that could be read for it */
    double rate;       /* rows/s of one busy worker; 0: not known */
    double wait_share; /* of the trainer's time */
};

struct governor_input {
    const struct governor_stream *streams;
    uint32_t nstreams;
    unsigned active;
    unsigned ceiling;
    bool as_said;     /* the ceiling is the operator's word, whatever CPUs there are */
    double busy;      /* workers at tasks, on average */
    double cpu_each;  /* CPUs that one busy worker takes when it gets them, 0..1 */
    double queued;    /* share of the time in which workers could run that they had no CPU */
    double free_cpus; /* that nobody used */
    double rows;      /* all rows/s done */
};

#define GOVERNOR_WHY_MAX 240

struct governor_low { /* fewer would be enough */
    unsigned seconds; /* in a row */
    double need;      /* the most in them */
};

struct governor {
    struct governor_low spare, plenty;
    unsigned crowded_seconds; /* in a row in which others had taken the CPUs */
    unsigned patience;        /* seconds of plenty before it goes down; 0 = as at first */
    unsigned calm;            /* seconds since the last change */
    unsigned since_down;      /* seconds since it last went down, */
    unsigned down_from;       /* from so many, */
    double down_rows;         /* when so many rows/s were asked for */
    /* It went up from so many (0: it did not) and looks what that brings; how it was then: */
    unsigned trial_from;
    double trial_rows, trial_free;
    /* More than so many (0: any number) have brought nothing, when things were so: */
    unsigned cap;
    double cap_need, cap_free;
    uint32_t cap_streams;
    unsigned cap_ceiling;
    unsigned cap_seconds, cap_hold; /* ago; to be tried again after so many */
    char why[GOVERNOR_WHY_MAX];     /* the number is what it is; set by each call */
};

/* Returns how many there should be, 1 to the ceiling. */
unsigned governor_decide(struct governor *governor, const struct governor_input *in);
/* At the moment at which a client comes: what it needs is not known. */
unsigned governor_welcome(struct governor *governor, const struct governor_input *in);

#endif
