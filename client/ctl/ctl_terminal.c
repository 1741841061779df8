#include "client/ctl/ctl_terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

#include "client/ctl/ctl_top_view.h"

#define ESCAPE_MS 25 /* in which the rest of a key's sequence comes */

static SCREEN *terminal;
static bool utf8;
static struct {
    attr_t attributes;
    short pair; /* of colours */
} looks[SCREEN_LOOKS] = {[SCREEN_DIM] = {A_DIM},
                         [SCREEN_BOLD] = {A_BOLD},
                         [SCREEN_TITLE] = {A_REVERSE},
                         [SCREEN_BAD] = {A_BOLD}};

static void choose_colours(void)
{
    static const short colours[SCREEN_LOOKS] = {
        [SCREEN_GOOD] = COLOR_GREEN, [SCREEN_FAIR] = COLOR_YELLOW, [SCREEN_BAD] = COLOR_RED};
    const char *no_color = getenv("NO_COLOR");
    if ((no_color && *no_color) || !has_colors() || start_color() == ERR)
        return;
    use_default_colors();
    for (int look = 0; look < SCREEN_LOOKS; look++) {
        if (colours[look] && init_pair((short)look, colours[look], -1) == OK)
            looks[look].pair = (short)look;
    }
}

bool terminal_open(char *why, size_t size)
{
    const char *term = getenv("TERM");
    *why = '\0';
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        snprintf(why, size, "there is no terminal");
    else if (!term || !*term || strcmp(term, "dumb") == 0)
        snprintf(why, size, "TERM names no terminal that can be drawn on");
    if (*why)
        return false;
    setlocale(LC_CTYPE, "");
    utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal) {
        snprintf(why, size, "terminal '%s' is not known", term);
        return false;
    }
    set_escdelay(ESCAPE_MS);
    cbreak();
    noecho();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    curs_set(0);
    choose_colours();
    return true;
}

void terminal_close(void)
{
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

void terminal_size(struct screen *screen)
{
    int rows = getmaxy(stdscr), cols = getmaxx(stdscr);
    screen_size(screen, rows > 0 ? rows : 0, cols > 0 ? cols : 0, utf8);
}

static void draw_cell(int row, int col, const struct screen_cell *cell)
{
    wchar_t text[2] = {(wchar_t)cell->glyph, 0};
    cchar_t shown;
    setcchar(&shown, text, looks[cell->look].attributes, looks[cell->look].pair, NULL);
    mvadd_wch(row, col, &shown);
}

void terminal_draw(const struct screen *screen)
{
    for (int row = 0; row < screen->rows; row++)
        for (int col = 0; col < screen->cols; col++)
            draw_cell(row, col, &screen->cells[(size_t)row * (size_t)screen->cols + (size_t)col]);
    refresh();
}

int terminal_key(void)
{
    static const struct {
        int code, key;
    } keys[] = {
        {KEY_UP, TOP_UP},       {KEY_DOWN, TOP_DOWN},     {KEY_LEFT, TOP_LEFT},
        {KEY_RIGHT, TOP_RIGHT}, {KEY_PPAGE, TOP_PAGE_UP}, {KEY_NPAGE, TOP_PAGE_DOWN},
        {KEY_HOME, TOP_HOME},   {KEY_END, TOP_END},
    };
    int code = wgetch(stdscr);
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (keys[i].code == code)
            return keys[i].key;
    return code == ERR ? -1 : code > 0xFF ? 0 : code;
}
