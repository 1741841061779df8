#include "proto/page/markup.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *entity(unsigned char byte)
{
    switch (byte) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return byte < ' ' || byte == 0x7f ? "&#xfffd;" : NULL;
    }
}

void markup_text(FILE *out, const char *text)
{
    while (text && *text) {
        const char *instead = entity((unsigned char)*text);
        size_t plain = 0;
        while (text[plain] && !entity((unsigned char)text[plain]))
            plain++;
        fwrite(text, 1, plain, out);
        fputs(instead ? instead : "", out);
        text += instead ? 1 : plain;
    }
}

void markup_format(FILE *out, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) >= 0)
        markup_text(out, text);
    va_end(args);
    free(text);
}

void markup_element(FILE *out, const char *tag, const char *kind, const char *text)
{
    fprintf(out, kind ? "<%s class=\"%s\">" : "<%s>", tag, kind);
    markup_text(out, text);
    fprintf(out, "</%s>\n", tag);
}

void markup_fact(FILE *out, const char *name, const char *value)
{
    if (!*value)
        return;
    fputs("<div>", out);
    markup_element(out, "dt", NULL, name);
    markup_element(out, "dd", NULL, value);
    fputs("</div>\n", out);
}

double markup_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

const char *markup_string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double sound(double number)
{
    return isfinite(number) && fabs(number) < 1e18 ? number : 0;
}

const char *markup_count(double number, char text[MARKUP_FIGURE])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%.0f", fabs(sound(number)));
    char *to = text;
    if (number < 0 && length > 0)
        *to++ = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return text;
}

const char *markup_rate(double number, char text[MARKUP_FIGURE])
{
    char count[MARKUP_FIGURE];
    number = sound(number);
    if (number > 0 && number < 9.95)
        snprintf(text, MARKUP_FIGURE, "%.1f/s", number);
    else
        snprintf(text, MARKUP_FIGURE, "%s/s", markup_count(number, count));
    return text;
}

const char *markup_bytes(double bytes, char text[MARKUP_FIGURE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t unit = 0;
    for (bytes = sound(bytes); bytes >= 999.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1000;
    snprintf(text, MARKUP_FIGURE, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *markup_seconds(double seconds, char text[MARKUP_FIGURE])
{
    seconds = sound(seconds);
    long minutes = (long)(seconds / 60), hours = minutes / 60;
    if (seconds < 0.000995)
        snprintf(text, MARKUP_FIGURE, "%.0f \xc2\xb5s", seconds * 1e6);
    else if (seconds < 0.99995)
        snprintf(text, MARKUP_FIGURE, "%.1f ms", seconds * 1e3);
    else if (seconds < 60)
        snprintf(text, MARKUP_FIGURE, "%.1f s", seconds);
    else if (minutes < 60)
        snprintf(text, MARKUP_FIGURE, "%ld min %ld s", minutes, (long)seconds % 60);
    else if (hours < 48)
        snprintf(text, MARKUP_FIGURE, "%ld h %ld min", hours, minutes % 60);
    else
        snprintf(text, MARKUP_FIGURE, "%ld d %ld h", hours / 24, hours % 24);
    return text;
}
