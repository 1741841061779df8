#include "control/mix_reply.h"

#include "base/mem.h"
#include "control/inquiry.h"
#include "feed/mix_check.h"
#include "proto/frames.h"

static void reckon(struct inquiry *inquiry)
{
    const struct mix_question question = {.spec = inquiry->spec,
                                          .dataset = inquiry->dataset,
                                          .order = inquiry->order,
                                          .steps = inquiry->steps,
                                          .epoch = inquiry->epoch,
                                          .cancel = &inquiry->cancel,
                                          .done = &inquiry->done};
    inquiry->result = mem_new(sizeof(struct mix_answer));
    mix_check(&question, inquiry->result, &inquiry->err);
}

static void fill_measure(const struct mix_measure *from, Dlp__MixDistance *out)
{
    dlp__mix_distance__init(out);
    out->batch = from->batch;
    out->batch_shuffled = from->batch_shuffled;
    out->all = from->all;
    out->all_shuffled = from->all_shuffled;
    out->poor = from->poor;
}

static void fill_figures(const struct mix_answer *from, Dlp__MixReply *out)
{
    out->records = from->records;
    out->batches = from->batches;
    out->rows = from->rows;
    out->classes = from->classes;
    out->labels = from->labels;
    out->unlabelled = from->unlabelled;
    out->regions = from->regions;
    out->narrow = from->narrow;
    out->neighbours = from->neighbours;
    out->neighbours_shuffled = from->neighbours_shuffled;
}

static void fill_class(const struct mix_class *from, Dlp__MixClass *out)
{
    dlp__mix_class__init(out);
    out->label = from->label;
    out->share = from->share;
    out->share_batches = from->share_batches;
}

static bool send_all(struct inquiry *inquiry)
{
    struct mix_answer *answer = inquiry->result;
    Dlp__MixClass classes[MIX_CLASSES_SHOWN], *list[MIX_CLASSES_SHOWN];
    Dlp__MixDistance by_class, by_region;
    char notes[MIX_NOTES_MAX][DLP_TEXT_MAX], *texts[MIX_NOTES_MAX];
    Dlp__MixReply reply = DLP__MIX_REPLY__INIT;
    fill_figures(answer, &reply);
    fill_measure(&answer->by_class, &by_class);
    fill_measure(&answer->by_region, &by_region);
    reply.label_mix = answer->labels ? &by_class : NULL;
    reply.region_mix = &by_region;
    for (uint32_t i = 0; i < answer->nmix; i++) {
        fill_class(&answer->mix[i], &classes[i]);
        list[i] = &classes[i];
    }
    for (uint32_t i = 0; i < answer->nnotes; i++)
        texts[i] = dlp_escape(answer->notes[i], notes[i], sizeof notes[i]);
    reply.n_mix = answer->nmix;
    reply.mix = list;
    reply.n_notes = answer->nnotes;
    reply.notes = texts;
    reply.shuffle = inquiry->order.shuffle;
    reply.lanes = inquiry->order.lanes;
    reply.plan_id = inquiry->plan;
    reply.epoch = inquiry->epoch;
    reply.start = inquiry->steps.start;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = inquiry->id;
    env.body_case = DLP__ENVELOPE__BODY_MIX_REPLY;
    env.mix_reply = &reply;
    session_send(inquiry->session, &env);
    return false;
}

void mix_reply_begin(struct session *session, uint64_t id, const Dlp__MixRequest *message)
{
    static const struct inquiry_kind kind = {"mix", reckon, send_all, free};
    inquiry_begin(session, id, &kind, message->question, NULL);
}
