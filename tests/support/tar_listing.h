/* Listing archives made by tar_maker, and looking at the index at one glance. Fails the running
 * test when the listing does. */
#ifndef TAR_LISTING_H
#define TAR_LISTING_H

#include "store/format.h"
#include "tar_maker.h"

struct index *tar_list_fd(int fd);
struct index *tar_list(struct tarm *tar); /* frees the archive */
/* "key:suffix+suffix key:..." of all records; valid until the next call. */
const char *tar_text(const struct index *index);
/* The only fault of that class; NULL: there is none or more than one. */
const struct index_fault *tar_fault(const struct index *index, enum bad_class cls);
unsigned tar_faults(const struct index *index); /* without notes */
/* Fails unless the only fault of that class says the word. */
void tar_says(const struct index *index, enum bad_class cls, const char *word);

/* Adds samples from..to-1: 000.jpg of 700 bytes, 000.cls of 1; 2560 bytes of archive each. */
void tar_samples(struct tarm *tar, int from, int to);
struct tarm *tar_good(int count); /* with end marker */

#endif
