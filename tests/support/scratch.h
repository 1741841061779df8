/* A directory of a test's own, removed with all that is in it. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stddef.h>

/* Under $TMPDIR or /tmp; ends the process when there is none to be had. */
struct scratch {
    char path[200];
};

void scratch_make(struct scratch *scratch);
void scratch_remove(struct scratch *scratch);
/* Path of a name in it; valid until 16 further calls. */
const char *scratch_at(const struct scratch *scratch, const char *name);
/* Writes a file, and the directories on the way to it; returns its path. */
const char *scratch_file(const struct scratch *scratch, const char *name, const void *bytes,
                         size_t size);

#endif
