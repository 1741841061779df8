#include "base/escape.h"

#define ESCAPED 4 /* characters */

size_t escape_line(char *line, size_t size, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    size_t length = 0;
    for (const char *c = text; *c && length + ESCAPED <= size; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte >= 0x20 && byte != 0x7f) {
            line[length++] = *c;
            continue;
        }
        line[length++] = '\\';
        line[length++] = 'x';
        line[length++] = digits[byte >> 4];
        line[length++] = digits[byte & 15];
    }
    return length;
}
