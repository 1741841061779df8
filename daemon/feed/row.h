/* The work on one row, on a worker thread: decode, read the number, copy the bytes into the row's
 * place of the slot. */
#ifndef ROW_H
#define ROW_H

#include "feed/batch.h"
#include "image/decoder.h"

/* A row without a sample belongs to a void batch, and nothing is done. False: decoding it takes
 * memory that another has now, it is to be run again. */
bool row_run(struct row *row, struct decoder *decoder);
/* Of rows of one feed that were run, in step order: frees their samples, and finishes the batches
 * of which they were the last. */
void row_done(void **rows, uint32_t count);
/* Of a feed that ends: the row is not done. */
void row_drop(struct row *row);

#endif
