/* Ranks of running jobs that were served and that nobody has now, and what they have lost by it;
 * but for those that have detached and lag behind nobody. Loop thread. */
#ifndef VACANCY_H
#define VACANCY_H

#include "control/control.h"
#include "dataload.pb-c.h"

#define VACANCY_MAX 256 /* are told */

struct vacancy {
    uint32_t count;
    Dlp__VacantRank ranks[VACANCY_MAX];
    Dlp__VacantRank *list[VACANCY_MAX];
};

/* Texts are the jobs': good until the loop goes on. */
void vacancy_list(const struct control *control, uint64_t now, struct vacancy *out);

#endif
