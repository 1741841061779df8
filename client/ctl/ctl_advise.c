/* advise: the verdict on each feed and what would help, in the daemon's words. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_sight.h"

/* A client whose words are not those of its feed. */
static bool differs(const Dlp__ClientStatus *client, const Dlp__FeedStatus *feed)
{
    return strcmp(client->feed, feed->name) == 0 && *client->verdict &&
           strcmp(client->limiting_stage, feed->limiting_stage) != 0;
}

static void print_feed(const struct ctl *ctl, const Dlp__StatusReply *status,
                       const Dlp__FeedStatus *feed)
{
    ctl_print(ctl, "%s: %s", feed->name,
              *feed->verdict ? feed->verdict : "not judged: the daemon is older than dataloadctl");
    for (size_t i = 0; i < status->n_clients; i++) {
        const Dlp__ClientStatus *client = status->clients[i];
        if (differs(client, feed))
            ctl_print(ctl, "  pid %d, job %s, rank %u: %s", client->pid, client->job, client->rank,
                      client->verdict);
    }
    for (size_t i = 0; i < feed->n_remedies; i++)
        ctl_print(ctl, "  %zu. %s", i + 1, feed->remedies[i]);
}

static json_t *client_json(const Dlp__ClientStatus *client)
{
    json_t *json = ctl_must(json_object());
    json_object_set_new(json, "pid", json_integer(client->pid));
    json_object_set_new(json, "job", ctl_json_text(client->job));
    json_object_set_new(json, "rank", json_integer(client->rank));
    json_object_set_new(json, "limiting_stage", ctl_json_text(client->limiting_stage));
    json_object_set_new(json, "verdict", ctl_json_text(client->verdict));
    return json;
}

static json_t *feed_json(const Dlp__StatusReply *status, const Dlp__FeedStatus *feed)
{
    json_t *json = ctl_must(json_object()), *remedies = ctl_must(json_array());
    json_t *clients = ctl_must(json_array());
    json_object_set_new(json, "name", ctl_json_text(feed->name));
    json_object_set_new(json, "limiting_stage", ctl_json_text(feed->limiting_stage));
    json_object_set_new(json, "verdict", ctl_json_text(feed->verdict));
    for (size_t i = 0; i < feed->n_remedies; i++)
        json_array_append_new(remedies, ctl_json_text(feed->remedies[i]));
    json_object_set_new(json, "remedies", remedies);
    for (size_t i = 0; i < status->n_clients; i++)
        if (differs(status->clients[i], feed))
            json_array_append_new(clients, client_json(status->clients[i]));
    json_object_set_new(json, "clients", clients);
    return json;
}

static const Dlp__FeedStatus *feed_named(const Dlp__StatusReply *status, const char *name)
{
    for (size_t i = 0; i < status->n_feeds; i++)
        if (strcmp(status->feeds[i]->name, name) == 0)
            return status->feeds[i];
    return NULL;
}

/* only: of this feed; NULL: of all. */
static void print_all(const struct ctl *ctl, const struct ctl_sight *sight,
                      const Dlp__FeedStatus *only)
{
    json_t *feeds = ctl_must(json_array());
    for (size_t i = 0; i < sight->status->n_feeds; i++) {
        const Dlp__FeedStatus *feed = sight->status->feeds[i];
        if (only && only != feed)
            continue;
        if (ctl->json)
            json_array_append_new(feeds, feed_json(sight->status, feed));
        else
            print_feed(ctl, sight->status, feed);
    }
    if (ctl->json) {
        json_t *json = ctl_must(json_pack("{sO}", "feeds", feeds));
        ctl_sight_json(sight, json);
        ctl_json_print(ctl->out, json, true);
    }
    json_decref(feeds);
}

int ctl_advise_report(const struct ctl *ctl, const struct ctl_sight *sight)
{
    const Dlp__FeedStatus *only = ctl->feed ? feed_named(sight->status, ctl->feed) : NULL;
    if (ctl->feed && !only)
        return ctl_fail(ctl, CTL_NOT_FOUND, "no feed %s; 'dataloadctl feeds' lists them",
                        ctl->feed);
    print_all(ctl, sight, only);
    return CTL_OK;
}

int ctl_advise(const struct ctl *ctl)
{
    struct ctl_sight sight = {.ctl = ctl, .program = "dataloadctl advise"};
    int code = ctl_sight_look(&sight);
    int said = sight.status ? ctl_advise_report(ctl, &sight) : CTL_OK;
    ctl_sight_free(&sight);
    return code ? code : said;
}
