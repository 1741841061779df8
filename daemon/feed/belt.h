/* The batches of one feed on their way, in step order: the reader puts them on, workers complete
 * them in any order, the loop thread takes the first one off once it has landed. At most one a
 * slot, and one that the reader gathers. */
#ifndef BELT_H
#define BELT_H

#include "feed/batch.h"

struct belt;

/* news is called (any thread, no lock held) when a batch has landed. */
struct belt *belt_new(const struct recipe *recipe, uint32_t slots, struct feed_place first,
                      void (*news)(void *context), void *context);
void belt_free(struct belt *belt); /* with all batches; no worker is at one by then */

/* The round of the order that is being filled; belt_void begins another. */
uint64_t belt_round(struct belt *belt);
/* Loop thread: all batches on the belt are void, and none of the present round comes any more, but
 * those from this place on. Returns their number. */
uint32_t belt_void(struct belt *belt, struct feed_place next);
/* Loop thread: batches go to these ports from now on; the first to do so is returned, and its step
 * may lie past the end of its epoch. Before any call it is port 0. */
struct feed_place belt_set_ports(struct belt *belt, uint32_t ports);

struct batch *belt_get(struct belt *belt); /* reader: an empty one */
/* Reader, before its rows are pushed. False: the round is over, the batch is still the caller's. */
bool belt_append(struct belt *belt, struct batch *batch, uint64_t round);
/* Worker of the last row. With a ferry the batch goes on board, else it has landed. */
void belt_complete(struct belt *belt, struct batch *batch);
void belt_landed(struct belt *belt, struct batch *batch); /* it is where the client will read it */
struct batch *belt_take(struct belt *belt); /* loop: the first one if it has landed, else NULL */
void belt_put(struct belt *belt, struct batch *batch); /* back, after use */

#endif
