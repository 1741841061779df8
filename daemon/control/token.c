#include "control/token.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/plural.h"
#include "store/plan.h"

/* A hash of all that decides what becomes of a picture. */
static void digest_transform(const struct transform *transform, char out[17])
{
    char words[2048];
    transform_words(transform, words, sizeof words);
    cleanup_free char *text =
        mem_format("%s; exif %d output %d mean %a %a %a std %a %a %a", words, transform->exif,
                   (int)transform->pixels, (double)transform->mean[0], (double)transform->mean[1],
                   (double)transform->mean[2], (double)transform->std[0], (double)transform->std[1],
                   (double)transform->std[2]);
    snprintf(out, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
}

void token_make(struct token *token, const struct feed_spec *spec, const char *fingerprint,
                uint64_t seed)
{
    struct plan_settings settings = {.seed = seed, .shuffle = spec->shuffle, .lanes = spec->lanes};
    *token = (struct token){.order_version = PLAN_ORDER_VERSION,
                            .seed = seed,
                            .shuffle = spec->shuffle,
                            .lanes = spec->lanes};
    snprintf(token->fingerprint, sizeof token->fingerprint, "%s", fingerprint);
    snprintf(token->tail, sizeof token->tail, "%s", tail_name(spec->tail));
    plan_id(fingerprint, &settings, token->tail, token->plan_id);
    digest_transform(&spec->transform, token->transform);
}

static char *print(const struct token *token, const char *epoch, const char *next,
                   char text[DLP_TOKEN_MAX])
{
    snprintf(text, DLP_TOKEN_MAX,
             "{\"schema\":%d,\"order_version\":%" PRIu64 ",\"fingerprint\":\"%s\",\"seed\":%" PRIu64
             ",\"epoch\":%s,\"next\":%s,\"shuffle\":%" PRIu64 ",\"lanes\":%" PRIu64
             ",\"tail\":\"%s\",\"plan_id\":\"%s\",\"transform\":\"%s\"}",
             TOKEN_SCHEMA, token->order_version, token->fingerprint, token->seed, epoch, next,
             token->shuffle, token->lanes, token->tail, token->plan_id, token->transform);
    return text;
}

char *token_print(const struct token *token, char text[DLP_TOKEN_MAX])
{
    char epoch[24], next[24];
    snprintf(epoch, sizeof epoch, "%" PRIu64, token->epoch);
    snprintf(next, sizeof next, "%" PRIu64, token->next);
    return print(token, epoch, next, text);
}

char *token_template(const struct token *token, char text[DLP_TOKEN_MAX])
{
    return print(token, "#", "#", text);
}

/* What is left to read. */
struct scan {
    const char *at;
    struct refusal *refusal;
};

static int damaged(const struct scan *scan, const char *what)
{
    return refuse(scan->refusal, DLP_ERROR_RESUME,
                  "the resume token is damaged: %s; give the text as it was handed out", what);
}

static void skip_space(struct scan *scan)
{
    scan->at += strspn(scan->at, " \t\r\n");
}

static bool skip_mark(struct scan *scan, char mark)
{
    skip_space(scan);
    if (*scan->at != mark)
        return false;
    scan->at++;
    return true;
}

/* A text in quotes without escapes: none of ours needs any. */
static int read_text(struct scan *scan, char *out, size_t size)
{
    if (!skip_mark(scan, '"'))
        return damaged(scan, "a text in quotes is missing");
    size_t length = strcspn(scan->at, "\"\\");
    if (scan->at[length] != '"' || length >= size)
        return damaged(scan, "a text does not end or is too long");
    memcpy(out, scan->at, length);
    out[length] = '\0';
    scan->at += length + 1;
    return 0;
}

static int read_number(struct scan *scan, uint64_t *out)
{
    size_t length = strspn(scan->at, "0123456789");
    *out = 0;
    for (size_t i = 0; i < length; i++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, scan->at[i] - '0', out))
            return damaged(scan, "a number does not fit into 64 bits");
    scan->at += length;
    return length ? 0 : damaged(scan, "a whole number or a text in quotes is missing");
}

struct member {
    const char *name;
    uint64_t *number; /* else a text */
    char *text;
    size_t size;
    bool needed;
};

static int read_value(struct scan *scan, const struct member *member)
{
    char text[256];
    uint64_t number;
    skip_space(scan);
    bool quoted = *scan->at == '"';
    if (member && quoted != !member->number) {
        snprintf(text, sizeof text, "\"%s\" is of another kind", member->name);
        return damaged(scan, text);
    }
    if (!quoted)
        return read_number(scan, member ? member->number : &number);
    return member ? read_text(scan, member->text, member->size)
                  : read_text(scan, text, sizeof text);
}

static int read_member(struct scan *scan, const struct member *members, size_t count,
                       unsigned *seen)
{
    char name[64], text[128];
    int code = read_text(scan, name, sizeof name);
    if (code)
        return code;
    if (!skip_mark(scan, ':'))
        return damaged(scan, "a ':' is missing");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, name) != 0)
            continue;
        if (*seen & 1U << i) {
            snprintf(text, sizeof text, "\"%s\" is there twice", members[i].name);
            return damaged(scan, text);
        }
        *seen |= 1U << i;
        return read_value(scan, &members[i]);
    }
    return read_value(scan, NULL);
}

static int read_object(struct scan *scan, const struct member *members, size_t count)
{
    unsigned seen = 0;
    char text[128];
    if (!skip_mark(scan, '{'))
        return damaged(scan, "it does not begin with '{'");
    do {
        int code = read_member(scan, members, count, &seen);
        if (code)
            return code;
    } while (skip_mark(scan, ','));
    if (!skip_mark(scan, '}'))
        return damaged(scan, "it does not end with '}'");
    skip_space(scan);
    if (*scan->at)
        return damaged(scan, "there is more after its '}'");
    for (size_t i = 0; i < count; i++) {
        if (!members[i].needed || seen & 1U << i)
            continue;
        snprintf(text, sizeof text, "\"%s\" is missing", members[i].name);
        return damaged(scan, text);
    }
    return 0;
}

int token_parse(const char *text, struct token *token, struct refusal *refusal)
{
    uint64_t schema = 0;
    const struct member members[] = {
        {"schema", &schema, NULL, 0, true},
        {"order_version", &token->order_version, NULL, 0, true},
        {"fingerprint", NULL, token->fingerprint, sizeof token->fingerprint, true},
        {"seed", &token->seed, NULL, 0, true},
        {"epoch", &token->epoch, NULL, 0, true},
        {"next", &token->next, NULL, 0, true},
        {"shuffle", &token->shuffle, NULL, 0, true},
        {"lanes", &token->lanes, NULL, 0, true},
        {"tail", NULL, token->tail, sizeof token->tail, true},
        {"plan_id", NULL, token->plan_id, sizeof token->plan_id, false},
        {"transform", NULL, token->transform, sizeof token->transform, false},
    };
    struct scan scan = {text, refusal};
    *token = (struct token){0};
    int code = read_object(&scan, members, sizeof members / sizeof members[0]);
    if (code)
        return code;
    if (schema != TOKEN_SCHEMA)
        return refuse(refusal, DLP_ERROR_RESUME,
                      "the resume token has schema %" PRIu64
                      ", this daemon reads schema %d: use the release that made it, or a newer one",
                      schema, TOKEN_SCHEMA);
    if (token->epoch > DLP_EPOCH_MAX)
        return damaged(&scan, "\"epoch\" is over 16777215, the last one");
    return 0;
}

static int differs(const char *what, const char *theirs, const char *ours, const char *feed,
                   const char *advice, struct refusal *refusal)
{
    return refuse(refusal, DLP_ERROR_RESUME,
                  "the resume token is of %s %s, feed %s has %s: its place is no place of this "
                  "order; %s",
                  what, theirs, feed, ours, advice);
}

static int compare_number(const char *what, uint64_t theirs, uint64_t ours, const char *feed,
                          struct refusal *refusal)
{
    char first[24], second[24];
    if (theirs == ours)
        return 0;
    snprintf(first, sizeof first, "%" PRIu64, theirs);
    snprintf(second, sizeof second, "%" PRIu64, ours);
    return differs(what, first, second, feed, "set it back, or start without the token", refusal);
}

int token_compare(const struct token *token, const struct token *ours, uint64_t records,
                  const char *feed, struct refusal *refusal)
{
    int code =
        compare_number("order_version", token->order_version, ours->order_version, feed, refusal);
    if (!code && strcmp(token->fingerprint, ours->fingerprint) != 0)
        code = differs("data set", token->fingerprint, ours->fingerprint, feed,
                       "give it the same records, or start without the token", refusal);
    if (!code)
        code = compare_number("seed", token->seed, ours->seed, feed, refusal);
    if (!code)
        code = compare_number("shuffle", token->shuffle, ours->shuffle, feed, refusal);
    if (!code)
        code = compare_number("lanes", token->lanes, ours->lanes, feed, refusal);
    if (!code && strcmp(token->tail, ours->tail) != 0)
        code = differs("tail", token->tail, ours->tail, feed,
                       "set it back, or start without the token", refusal);
    if (!code && token->next > records)
        code = refuse(refusal, DLP_ERROR_RESUME,
                      "the resume token says record %" PRIu64 " of an epoch, feed %s has %" PRIu64
                      " record%s",
                      token->next, feed, records, plural(records));
    return code;
}
