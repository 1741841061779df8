#include "client/ctl/ctl_complete.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "proto/frames.h"

#define PATIENCE_US 400000

struct line {
    struct ctl ctl;
    const struct ctl_grammar *grammar;
    const struct verb *verb;          /* NULL: none yet, or no such one */
    int arguments;                    /* before the word, the verb too */
    const struct argp_option *option; /* the word is its value */
    const char *word;                 /* to be completed, after --option= */
    const char *lead;                 /* --option=, which candidates begin with */
    int lead_size;
};

/* A person waits at a prompt: whatever takes so long, nothing is said of it. */
static void give_up(int number)
{
    (void)number;
    _exit(0);
}

static void offer(const struct line *line, const char *before, const char *candidate)
{
    char text[DLP_NAME_MAX + 8];
    snprintf(text, sizeof(text), "%s%s", before, candidate);
    if (strncmp(text, line->word, strlen(line->word)) == 0)
        fprintf(line->ctl.out, "%.*s%s\n", line->lead_size, line->lead, text);
}

/* Names come from the daemon, and go to a command line. */
static void offer_name(const struct line *line, const char *name)
{
    if (dlp_name_valid(name) && *name != '-')
        offer(line, "", name);
}

static void offer_feeds(const struct line *line)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__FeedsRequest request = DLP__FEEDS_REQUEST__INIT;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_FEEDS_REQUEST;
    env.feeds_request = &request;
    if (ctl_ask_once(&line->ctl, "dataloadctl __complete", &env, DLP__ENVELOPE__BODY_FEEDS_REPLY,
                     CTL_DEADLINE_MS, &reply))
        return;
    const Dlp__FeedsReply *feeds = ctl_reply_body(&reply);
    for (size_t i = 0; i < feeds->n_feeds; i++)
        offer_name(line, feeds->feeds[i]->name);
    ctl_reply_free(&reply);
}

static bool seen_before(const Dlp__StatusReply *status, size_t client)
{
    for (size_t i = 0; i < client; i++)
        if (strcmp(status->clients[i]->job, status->clients[client]->job) == 0)
            return true;
    return false;
}

static void offer_jobs(const struct line *line)
{
    struct ctl_link link;
    struct ctl_reply reply;
    if (ctl_link_open(&line->ctl, "dataloadctl __complete", &link))
        return;
    if (ctl_status_ask(&link, &reply) == CTL_OK) {
        const Dlp__StatusReply *status = ctl_reply_body(&reply);
        for (size_t i = 0; i < status->n_clients; i++)
            if (!seen_before(status, i))
                offer_name(line, status->clients[i]->job);
        ctl_reply_free(&reply);
    }
    ctl_link_close(&link);
}

static void offer_gpus(const struct line *line)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__GpuRequest request = DLP__GPU_REQUEST__INIT;
    struct ctl_reply reply;
    env.body_case = DLP__ENVELOPE__BODY_GPU_REQUEST;
    env.gpu_request = &request;
    if (ctl_ask_once(&line->ctl, "dataloadctl __complete", &env, DLP__ENVELOPE__BODY_GPU_REPLY,
                     CTL_DEADLINE_MS, &reply))
        return;
    const Dlp__GpuReply *gpus = ctl_reply_body(&reply);
    for (size_t i = 0; i < gpus->n_gpus; i++)
        offer_name(line, gpus->gpus[i]->uuid);
    ctl_reply_free(&reply);
}

static void offer_files(const struct line *line)
{
    fputs("@file\n", line->ctl.out);
}

static void offer_directories(const struct line *line)
{
    fputs("@directory\n", line->ctl.out);
}

/* By the name that --help has for an argument. */
static void offer_values(const struct line *line, const char *argument)
{
    static const struct {
        const char *argument;
        void (*offer)(const struct line *line);
    } kinds[] = {{"FEED", offer_feeds}, {"JOB", offer_jobs},   {"UUID", offer_gpus},
                 {"FILE", offer_files}, {"PATH", offer_files}, {"DIR", offer_directories}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(kinds[i].argument, argument) == 0)
            kinds[i].offer(line);
}

static bool belongs(const struct argp_option *option, const struct verb *verb)
{
    bool common = option->group == 0;
    for (size_t i = 0; verb && !common && i < sizeof(verb->options) / sizeof(int); i++)
        common = verb->options[i] == option->key;
    return common || !verb;
}

static void offer_options(const struct line *line)
{
    static const char *const of_argp[] = {"help", "usage", "version"};
    for (const struct argp_option *option = line->grammar->options; option->name; option++)
        if (belongs(option, line->verb))
            offer(line, "--", option->name);
    for (size_t i = 0; i < sizeof(of_argp) / sizeof(*of_argp); i++)
        offer(line, "--", of_argp[i]);
}

static void offer_arguments(const struct line *line)
{
    const struct ctl_grammar *grammar = line->grammar;
    for (size_t i = 0; line->arguments == 0 && i < grammar->nverbs; i++)
        offer(line, "", grammar->verbs[i].name);
    if (line->verb && line->arguments == 1 && line->verb->feed != NO_FEED)
        offer_values(line, line->verb->feed == NAMES_JOB ? "JOB" : "FEED");
}

/* The option of --name, --name=value, -n or -nvalue, if it has a value; *value: that, or NULL. */
static const struct argp_option *option_of(const struct ctl_grammar *grammar, const char *word,
                                           const char **value)
{
    bool named = word[1] == '-';
    size_t size = named ? strcspn(word + 2, "=") : 0;
    const char *rest = named ? word + 2 + size + (word[2 + size] == '=') : word + 2;
    *value = *rest || rest[-1] == '=' ? rest : NULL;
    for (const struct argp_option *option = grammar->options; option->name; option++) {
        bool same = named ? strncmp(option->name, word + 2, size) == 0 && !option->name[size]
                          : option->key == word[1];
        if (same)
            return option->arg ? option : NULL;
    }
    return NULL;
}

static void take_value(struct line *line, const struct argp_option *option, const char *value)
{
    if (strcmp(option->name, "socket") == 0)
        line->ctl.socket = value;
    line->option = NULL;
}

static void take_option(struct line *line, const char *word)
{
    const char *value;
    const struct argp_option *option = option_of(line->grammar, word, &value);
    if (option && value)
        take_value(line, option, value);
    else if (option && !(option->flags & OPTION_ARG_OPTIONAL))
        line->option = option;
}

/* A word before the one to be completed. */
static void take(struct line *line, const char *word)
{
    const struct ctl_grammar *grammar = line->grammar;
    if (line->option) {
        take_value(line, line->option, word);
        return;
    }
    if (word[0] == '-' && word[1]) {
        take_option(line, word);
        return;
    }
    for (size_t i = 0; line->arguments == 0 && i < grammar->nverbs; i++)
        if (strcmp(grammar->verbs[i].name, word) == 0)
            line->verb = &grammar->verbs[i];
    line->arguments++;
}

static void complete(struct line *line, const char *word)
{
    const char *value = NULL;
    line->word = line->lead = word;
    if (!line->option && strncmp(word, "--", 2) == 0 && strchr(word, '=')) {
        line->option = option_of(line->grammar, word, &value);
        if (!line->option)
            return;
        line->word = value;
        line->lead_size = (int)(value - word);
    }
    if (line->option)
        offer_values(line, line->option->arg);
    else if (*word == '-')
        offer_options(line);
    else
        offer_arguments(line);
}

void ctl_complete(const struct ctl_grammar *grammar, char **words, int nwords)
{
    struct itimerval patience = {.it_value = {.tv_usec = PATIENCE_US}};
    struct line line = {.grammar = grammar,
                        .ctl = {.out = stdout, .err = fopen("/dev/null", "we")}};
    signal(SIGALRM, give_up);
    setitimer(ITIMER_REAL, &patience, NULL);
    for (int i = 0; line.ctl.err && i + 1 < nwords; i++)
        take(&line, words[i]);
    if (line.ctl.err && nwords > 0)
        complete(&line, words[nwords - 1]);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    exit(0);
}
