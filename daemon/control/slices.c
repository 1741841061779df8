#include "control/slices.h"

#include "base/mem.h"
#include "control/inquiry.h"
#include "control/slice_sum.h"
#include "proto/frames.h"

#define RANKS_A_PART 4096

static void reckon(struct inquiry *inquiry)
{
    struct slice_sum *sum = NULL;
    slice_sum_new(inquiry->dataset, &inquiry->order, &inquiry->steps, inquiry->epoch,
                  &inquiry->cancel, &sum, &inquiry->err);
    inquiry->result = sum;
}

static bool send_part(const struct inquiry *inquiry, Dlp__SlicesReply *reply, uint32_t first)
{
    const struct slice_sum *sum = inquiry->result;
    uint32_t count = sum->world - first < RANKS_A_PART ? sum->world - first : RANKS_A_PART;
    cleanup_free Dlp__SliceRank *ranks = mem_array(count, sizeof *ranks);
    cleanup_free Dlp__SliceRank **list = mem_array(count, sizeof(void *));
    for (uint32_t i = 0; i < count; i++) {
        const struct slice_rank *from = &sum->ranks[first + i];
        list[i] = &ranks[i];
        dlp__slice_rank__init(list[i]);
        list[i]->rank = first + i;
        list[i]->shards = from->shards;
        list[i]->records = from->records;
        list[i]->bytes = from->bytes;
        list[i]->steps = from->steps;
        list[i]->repeated_rows = from->repeated;
    }
    reply->n_ranks = count;
    reply->ranks = list;
    reply->more = first + count < sum->world;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = inquiry->id;
    env.body_case = DLP__ENVELOPE__BODY_SLICES_REPLY;
    env.slices_reply = reply;
    session_send(inquiry->session, &env);
    return reply->more;
}

static bool send_next(struct inquiry *inquiry)
{
    const struct slice_sum *sum = inquiry->result;
    char note[DLP_TEXT_MAX];
    char *notes[] = {dlp_escape(sum->note, note, sizeof note)};
    Dlp__SlicesReply reply = DLP__SLICES_REPLY__INIT;
    reply.records = sum->records;
    reply.bytes = sum->bytes;
    reply.steps = sum->steps;
    reply.lost = sum->lost;
    reply.spread = sum->spread;
    reply.lane_factor = sum->lane_factor;
    reply.plan_id = inquiry->plan;
    reply.epoch = inquiry->epoch;
    reply.start = inquiry->steps.start;
    reply.n_notes = *sum->note ? 1 : 0;
    reply.notes = notes;
    reply.tail = (char *)tail_name(inquiry->steps.tail);
    uint32_t first = (uint32_t)inquiry->sent;
    inquiry->sent += RANKS_A_PART;
    return send_part(inquiry, &reply, first);
}

static void free_sum(void *result)
{
    slice_sum_free(result);
}

void slices_begin(struct session *session, uint64_t id, const Dlp__SlicesRequest *message)
{
    static const struct inquiry_kind kind = {"slices", reckon, send_next, free_sum};
    inquiry_begin(session, id, &kind, message->question, NULL);
}
