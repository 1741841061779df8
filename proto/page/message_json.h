/* Messages as JSON. Keys are the field names of proto/dataload.proto, with times in seconds ("_ns"
 * becomes "_s"); sizes are bytes, shares 0..1. docs/dataloadctl.1 lists them. Pure; any thread. */
#ifndef DLP_MESSAGE_JSON_H
#define DLP_MESSAGE_JSON_H

#include <jansson.h>

#include "dataload.pb-c.h"

#define MESSAGE_JSON_SCHEMA 1 /* "schema_version" */

/* All fields of a message without "more"; lists of texts and of messages. NULL without memory. */
json_t *message_json(const ProtobufCMessage *message);
/* Text that is no UTF-8 is escaped, a number that is not finite is 0. */
json_t *message_json_text(const char *text);
json_t *message_json_number(double number);

#endif
