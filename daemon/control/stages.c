#include "control/stages.h"

static void add_rate(struct stages_rate *sum, double busy, double rate)
{
    sum->busy += busy;
    sum->weighted += busy * rate;
    sum->plain += rate;
}

void stages_add(struct stages *sum, const struct window_rates *rates,
                const struct feed_stats *stats)
{
    sum->streams++;
    sum->read_busy += rates->read_busy;
    sum->read_limit += rates->read_limit;
    sum->slot_wait += rates->slot_wait_share;
    sum->copy_busy += rates->copy_busy;
    sum->copy_limit += rates->copy_limit;
    add_rate(&sum->decode, rates->decode_busy, rates->decode_rate);
    add_rate(&sum->augment, rates->augment_busy, rates->augment_rate);
    add_rate(&sum->finish, rates->finish_busy, rates->finish_rate);
    sum->bytes_queued += stats->bytes_queued;
    sum->rows_queued += stats->rows_queued;
    sum->rows_room += (uint64_t)stats->slots * stats->batch;
    sum->shuffle_held += stats->shuffle_held;
    sum->shuffle_target += stats->shuffle_target;
    sum->ready += stats->ready;
    sum->slots += stats->slots;
    sum->copies += stats->copies;
    sum->copies_room += stats->copies_room;
}

/* By all workers that there are for it. */
static double limit_of(const struct stages *sum, const struct stages_rate *rate)
{
    double one = rate->busy > 0 ? rate->weighted / rate->busy
                 : sum->streams ? rate->plain / sum->streams
                                : 0;
    return one * sum->workers;
}

static Dlp__StageStatus stage(const char *name, double busy, double limit, uint64_t busy_ns)
{
    Dlp__StageStatus stage = DLP__STAGE_STATUS__INIT;
    stage.name = (char *)name;
    stage.busy = busy;
    stage.limit = limit;
    stage.busy_ns = busy_ns;
    return stage;
}

static void set_queue(Dlp__StageStatus *stage, uint64_t queued, uint64_t room)
{
    stage->queued = queued;
    stage->room = room;
}

static Dlp__StageStatus copy_stage(const struct stages *sum)
{
    const struct feed_work *work = &sum->work;
    if (sum->copies_room)
        return stage("copy", sum->copy_busy, sum->copy_limit, work->copy_ns);
    return stage("copy", sum->finish.busy, limit_of(sum, &sum->finish), work->finish_ns);
}

void stages_fill(const struct stages *sum, struct stages_status *out)
{
    const struct feed_work *work = &sum->work;
    Dlp__StageStatus *stages = out->stages;
    stages[0] = stage("read", sum->read_busy, sum->read_limit, work->read_busy_ns);
    set_queue(&stages[0], sum->bytes_queued, 0);
    stages[1] = stage("decode", sum->decode.busy, limit_of(sum, &sum->decode),
                      work->decode_ns - work->augment_ns);
    set_queue(&stages[1], sum->rows_queued, sum->rows_room);
    stages[2] = stage("augment", sum->augment.busy, limit_of(sum, &sum->augment), work->augment_ns);
    stages[3] = stage("shuffle", 0, 0, 0);
    set_queue(&stages[3], sum->shuffle_held, sum->shuffle_target);
    stages[4] = stage("slots", sum->slot_wait, 0, work->slot_wait_ns);
    set_queue(&stages[4], sum->ready, sum->slots);
    stages[5] = copy_stage(sum);
    set_queue(&stages[5], sum->copies, sum->copies_room);
    for (int i = 0; i < STAGES; i++)
        out->list[i] = &stages[i];
}
