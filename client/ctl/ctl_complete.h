/* The table of dataloadctl's verbs, and what a shell may complete by it: the hidden verb
 * __complete, whose answers the scripts in completion/ hand on. */
#ifndef CTL_COMPLETE_H
#define CTL_COMPLETE_H

#include <argp.h>

#include "client/ctl/ctl.h"

enum feed_argument { NO_FEED, NAMES_JOB, MAY_NAME_FEED, NAMES_FEED, NAMES_FEED_AND_KEY };

struct verb {
    const char *name;
    int (*run)(const struct ctl *ctl);
    enum feed_argument feed;
    const int options[8]; /* keys; those of group 0 go with every verb */
    const int needs;      /* the option that must be given */
};

struct ctl_grammar {
    const struct verb *verbs;
    size_t nverbs;
    const struct argp_option *options; /* their arguments' names say what they are: FEED, FILE */
};

/* Prints what may stand for the last word, one candidate a line: verbs, options, and the names that
 * the daemon has now, of characters that no shell takes for its own. "@file" or "@directory": the
 * shell's own candidates. Silent, ends the process with 0, within half a second. */
_Noreturn void ctl_complete(const struct ctl_grammar *grammar, char **words, int nwords);

#endif
