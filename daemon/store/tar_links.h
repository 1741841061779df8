/* Where the regular members of an archive lie, by name, so that hard links can be followed to an
 * earlier member of the same archive. Built only for archives that have hard links. Owner: one
 * thread. */
#ifndef TAR_LINKS_H
#define TAR_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/tar_member.h"

struct tar_links;

/* The members of the archive before `end`; what they take counts for the builder. NULL where memory
 * is short. */
struct tar_links *tar_links_new(int fd, uint64_t end, struct index_builder *builder,
                                struct format_progress *progress);
void tar_links_free(struct tar_links *links);
/* Takes up one more; the later of two of one name counts. 0, -ENOMEM, -E2BIG. */
int tar_links_add(struct tar_links *links, const char *name, uint64_t data, uint64_t size);
bool tar_links_find(const struct tar_links *links, const char *name, uint64_t *data,
                    uint64_t *size);

#endif
