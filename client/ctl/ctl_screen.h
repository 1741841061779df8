/* A page of character cells, drawn without a terminal. Text that leaves the page is cut; without
 * UTF-8 what is not ASCII becomes "?". One thread. */
#ifndef CTL_SCREEN_H
#define CTL_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

enum screen_look {
    SCREEN_PLAIN,
    SCREEN_DIM,
    SCREEN_BOLD,
    SCREEN_TITLE, /* of a table */
    SCREEN_GOOD,
    SCREEN_FAIR,
    SCREEN_BAD,
    SCREEN_LOOKS
};

struct screen_cell {
    uint32_t glyph; /* of Unicode, one column wide */
    enum screen_look look;
};

struct screen {
    int rows, cols;
    bool utf8;
    struct screen_cell *cells; /* row after row */
};

/* Blank; what it held before goes. */
void screen_size(struct screen *screen, int rows, int cols, bool utf8);
void screen_free(struct screen *screen);
void screen_glyph(struct screen *screen, int row, int col, enum screen_look look, uint32_t glyph);
/* Text of the daemon too: what does not belong on a terminal is escaped. Returns the column after
 * it. */
int screen_print(struct screen *screen, int row, int col, enum screen_look look, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));
/* Breaks text between words into lines from row on, columns `left` on, at most `most` of them, the
 * last one cut. Returns how many. */
int screen_wrap(struct screen *screen, int row, int left, int most, enum screen_look look,
                const char *text);
/* How many it would take. */
int screen_lines(const struct screen *screen, int left, const char *text);

#endif
