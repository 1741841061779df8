/* A sample set of photo-like JPEGs, for trying things out without data of one's own. */
#ifndef SAMPLE_SET_H
#define SAMPLE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct sample_set_options {
    const char *target;
    uint32_t images;
    uint32_t classes;
    uint64_t seed;
    bool folder; /* TARGET/class/picture.jpg instead of tar shards */
};

/* The same options give the same files. A run that fails or is stopped leaves none. -EEXIST where
 * the directory of a class is there already. Main thread. */
int sample_set_make(const struct sample_set_options *options, struct error *err);

#endif
