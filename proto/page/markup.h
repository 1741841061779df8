/* Words of HTML and SVG from figures that peers have sent. Pure; any thread. */
#ifndef DLP_MARKUP_H
#define DLP_MARKUP_H

#include <jansson.h>
#include <stdio.h>

/* The text such that it is nothing but text, in content and in quoted attributes; NULL is none. */
void markup_text(FILE *out, const char *text);
void markup_format(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* <tag class="kind">text</tag>; kind may be NULL. */
void markup_element(FILE *out, const char *tag, const char *kind, const char *text);

/* A name and its value in a <dl>; none where the value is empty. */
void markup_fact(FILE *out, const char *name, const char *value);

/* Of an object; what is not there is 0 or "". */
double markup_number(const json_t *object, const char *key);
const char *markup_string(const json_t *object, const char *key);

/* With thousands apart; what is not finite is 0. */
#define MARKUP_FIGURE 48
const char *markup_count(double number, char text[MARKUP_FIGURE]);    /* "1,234,567" */
const char *markup_rate(double number, char text[MARKUP_FIGURE]);     /* "1,234/s", "2.5/s" */
const char *markup_bytes(double bytes, char text[MARKUP_FIGURE]);     /* "3.2 GB", powers of ten */
const char *markup_seconds(double seconds, char text[MARKUP_FIGURE]); /* "4.2 ms", "3 h 12 min" */

#endif
