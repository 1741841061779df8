#include "client/ctl/ctl_json.h"

#include "client/ctl/ctl.h"
#include "proto/page/message_json.h"

json_t *ctl_json_message(const ProtobufCMessage *message)
{
    return ctl_must(message_json(message));
}

json_t *ctl_json_text(const char *text)
{
    return ctl_must(message_json_text(text));
}

json_t *ctl_json_number(double number)
{
    return ctl_must(message_json_number(number));
}

void ctl_json_print(FILE *out, json_t *object, bool pretty)
{
    json_object_set_new(object, "schema_version", json_integer(MESSAGE_JSON_SCHEMA));
    json_dumpf(object, out, JSON_REAL_PRECISION(10) | (pretty ? JSON_INDENT(2) : JSON_COMPACT));
    fputc('\n', out);
    json_decref(object);
}
