/* The ending of a counted noun: "%u feed%s", n, plural(n). */
#ifndef PLURAL_H
#define PLURAL_H

#include <stdint.h>

static inline const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

#endif
