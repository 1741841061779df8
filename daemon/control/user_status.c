#include "control/user_status.h"

#include <stdlib.h>

#include "base/mem.h"
#include "control/session.h"

struct user_view {
    Dlp__UserStatus status;
    char name[ACCESS_USER_MAX];
};

static void fill(struct user_view *view, const struct census *census, uid_t uid)
{
    const struct control *control = census->control;
    struct user_limits limits = users_limits(control, uid);
    Dlp__UserStatus *out = &view->status;
    dlp__user_status__init(out);
    out->uid = uid;
    out->user = users_name(control, uid, view->name);
    out->clients = users_clients(control, uid);
    out->clients_limit = limits.clients;
    out->memory = users_memory(control, uid);
    out->memory_limit = limits.memory;
    out->threads_limit = limits.threads;
    out->weight = limits.weight;
    out->descriptors_limit = limits.descriptors;
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *it = &census->views[i];
        if (it->counts && it->session->group->owner == uid)
            out->busy += census_busy(it) / census->workers;
    }
    if (out->busy > 1) /* windows of streams differ */
        out->busy = 1;
}

static int by_uid(const void *a, const void *b)
{
    const uid_t *one = a, *other = b;
    return *one < *other ? -1 : *one > *other;
}

void user_list_take(struct user_list *users, const struct census *census)
{
    cleanup_free uid_t *uids = mem_array(census->count + 1, sizeof *uids);
    for (uint32_t i = 0; i < census->count; i++)
        uids[i] = census->views[i].session->peer.uid;
    qsort(uids, census->count, sizeof *uids, by_uid);
    users->views = mem_array(census->count + 1, sizeof *users->views);
    users->list = mem_array(census->count + 1, sizeof(Dlp__UserStatus *));
    users->count = 0;
    for (uint32_t i = 0; i < census->count; i++) {
        if (i && uids[i] == uids[i - 1])
            continue;
        struct user_view *view = &users->views[users->count];
        fill(view, census, uids[i]);
        users->list[users->count++] = &view->status;
    }
}

void user_list_free(struct user_list *users)
{
    free(users->list);
    free(users->views);
}
