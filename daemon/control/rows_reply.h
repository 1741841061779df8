/* Which records are the rows of a batch, from the plan alone, for dataloadctl batch. Loop thread.
 */
#ifndef ROWS_REPLY_H
#define ROWS_REPLY_H

#include <stdint.h>

#include "control/session.h"

#define ROWS_REPLY_MAX (1U << 20) /* rows of one answer */

/* Answers later with RowsReply in parts, or with an error. */
void rows_reply_begin(struct session *session, uint64_t id, const Dlp__RowsRequest *message);

#endif
