#include "feed/label.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define SHOWN 40 /* characters of a text in a reason */

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static enum bad_class refuse(const uint8_t *text, size_t size, const char *why,
                             char reason[LABEL_REASON_MAX])
{
    char shown[SHOWN + 1];
    size_t n = size < SHOWN ? size : SHOWN;
    for (size_t i = 0; i < n; i++)
        shown[i] = (char)(text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?');
    shown[n] = 0;
    snprintf(reason, LABEL_REASON_MAX, "\"%s\"%s %s", shown, size > n ? "..." : "", why);
    return BAD_LABEL;
}

/* Digits of one sign, so that the least int64 is read too. */
static bool add_digit(int64_t *value, uint8_t c, bool negative)
{
    int digit = c - '0';
    return !__builtin_mul_overflow(*value, 10, value) &&
           !__builtin_add_overflow(*value, negative ? -digit : digit, value);
}

enum bad_class label_text(const uint8_t *text, size_t size, int64_t *out,
                          char reason[LABEL_REASON_MAX])
{
    size_t at = 0;
    size_t end = size;
    while (at < end && is_space(text[at]))
        at++;
    while (end > at && is_space(text[end - 1]))
        end--;
    bool negative = at < end && text[at] == '-';
    if (at < end && (text[at] == '-' || text[at] == '+'))
        at++;
    int64_t value = 0;
    if (at == end)
        return refuse(text, size, "is no integer", reason);
    for (; at < end; at++) {
        if (text[at] < '0' || text[at] > '9')
            return refuse(text, size, "is no integer", reason);
        if (!add_digit(&value, text[at], negative))
            return refuse(text, size, "does not fit into 64 bits", reason);
    }
    *out = value;
    return BAD_NONE;
}

/* jansson descends by recursion: the depth is looked at before. */
static bool json_too_deep(const uint8_t *text, size_t size)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && (text[i] == '[' || text[i] == '{') && ++depth > LABEL_JSON_DEPTH)
            return true;
        else if (!quoted && (text[i] == ']' || text[i] == '}'))
            depth--;
    }
    return false;
}

static enum bad_class json_number(const json_t *top, const char *key, int64_t *out,
                                  char reason[LABEL_REASON_MAX])
{
    const json_t *member = json_object_get(top, key);
    if (json_is_integer(member)) {
        *out = json_integer_value(member);
        return BAD_NONE;
    }
    snprintf(reason, LABEL_REASON_MAX, "%s \"%.64s\" in the json",
             member ? "no integer is" : "no member", key);
    return BAD_LABEL;
}

enum bad_class label_json(const uint8_t *text, size_t size, const char *key, int64_t *out,
                          char reason[LABEL_REASON_MAX])
{
    if (size > LABEL_JSON_MAX || json_too_deep(text, size)) {
        snprintf(reason, LABEL_REASON_MAX, "json of %zu bytes is too large or too deep (%u, %d)",
                 size, LABEL_JSON_MAX, LABEL_JSON_DEPTH);
        return BAD_LABEL;
    }
    json_error_t error;
    json_t *top = json_loadb((const char *)text, size, JSON_REJECT_DUPLICATES, &error);
    enum bad_class bad = BAD_LABEL;
    if (top)
        bad = json_number(top, key, out, reason);
    else
        snprintf(reason, LABEL_REASON_MAX, "no json: %.100s (line %d)", error.text, error.line);
    json_decref(top);
    return bad;
}

enum bad_class label_of(const struct field_spec *field, const struct sample_part *part,
                        int64_t *out, char reason[LABEL_REASON_MAX])
{
    enum bad_class bad = BAD_NONE;
    if (part->value)
        *out = (int64_t)part->offset;
    else if (field->json_key)
        bad = label_json(part->bytes, part->size, field->json_key, out, reason);
    else
        bad = label_text(part->bytes, part->size, out, reason);
    if (bad || field->classes == 0 || (*out >= 0 && *out < field->classes))
        return bad;
    snprintf(reason, LABEL_REASON_MAX, "%" PRId64 " is not in 0 .. %" PRId64, *out,
             field->classes - 1);
    return BAD_LABEL;
}
