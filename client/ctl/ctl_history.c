#include "client/ctl/ctl_history.h"

#include <stdlib.h>

#include "client/ctl/ctl.h"

static uint64_t key_of(const Dlp__ClientStatus *client)
{
    return client->number ? client->number : (uint64_t)client->pid << 32 | client->rank;
}

static struct history_client *find(const struct history *history, uint64_t key)
{
    for (size_t i = 0; i < history->count; i++)
        if (history->clients[i].key == key)
            return &history->clients[i];
    return NULL;
}

static struct history_client *find_or_add(struct history *history, uint64_t key)
{
    struct history_client *found = find(history, key);
    if (found)
        return found;
    history->clients =
        ctl_must(reallocarray(history->clients, history->count + 1, sizeof(*history->clients)));
    history->clients[history->count] = (struct history_client){.key = key};
    return &history->clients[history->count++];
}

static void forget_unseen(struct history *history)
{
    size_t kept = 0;
    for (size_t i = 0; i < history->count; i++)
        if (history->clients[i].seen)
            history->clients[kept++] = history->clients[i];
    history->count = kept;
}

void history_add(struct history *history, const Dlp__StatusReply *status, double seconds)
{
    uint64_t number = (uint64_t)(seconds / HISTORY_BIN_S);
    for (size_t i = 0; i < history->count; i++)
        history->clients[i].seen = false;
    if (history->daemon != status->pid)
        history->count = 0;
    history->daemon = status->pid;
    for (size_t i = 0; i < status->n_clients; i++) {
        struct history_client *client = find_or_add(history, key_of(status->clients[i]));
        struct history_bin *bin = &client->bins[number % HISTORY_BINS];
        if (bin->number != number)
            *bin = (struct history_bin){.number = number};
        bin->sum += status->clients[i]->wait_share;
        bin->count++;
        client->seen = true;
    }
    forget_unseen(history);
}

void history_get(const struct history *history, const Dlp__ClientStatus *client, double seconds,
                 double shares[HISTORY_BINS])
{
    const struct history_client *found = find(history, key_of(client));
    uint64_t newest = (uint64_t)(seconds / HISTORY_BIN_S);
    for (uint64_t i = 0; i < HISTORY_BINS; i++) {
        uint64_t number = newest + 1 + i - HISTORY_BINS;
        const struct history_bin *bin = found ? &found->bins[number % HISTORY_BINS] : NULL;
        bool known = bin && bin->number == number && bin->count;
        shares[i] = known ? bin->sum / bin->count : -1;
    }
}

void history_free(struct history *history)
{
    free(history->clients);
    *history = (struct history){0};
}
