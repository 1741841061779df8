/* One line stays one line, whatever a peer put into a name: control characters become \xNN. Pure.
 */
#ifndef ESCAPE_H
#define ESCAPE_H

#include <stddef.h>

/* Returns the length of what was written to line; what finds no room is left out. No NUL is added.
 */
size_t escape_line(char *line, size_t size, const char *text);

#endif
