#include "control/users.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/control.h"
#include "control/group.h"
#include "control/session.h"
#include "control/terms.h"
#include "proto/frames.h"

#define MB 1e6
#define NUMBER_MAX 32

static const struct users built_in = {.rest = {.descriptors = USERS_DESCRIPTORS, .weight = 1}};

void users_copy(struct users *to, const struct users *from)
{
    *to = from ? *from : built_in;
    to->list = mem_array(to->count + 1, sizeof *to->list);
    for (uint32_t i = 0; i < to->count; i++) {
        to->list[i] = from->list[i];
        to->list[i].name = mem_string(from->list[i].name);
    }
}

void users_clear(struct users *users)
{
    for (uint32_t i = 0; i < users->count; i++)
        free(users->list[i].name);
    free(users->list);
    *users = built_in;
}

static const char *or_none(uint32_t number, char text[NUMBER_MAX])
{
    if (number)
        snprintf(text, NUMBER_MAX, "%u", number);
    return number ? text : "none";
}

char *users_words(const struct user_limits *limits, char text[USERS_WORDS_MAX])
{
    char memory[NUMBER_MAX] = "none", clients[NUMBER_MAX], threads[NUMBER_MAX];
    if (limits->memory)
        snprintf(memory, sizeof memory, "%.1f MB", (double)limits->memory / MB);
    snprintf(text, USERS_WORDS_MAX, "memory %s, clients %s, descriptors %u, threads %s, weight %u",
             memory, or_none(limits->clients, clients), limits->descriptors,
             or_none(limits->threads, threads), limits->weight);
    return text;
}

static const struct users_entry *find(const struct users *users, uid_t uid)
{
    for (uint32_t i = 0; i < users->count; i++)
        if (users->list[i].uid == uid)
            return &users->list[i];
    return NULL;
}

static struct user_limits limits_of(const struct users *users, uid_t uid)
{
    const struct users_entry *entry = find(users, uid);
    return entry ? entry->limits : users->rest;
}

struct user_limits users_limits(const struct control *control, uid_t uid)
{
    return limits_of(&control->users, uid);
}

static void log_change(const char *name, const struct user_limits *now,
                       const struct user_limits *before)
{
    char words[USERS_WORDS_MAX], old[USERS_WORDS_MAX], escaped[DLP_TEXT_MAX];
    users_words(now, words);
    users_words(before, old);
    if (strcmp(words, old) != 0)
        log_notice("users: %s: %s; before: %s", dlp_escape(name, escaped, sizeof escaped), words,
                   old);
}

static void log_changes(const struct users *now, const struct users *before)
{
    log_change("default", &now->rest, &before->rest);
    for (uint32_t i = 0; i < now->count; i++) {
        struct user_limits old = limits_of(before, now->list[i].uid);
        log_change(now->list[i].name, &now->list[i].limits, &old);
    }
    for (uint32_t i = 0; i < before->count; i++)
        if (!find(now, before->list[i].uid))
            log_change(before->list[i].name, &now->rest, &before->list[i].limits);
}

void users_set(struct control *control, const struct users *users)
{
    struct users before = control->users;
    users_copy(&control->users, users);
    log_changes(&control->users, &before);
    users_clear(&before);
    for (struct group *group = control->groups; group; group = group->next)
        terms_renew(group);
}

static bool is_attached(const struct session *session)
{
    return session->state == SESSION_ATTACHING || session->state == SESSION_STREAMING;
}

uint32_t users_clients(const struct control *control, uid_t uid)
{
    uint32_t count = 0;
    for (const struct session *s = control->sessions; s; s = s->next)
        count += s->peer.uid == uid && is_attached(s);
    return count;
}

uint64_t users_memory(const struct control *control, uid_t uid)
{
    uint64_t bytes = orphans_bytes(control->options.orphans, uid);
    for (const struct group *group = control->groups; group; group = group->next)
        bytes += group->owner == uid ? group->promised : 0;
    return bytes;
}

char *users_name(const struct control *control, uid_t uid, char name[ACCESS_USER_MAX])
{
    const struct users_entry *entry = find(&control->users, uid);
    snprintf(name, ACCESS_USER_MAX, "%u", uid);
    for (const struct session *s = control->sessions; s; s = s->next)
        if (s->peer.uid == uid && *s->user)
            snprintf(name, ACCESS_USER_MAX, "%s", s->user);
    if (entry && !isdigit((unsigned char)*entry->name))
        dlp_escape(entry->name, name, ACCESS_USER_MAX);
    return name;
}
