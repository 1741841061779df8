#include "proto/page/message_json.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frames.h"

#define KEY_MAX 64

json_t *message_json_text(const char *text)
{
    json_t *value = json_string(text);
    size_t room = strlen(text) * 4 + 1; /* \xNN for each byte */
    char *valid = value ? NULL : malloc(room);
    if (valid)
        value = json_string(dlp_printable(text, valid, room));
    free(valid);
    return value;
}

json_t *message_json_number(double number)
{
    return json_real(isfinite(number) ? number : 0);
}

/* Counts of the protocol are u64; those over 2^63 are not to be met, but must not turn negative. */
static json_t *whole(uint64_t number)
{
    return json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number);
}

/* Writes the key of a field; returns the factor of its value: nanoseconds become seconds. */
static double key_of(const ProtobufCFieldDescriptor *field, char key[KEY_MAX])
{
    size_t length = strlen(field->name);
    bool nanoseconds = length > 3 && strcmp(field->name + length - 3, "_ns") == 0;
    if (nanoseconds)
        snprintf(key, KEY_MAX, "%.*s_s", (int)(length - 3), field->name);
    else
        snprintf(key, KEY_MAX, "%s", strcmp(field->name, "cls") == 0 ? "class" : field->name);
    return nanoseconds ? 1e-9 : 1;
}

static json_t *value_of(const ProtobufCFieldDescriptor *field, const void *member, double scale)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: {
        uint64_t number = *(const uint64_t *)member;
        return scale < 1 ? message_json_number((double)number * scale) : whole(number);
    }
    case PROTOBUF_C_TYPE_UINT32:
        return whole(*(const uint32_t *)member);
    case PROTOBUF_C_TYPE_INT32:
        return json_integer(*(const int32_t *)member);
    case PROTOBUF_C_TYPE_INT64:
        return json_integer(*(const int64_t *)member);
    case PROTOBUF_C_TYPE_DOUBLE:
        return message_json_number(*(const double *)member);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)member);
    case PROTOBUF_C_TYPE_STRING:
        return message_json_text(*(char *const *)member);
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *inner = *(ProtobufCMessage *const *)member;
        return inner ? message_json(inner) : json_null();
    }
    default:
        return json_null();
    }
}

static json_t *list_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *start = (const char *)message;
    size_t count = *(const size_t *)(const void *)(start + field->quantifier_offset);
    void *const *items = *(void *const *const *)(const void *)(start + field->offset);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, value_of(field, &items[i], 1));
    return list;
}

json_t *message_json(const ProtobufCMessage *message)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        char key[KEY_MAX];
        double scale = key_of(field, key);
        if (strcmp(key, "more") == 0)
            continue;
        json_t *value = field->label == PROTOBUF_C_LABEL_REPEATED
                            ? list_of(message, field)
                            : value_of(field, (const char *)message + field->offset, scale);
        json_object_set_new(object, key, value);
    }
    return object;
}
