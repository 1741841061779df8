/* What part of the workers each stream has by weight, and of a storage that all of them read, while
 * all want more than there is: feed/share_tree.h, reckoned from the terms. Loop thread. */
#ifndef STREAM_SHARES_H
#define STREAM_SHARES_H

#include "control/census.h"

/* Sets `share` of all views that have a stream, those of one stream alike. */
void stream_shares(struct census *census);

#endif
