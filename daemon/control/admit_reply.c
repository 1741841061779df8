#include "control/admit_reply.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "control/allowance.h"
#include "control/token.h"
#include "device/arena_cuda.h"
#include "proto/frames.h"
#include "store/plan.h"

#define NOTES_MAX 32
#define FACTOR_WORTH_SAYING 1.05

struct notes {
    char text[NOTES_MAX][DLP_TEXT_MAX];
    char *list[NOTES_MAX];
    uint32_t count;
};

static void add_note(struct notes *notes, const char *text)
{
    if (notes->count == NOTES_MAX || !*text)
        return;
    char *out = notes->text[notes->count];
    notes->list[notes->count++] = dlp_escape(text, out, DLP_TEXT_MAX);
}

char *admit_reply_lane_note(const struct feed_params *params, double lane_factor, char *text,
                            size_t size)
{
    *text = '\0';
    if (lane_factor < FACTOR_WORTH_SAYING || !params->spec->shuffle)
        return text;
    struct steps steps = {.records = dataset_records(params->dataset),
                          .lanes = params->spec->lanes,
                          .world = params->world,
                          .batch = params->batch,
                          .tail = params->spec->tail};
    uint32_t lanes, batch;
    char better_lanes[32] = "", better_batch[32] = "";
    steps_lane_factor(&steps, &lanes, &batch);
    if (lanes)
        snprintf(better_lanes, sizeof better_lanes, "; lanes %u avoids it", lanes);
    if (batch)
        snprintf(better_batch, sizeof better_batch, "; batch %u avoids it", batch);
    snprintf(text, size,
             "each rank reads %.1f times its share of the %u lanes, so the shuffle buffer takes as "
             "much more memory%s%s",
             lane_factor, params->spec->lanes, better_lanes, better_batch);
    return text;
}

static void collect_notes(struct notes *notes, const struct group *group, const char *const *more)
{
    char text[DLP_TEXT_MAX];
    const struct dataset *dataset = group->params.dataset;
    add_note(notes, allowance_note(group, text, sizeof text));
    for (; *more; more++)
        add_note(notes, *more);
    if (group->job->mix_note)
        add_note(notes, group->job->mix_note);
    for (uint32_t i = 0; i < dataset_notes(dataset); i++)
        add_note(notes, dataset_note(dataset, i));
}

static void fill_tensor(const struct dlp_tensor *from, Dlp__Tensor *to)
{
    dlp__tensor__init(to);
    to->name = (char *)from->name;
    to->dtype = from->dtype;
    to->n_shape = from->ndim;
    to->shape = (uint64_t *)from->shape;
    to->offset = from->offset;
    to->size = from->size;
    to->ragged = from->ragged;
    to->data_offset = from->data_offset;
    to->data_size = from->data_size;
}

static void fill_order(Dlp__AttachReply *reply, const struct session *session,
                       const struct feed *feed, struct feed_place first)
{
    const struct feed_params *params = &session->group->params;
    reply->job = (char *)session->job_name;
    reply->rank = params->rank;
    reply->world = params->world;
    reply->batch = params->batch;
    reply->seed = params->seed;
    reply->epoch = first.epoch;
    reply->step = first.step;
    reply->first_steps = feed_steps(feed, params->start_epoch);
    reply->steps = feed_steps(feed, params->start_epoch + 1);
    reply->plan_id = (char *)feed_plan_id(feed);
    reply->fingerprint = (char *)dataset_fingerprint(params->dataset);
    reply->records = dataset_records(params->dataset);
    reply->start_epoch = params->start_epoch;
    reply->start_position = params->start_position;
    reply->started = (char *)session->started;
}

static char *template_of(const struct feed_params *params, char text[DLP_TOKEN_MAX])
{
    struct token token;
    token_make(&token, params->spec, dataset_fingerprint(params->dataset), params->seed);
    return token_template(&token, text);
}

static void fill_memory(Dlp__AttachReply *reply, const uint8_t *gpu, const struct feed_arena *arena)
{
    reply->memory = arena->kind;
    if (!arena->offer)
        return;
    reply->gpu = (ProtobufCBinaryData){UPLOADERS_UUID, (uint8_t *)gpu};
    reply->arena_bytes = arena->offer->bytes;
    reply->nonce_offset = arena->offer->nonce_offset;
    if (arena->kind == DLP_MEMORY_IPC)
        reply->ipc_handle = (ProtobufCBinaryData){sizeof arena->offer->handle.bytes,
                                                  (uint8_t *)arena->offer->handle.bytes};
}

void admit_reply_send(struct session *session, uint64_t id, const struct feed *feed,
                      struct feed_place first, const char *memory_why, const char *const *more)
{
    const struct group *group = session->group;
    const struct feed_params *params = &group->params;
    const struct dlp_layout *layout = feed_get_layout(feed);
    Dlp__Tensor tensors[DLP_TENSORS_MAX], *list[DLP_TENSORS_MAX];
    for (uint32_t i = 0; i < layout->ntensors; i++) {
        fill_tensor(&layout->tensors[i], &tensors[i]);
        list[i] = &tensors[i];
    }
    cleanup_free struct notes *notes = mem_new(sizeof *notes);
    collect_notes(notes, group, more);
    char words[DLP_TEXT_MAX], why[DLP_TEXT_MAX], token[DLP_TOKEN_MAX];
    Dlp__AttachReply reply = DLP__ATTACH_REPLY__INIT;
    fill_order(&reply, session, feed, first);
    struct feed_arena arena;
    feed_get_arena(feed, session->port < 0 ? 0 : (uint32_t)session->port, &arena);
    fill_memory(&reply, session->gpu, &arena);
    reply.offer = arena.offer ? session->offers : 0;
    reply.memory_why = dlp_escape(memory_why, why, sizeof why);
    reply.slots = params->slots;
    reply.shared = params->shared;
    reply.skips = params->shared && params->spec->lag == LAG_SKIP;
    reply.members = group->nmembers;
    reply.slot_bytes = layout->slot_bytes;
    reply.n_tensors = layout->ntensors;
    reply.tensors = list;
    reply.n_notes = notes->count;
    reply.notes = notes->list;
    reply.transform = transform_words(&params->spec->transform, words, sizeof words);
    reply.token = template_of(params, token);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_REPLY;
    env.attach_reply = &reply;
    session->sink.send(session->sink.context, &env, &arena.fd, arena.fd >= 0);
}
