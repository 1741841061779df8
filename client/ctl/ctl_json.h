/* Replies as JSON. Keys are the field names of proto/dataload.proto, with times in seconds ("_ns"
 * becomes "_s"); sizes are bytes, shares 0..1. docs/dataloadctl.1 lists them. */
#ifndef CTL_JSON_H
#define CTL_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dataload.pb-c.h"

/* All fields of a message without "more"; lists of texts and of messages. */
json_t *ctl_json_message(const ProtobufCMessage *message);
/* Never NULL: text that is no UTF-8 is escaped, a number that is not finite is 0. */
json_t *ctl_json_text(const char *text);
json_t *ctl_json_number(double number);
/* Adds schema_version, prints in one line, or indented where pretty, and frees the object. */
void ctl_json_print(FILE *out, json_t *object, bool pretty);

#endif
