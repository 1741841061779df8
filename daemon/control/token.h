/* Resume tokens: a place of an order, as a small JSON text that a trainer keeps with its own
 * checkpoint. Trainers do not look into it; the daemon prints and reads it. Pure. */
#ifndef TOKEN_H
#define TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/refusal.h"
#include "feed/spec.h"
#include "proto/limits.h"

#define TOKEN_SCHEMA 1
#define TOKEN_FINGERPRINT_MAX 64

struct token {
    uint64_t order_version;
    char fingerprint[TOKEN_FINGERPRINT_MAX + 1];
    uint64_t seed, epoch, next; /* next: a position of the epoch's order, docs/order.md */
    uint64_t shuffle, lanes;
    char tail[16];
    char plan_id[17];   /* informative, and what follows; "" = not said */
    char transform[17]; /* digest */
};

/* Of this order, at its very beginning. */
void token_make(struct token *token, const struct feed_spec *spec, const char *fingerprint,
                uint64_t seed);
/* Returns text. */
char *token_print(const struct token *token, char text[DLP_TOKEN_MAX]);
/* The same with '#' in place of the epoch's and next's numbers. */
char *token_template(const struct token *token, char text[DLP_TOKEN_MAX]);
/* Reads a flat JSON object of whole numbers and texts in any order; members that it does not know
 * are passed over. 0, or RESUME with what is wrong. */
int token_parse(const char *text, struct token *token, struct refusal *refusal);
/* 0 where the token is a place of the order `ours`, of so many records; else RESUME, with both
 * values. */
int token_compare(const struct token *token, const struct token *ours, uint64_t records,
                  const char *feed, struct refusal *refusal);

#endif
