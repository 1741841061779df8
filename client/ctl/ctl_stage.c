#include <string.h>

#include "client/ctl/ctl.h"

#define WORTH_SAYING 0.05

/* Batches pass on at the rate they have over the share of the workers' time that takes. */
static double copy_limit(double samples_per_s, double busy)
{
    return busy > 0 ? samples_per_s / busy : 0;
}

static const Dlp__FeedStatus *feed_named(const Dlp__StatusReply *status, const char *name)
{
    for (size_t i = 0; i < status->n_feeds; i++)
        if (strcmp(status->feeds[i]->name, name) == 0)
            return status->feeds[i];
    return NULL;
}

/* Members of a mirror group, by rank. */
static bool same_stream(const Dlp__ClientStatus *a, const Dlp__ClientStatus *b)
{
    return *a->group && a->rank == b->rank && strcmp(a->group, b->group) == 0 &&
           strcmp(a->feed, b->feed) == 0;
}

/* The pid that members of its group wait for; 0 = none. */
static int64_t awaited_in(const Dlp__StatusReply *status, const Dlp__ClientStatus *client)
{
    for (size_t i = 0; i < status->n_clients; i++)
        if (status->clients[i]->waits_for && same_stream(client, status->clients[i]))
            return status->clients[i]->waits_for;
    return 0;
}

/* Who is waited for, else the member that waits least, sets the pace of its group; without a group
 * the client itself. */
static const Dlp__ClientStatus *pacemaker(const Dlp__StatusReply *status,
                                          const Dlp__ClientStatus *client)
{
    const Dlp__ClientStatus *found = NULL;
    int64_t awaited = awaited_in(status, client);
    for (size_t i = 0; i < status->n_clients; i++) {
        const Dlp__ClientStatus *other = status->clients[i];
        if (!same_stream(client, other))
            continue;
        if (awaited && other->pid == awaited)
            return other;
        if (strcmp(other->state, "streaming") == 0 &&
            (!found || other->wait_share < found->wait_share))
            found = other;
    }
    return found ? found : client;
}

static bool waits_on(const Dlp__ClientStatus *client, const Dlp__ClientStatus *other)
{
    return client->waits_for == other->pid || client->wait_share > other->wait_share + WORTH_SAYING;
}

void ctl_stage_of_client(const Dlp__StatusReply *status, const Dlp__ClientStatus *client,
                         struct verdict_input *input)
{
    const Dlp__FeedStatus *feed = feed_named(status, client->feed);
    const Dlp__ClientStatus *pace = pacemaker(status, client);
    *input = (struct verdict_input){
        .wait_share = client->wait_share,
        .samples_per_s = client->samples_per_s,
        .read_limit = client->read_limit,
        .decode_limit = client->decode_limit,
        .decode_per_worker = client->decode_per_worker,
        .workers = status->workers,
        .read_bytes_per_s = client->read_bytes_per_s,
        .copy_limit = feed ? copy_limit(feed->samples_per_s, feed->handoff_busy) : 0,
        .slots_held_share = client->slots_held_share,
        .window_s = client->window_s,
        .cause = client->last_cause,
        .slow_pid = waits_on(client, pace) ? pace->pid : 0,
    };
}

static bool counts(const Dlp__ClientStatus *client, const Dlp__FeedStatus *feed, const char *job,
                   bool probe)
{
    if (strcmp(client->feed, feed->name) != 0)
        return false;
    return job ? strcmp(client->job, job) == 0 : client->probe == probe;
}

/* Does anybody wait for it? */
static bool holds_others_up(const Dlp__StatusReply *status, const Dlp__ClientStatus *client)
{
    for (size_t i = 0; i < status->n_clients; i++)
        if (same_stream(client, status->clients[i]) && waits_on(status->clients[i], client))
            return true;
    return false;
}

/* Rates add up; shares of time are averaged below. Of a group its pacemaker counts. */
static size_t add_clients(const Dlp__StatusReply *status, const Dlp__FeedStatus *feed,
                          const char *job, bool probe, struct verdict_input *sum)
{
    size_t found = 0;
    double longest_wait = -1;
    *sum = (struct verdict_input){0};
    for (size_t i = 0; i < status->n_clients; i++) {
        const Dlp__ClientStatus *client = status->clients[i];
        if (!counts(client, feed, job, probe) || pacemaker(status, client) != client)
            continue;
        if (holds_others_up(status, client))
            sum->slow_pid = client->pid;
        sum->wait_share += client->wait_share;
        sum->slots_held_share += client->slots_held_share;
        sum->samples_per_s += client->samples_per_s;
        sum->read_limit += client->read_limit;
        sum->decode_limit += client->decode_limit;
        sum->read_bytes_per_s += client->read_bytes_per_s;
        if (found == 0 || client->window_s < sum->window_s)
            sum->window_s = client->window_s;
        if (client->wait_share > longest_wait) {
            longest_wait = client->wait_share;
            sum->cause = client->last_cause;
        }
        found++;
    }
    return found;
}

bool ctl_stage_of_feed(const Dlp__StatusReply *status, const Dlp__FeedStatus *feed, const char *job,
                       struct verdict_input *input)
{
    size_t found = add_clients(status, feed, job, false, input);
    if (found == 0 && !job)
        found = add_clients(status, feed, NULL, true, input);
    if (found == 0)
        return false;
    input->wait_share /= (double)found;
    input->slots_held_share /= (double)found;
    input->workers = status->workers;
    input->decode_per_worker = feed->decode_per_worker;
    input->copy_limit = copy_limit(feed->samples_per_s, feed->handoff_busy);
    /* Each client's limit counts the idle workers, which several clients share. */
    double all = feed->decode_per_worker * status->workers;
    if (all > 0 && input->decode_limit > all)
        input->decode_limit = all;
    return true;
}
