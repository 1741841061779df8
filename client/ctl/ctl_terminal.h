/* A terminal in the hands of one page, by ncurses: the keyboard, the size, the drawing. One of a
 * process; one thread. */
#ifndef CTL_TERMINAL_H
#define CTL_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "client/ctl/ctl_screen.h"

/* Colours unless NO_COLOR is set or the terminal has none; UTF-8 by the locale. False, and why. */
bool terminal_open(char *why, size_t size);
void terminal_close(void); /* as it was before */
void terminal_size(struct screen *screen);
void terminal_draw(const struct screen *screen);
/* A character or enum top_key; -1: none waits. A resize is a key of no meaning. */
int terminal_key(void);

#endif
