#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 4096
#define DIGITS_MAX 20

/* Where `size` further bytes and a NUL go; NULL: nowhere. */
static char *make_room(struct text *text, size_t size)
{
    if (text->cut || size > text->most - text->size) {
        text->cut = true;
        return NULL;
    }
    if (text->size + size >= text->room) {
        size_t room = 2 * (text->size + size) + ROOM_MIN;
        char *bytes = realloc(text->bytes, room);
        text->cut = !bytes;
        if (!bytes)
            return NULL;
        text->bytes = bytes;
        text->room = room;
    }
    return text->bytes + text->size;
}

static void add_bytes(struct text *text, const char *bytes, size_t size)
{
    char *at = make_room(text, size);
    if (!at)
        return;
    memcpy(at, bytes, size);
    at[size] = '\0';
    text->size += size;
}

void text_add(struct text *text, const char *more)
{
    add_bytes(text, more, strlen(more));
}

void text_add_number(struct text *text, uint64_t number)
{
    char digits[DIGITS_MAX], *end = digits + sizeof digits, *at = end;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    add_bytes(text, at, (size_t)(end - at));
}

void text_format(struct text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    char *at = size < 0 ? NULL : make_room(text, (size_t)size);
    if (at) {
        vsnprintf(at, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
    va_end(args);
}

void text_free(struct text *text)
{
    free(text->bytes);
    *text = (struct text){.most = text->most};
}
