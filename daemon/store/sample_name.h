/* Names of members by WebDataset's rule: "dir/key.suffix", cut at the first dot after the last
 * slash. Pure. */
#ifndef SAMPLE_NAME_H
#define SAMPLE_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Key = the first key_length bytes of name; suffix = what follows the dot after them, as it is
 * (may be empty, may hold dots). false: no sample by this rule (no dot, or one in front). The rule
 * is that of the regular expression ^((?:.*\/|)[^.]+)[.]([^/]*)$, with its backtracking:
 * "a/.b" is key "a/" and suffix "b". */
bool sample_name_split(const char *name, size_t *key_length, const char **suffix);
/* Members that are never samples: a first component "__...__", AppleDouble "._*", ".DS_Store". */
bool sample_name_is_skipped(const char *name);

#endif
