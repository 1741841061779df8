/* The resume token of any place of a feed's order, for whoever wants to begin there. Loop thread.
 */
#ifndef TOKEN_REPLY_H
#define TOKEN_REPLY_H

#include <stdint.h>

#include "control/session.h"

/* Answers with TokenReply once the data set is open, or with an error. */
void token_reply_begin(struct session *session, uint64_t id, const Dlp__TokenRequest *message);

#endif
