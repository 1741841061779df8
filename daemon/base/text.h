/* A text that grows up to a limit. What finds no room is left out, and so is all that would follow;
 * `cut` says so. Owner: whoever has it; one thread at a time. Zeroed but for `most` it is empty. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes; /* ends with a NUL; NULL while empty */
    size_t size, room;
    size_t most; /* bytes that it may come to */
    bool cut;    /* something was left out */
};

void text_add(struct text *text, const char *more);
void text_add_number(struct text *text, uint64_t number);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *text); /* and it is empty again */

#endif
