#include "control/terms.h"

#include "control/group.h"
#include "control/session.h"

struct share_terms terms_of(const struct group *group)
{
    const struct control *control = group->control;
    struct user_limits limits = users_limits(control, group->owner);
    return (struct share_terms){.uid = group->owner,
                                .user_weight = limits.weight,
                                .threads = limits.threads,
                                .job = group->job->number,
                                .job_weight = control->feeds[group->feed_number]->weight};
}

void terms_renew(struct group *group)
{
    if (group->state != GROUP_STREAMING)
        return;
    group->params.terms = terms_of(group);
    feed_set_terms(group->feed, &group->params.terms);
}

/* The newest are the first in the list. */
void terms_pass_on(struct group *group)
{
    const struct session *oldest = NULL;
    for (const struct session *s = group->members; s; s = s->fellow) {
        if (s->peer.uid == group->owner)
            return;
        oldest = s;
    }
    if (!oldest)
        return;
    group->owner = oldest->peer.uid;
    terms_renew(group);
}
