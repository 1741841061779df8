#include "control/status_line.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "control/verdict.h"

#define MB 1e6
#define LIMIT_MAX 160

/* Share of the time that the feed's trainers wait, of the one that waits most. */
static double longest_wait(const Dlp__StatusReply *reply, const Dlp__FeedStatus *feed)
{
    double most = 0;
    for (size_t i = 0; i < reply->n_clients; i++) {
        const Dlp__ClientStatus *client = reply->clients[i];
        if (strcmp(client->feed, feed->name) == 0 && client->wait_share > most)
            most = client->wait_share;
    }
    return most;
}

static bool is_limited_by(const Dlp__FeedStatus *feed, enum verdict_stage stage)
{
    return feed->clients && strcmp(feed->limiting_stage, verdict_stage_name(stage)) == 0;
}

/* The feed whose trainers wait most, of those that a stage of ours limits; where there is none,
 * whether trainers do. */
static void say_limit(const Dlp__StatusReply *reply, char text[LIMIT_MAX])
{
    const Dlp__FeedStatus *slowest = NULL;
    bool trainers = false;
    for (size_t i = 0; i < reply->n_feeds; i++) {
        const Dlp__FeedStatus *feed = reply->feeds[i];
        bool own = is_limited_by(feed, VERDICT_TRAINER);
        trainers |= own;
        if (!feed->clients || own || is_limited_by(feed, VERDICT_UNKNOWN))
            continue;
        if (!slowest || longest_wait(reply, feed) > longest_wait(reply, slowest))
            slowest = feed;
    }
    *text = '\0';
    if (slowest)
        snprintf(text, LIMIT_MAX, "%s limited by %s, ", slowest->name, slowest->limiting_stage);
    else if (trainers)
        snprintf(text, LIMIT_MAX, "limited by the trainers, ");
}

char *status_line(const Dlp__StatusReply *reply, char *text)
{
    char limit[LIMIT_MAX];
    double bytes_per_s = 0;
    unsigned clients = 0;
    for (size_t i = 0; i < reply->n_clients; i++) {
        clients += strcmp(reply->clients[i]->state, "closing") != 0;
        bytes_per_s += reply->clients[i]->bytes_per_s;
    }
    say_limit(reply, limit);
    snprintf(text, STATUS_LINE_MAX, "%s%u client%s, %.1f MB/s, %s%.1f MB of %.1f MB in use",
             reply->draining_ns ? "draining, " : "", clients, plural(clients), bytes_per_s / MB,
             limit, (double)reply->memory_used / MB, (double)reply->memory_limit / MB);
    return text;
}
