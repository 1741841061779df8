#include <string.h>

#include "client/ctl/ctl.h"
#include "proto/frames.h"

/* All bodies are pointers to messages, which begin with the base. */
static ProtobufCMessage *body_of(const Dlp__Envelope *env)
{
    return (ProtobufCMessage *)env->ping;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

bool ctl_reply_more(const Dlp__Envelope *env)
{
    const ProtobufCMessage *body = body_of(env);
    const ProtobufCFieldDescriptor *more = field_of(body, "more");
    return more && *(const protobuf_c_boolean *)((const char *)body + more->offset);
}

/* A list of messages inside a message, as protobuf-c keeps it. */
struct list {
    size_t *count;
    void ***items;
};

static struct list list_in(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    char *start = (char *)message;
    return (struct list){(size_t *)(void *)(start + field->quantifier_offset),
                         (void ***)(void *)(start + field->offset)};
}

static bool is_list(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_MESSAGE;
}

static void join_list(struct ctl_reply *reply, const ProtobufCFieldDescriptor *field)
{
    struct list all = list_in(reply->joined, field);
    size_t total = 0, done = 0;
    for (size_t i = 0; i < reply->nparts; i++)
        total += *list_in(body_of(reply->parts[i]), field).count;
    *all.items = ctl_must(calloc(total + 1, sizeof(void *)));
    *all.count = total;
    for (size_t i = 0; i < reply->nparts; i++) {
        struct list part = list_in(body_of(reply->parts[i]), field);
        for (size_t j = 0; j < *part.count; j++)
            (*all.items)[done++] = (*part.items)[j];
    }
}

void ctl_reply_join(struct ctl_reply *reply)
{
    const ProtobufCMessage *first = body_of(reply->parts[0]);
    const ProtobufCMessageDescriptor *type = first->descriptor;
    reply->joined = ctl_must(malloc(type->sizeof_message));
    memcpy(reply->joined, first, type->sizeof_message);
    for (unsigned i = 0; i < type->n_fields; i++)
        if (is_list(&type->fields[i]))
            join_list(reply, &type->fields[i]);
}

const void *ctl_reply_body(const struct ctl_reply *reply)
{
    return reply->joined ? reply->joined : body_of(reply->parts[0]);
}

void ctl_reply_free(struct ctl_reply *reply)
{
    const ProtobufCMessageDescriptor *type = reply->joined ? reply->joined->descriptor : NULL;
    for (unsigned i = 0; type && i < type->n_fields; i++)
        if (is_list(&type->fields[i]))
            free(*list_in(reply->joined, &type->fields[i]).items);
    free(reply->joined);
    for (size_t i = 0; i < reply->nparts; i++)
        dlp_frame_free(reply->parts[i]);
    free(reply->parts);
    *reply = (struct ctl_reply){0};
}
