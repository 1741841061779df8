#include "control/allowance.h"

#include <errno.h>
#include <stdio.h>

#include "base/plural.h"

#define MB 1e6

/* Taken by others: decode scratch, slots of attached clients, of groups that have ended. */
static uint64_t taken(const struct control *control)
{
    const struct budget *budget = control->options.budget;
    return budget_decode_limit(budget) + control->promised + budget_used(budget, BUDGET_ORPHANED);
}

/* Who is to blame for it. */
static char *orphaned_words(const struct control *control, char *text, size_t size)
{
    uint64_t bytes = budget_used(control->options.budget, BUDGET_ORPHANED);
    *text = '\0';
    if (bytes)
        snprintf(text, size, ", with %.1f MB that processes of ended mirror groups still map",
                 (double)bytes / MB);
    return text;
}

static uint64_t whole_mb(uint64_t bytes)
{
    return bytes / 1000000 + 1;
}

/* Of what its user may have. Over all of that it never fits; else it may once others have left. */
static int check_user(const struct group *group, struct error *err)
{
    const struct control *control = group->control;
    const struct feed_params *params = &group->params;
    uint64_t need = group_host_bytes(group), slot = group->memory.slot_bytes;
    uint64_t most = users_limits(control, group->owner).memory;
    uint64_t used = users_memory(control, group->owner);
    char name[ACCESS_USER_MAX];
    if (!most || (need <= most && used <= most - need))
        return 0;
    return error_set(err, need > most ? -E2BIG : -ENOMEM,
                     "feed %s: %u slots of %.1f MB (batch %u) are %.1f MB, user %s may have memory "
                     "%.1f MB (users in the configuration), of which %.1f MB are taken: lower "
                     "batch or slots, detach another client of %s, or set its memory to %lluMB",
                     params->spec->name, (unsigned)(need / slot), (double)slot / MB, params->batch,
                     (double)need / MB, users_name(control, group->owner, name), (double)most / MB,
                     (double)used / MB, name, (unsigned long long)whole_mb(used + need));
}

int allowance_check(const struct group *group, struct error *err)
{
    const struct control *control = group->control;
    const struct feed_params *params = &group->params;
    const struct feed_memory *memory = &group->memory;
    uint64_t need = group_host_bytes(group), limit = budget_limit(control->options.budget);
    uint64_t used = taken(control), most = control->options.client_memory;
    uint32_t others = control->nattached - group->nmembers;
    double slot = (double)memory->slot_bytes / MB;
    unsigned slots = (unsigned)(need / memory->slot_bytes);
    char orphaned[96];
    if (need > most)
        return error_set(
            err, -E2BIG,
            "feed %s: %u slots of %.1f MB (batch %u) are %.1f MB, client_memory allows "
            "%.1f MB a client: lower batch or slots, or set client_memory to %lluMB",
            params->spec->name, slots, slot, params->batch, (double)need / MB, (double)most / MB,
            (unsigned long long)whole_mb(need));
    int rc = check_user(group, err);
    if (rc)
        return rc;
    if (need <= limit && used <= limit - need)
        return 0;
    return error_set(err, -ENOMEM,
                     "feed %s: %u slots of %.1f MB (batch %u) are %.1f MB, of memory %.1f MB %.1f "
                     "MB are promised to decoding and %u other client%s%s: lower batch or slots, "
                     "detach a client, or set memory to %lluMB",
                     params->spec->name, slots, slot, params->batch, (double)need / MB,
                     (double)limit / MB, (double)used / MB, others, plural(others),
                     orphaned_words(control, orphaned, sizeof orphaned),
                     (unsigned long long)whole_mb(used + need));
}

char *allowance_note(const struct group *group, char *text, size_t size)
{
    const struct control *control = group->control;
    const struct feed_memory *memory = &group->memory;
    uint64_t limit = budget_limit(control->options.budget), used = taken(control);
    uint64_t left = used < limit ? limit - used : 0;
    *text = '\0';
    if (memory->shuffle > left)
        snprintf(text, size,
                 "the shuffle buffer would take %.1f MB, memory has %.1f MB left: the order stays "
                 "the same, but storage is read in smaller pieces; lower shuffle, or raise memory",
                 (double)memory->shuffle / MB, (double)left / MB);
    return text;
}
