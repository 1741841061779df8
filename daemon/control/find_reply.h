/* The steps in which a record is seen, for dataloadctl find. Loop thread. */
#ifndef FIND_REPLY_H
#define FIND_REPLY_H

#include <stdint.h>

#include "control/session.h"

#define FIND_EPOCHS_MAX 1000U
#define FIND_RECORDS_MAX 256U     /* of one key: the first ones */
#define FIND_SIGHTINGS_MAX 65536U /* likewise */

/* Answers later with FindReply in parts, or with an error. */
void find_reply_begin(struct session *session, uint64_t id, const Dlp__FindRequest *message);

#endif
