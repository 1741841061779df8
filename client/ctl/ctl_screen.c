#include "client/ctl/ctl_screen.h"

#include <stdarg.h>
#include <string.h>
#include <wchar.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_table.h"

void screen_size(struct screen *screen, int rows, int cols, bool utf8)
{
    size_t count = (size_t)rows * (size_t)cols;
    screen_free(screen);
    *screen = (struct screen){.rows = rows, .cols = cols, .utf8 = utf8};
    screen->cells = ctl_must(malloc(count * sizeof(*screen->cells) + 1));
    for (size_t i = 0; i < count; i++)
        screen->cells[i] = (struct screen_cell){' ', SCREEN_PLAIN};
}

void screen_free(struct screen *screen)
{
    free(screen->cells);
    *screen = (struct screen){0};
}

void screen_glyph(struct screen *screen, int row, int col, enum screen_look look, uint32_t glyph)
{
    if (row < 0 || row >= screen->rows || col < 0 || col >= screen->cols)
        return;
    bool fits = glyph < 0x80 || (screen->utf8 && wcwidth((wchar_t)glyph) == 1);
    screen->cells[(size_t)row * (size_t)screen->cols + (size_t)col] =
        (struct screen_cell){fits ? glyph : '?', look};
}

/* The next character of valid UTF-8, and past it. */
static uint32_t decode(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    unsigned more = *at < 0xC0 ? 0 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2 : 3;
    uint32_t glyph = more ? *at & (0x3FU >> more) : *at;
    for (at++; more > 0 && (*at & 0xC0U) == 0x80; more--)
        glyph = glyph << 6 | (*at++ & 0x3FU);
    *text = (const char *)at;
    return glyph;
}

static int put(struct screen *screen, int row, int col, enum screen_look look, const char *text)
{
    char *safe = ctl_text_escaped(text);
    for (const char *at = safe; *at;)
        screen_glyph(screen, row, col++, look, decode(&at));
    free(safe);
    return col;
}

int screen_print(struct screen *screen, int row, int col, enum screen_look look, const char *format,
                 ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    col = put(screen, row, col, look, ctl_must(text));
    free(text);
    return col;
}

/* Bytes of text that fit into `room` characters, at a gap between words where there is one. */
static size_t line_of(const char *text, int room)
{
    size_t end = 0, gap = 0;
    for (int width = 0; text[end]; end++) {
        width += ((unsigned char)text[end] & 0xC0U) != 0x80;
        if (width > room)
            return gap ? gap : end;
        if (text[end] == ' ')
            gap = end;
    }
    return end;
}

static const char *past_gap(const char *text)
{
    return text + strspn(text, " ");
}

int screen_wrap(struct screen *screen, int row, int left, int most, enum screen_look look,
                const char *text)
{
    int lines = 0, room = screen->cols - left;
    for (text = past_gap(text); *text && room > 0 && lines < most; lines++) {
        size_t size = lines + 1 < most ? line_of(text, room) : strlen(text);
        screen_print(screen, row + lines, left, look, "%.*s", (int)size, text);
        text = past_gap(text + size);
    }
    return lines;
}

int screen_lines(const struct screen *screen, int left, const char *text)
{
    int lines = 0, room = screen->cols - left;
    for (text = past_gap(text); *text && room > 0; lines++)
        text = past_gap(text + line_of(text, room));
    return lines;
}
