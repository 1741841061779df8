/* A client that may have memory of a GPU mapped by a handle: it must not be freed before the client
 * has said that it maps nothing any more, or its process has ended. References are counted. Any
 * thread. */
#ifndef BORROWER_H
#define BORROWER_H

#include <stdbool.h>

struct borrower;

/* pidfd of its process (borrowed). Where it cannot be kept only the client's word counts. */
struct borrower *borrower_new(int pidfd);
struct borrower *borrower_ref(struct borrower *borrower);
void borrower_unref(struct borrower *borrower); /* NULL is fine */
/* It has said that it maps nothing any more. */
void borrower_done(struct borrower *borrower);
/* It maps nothing any more. */
bool borrower_over(const struct borrower *borrower);

#endif
