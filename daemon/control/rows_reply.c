#include "control/rows_reply.h"

#include <errno.h>
#include <inttypes.h>

#include "base/mem.h"
#include "control/inquiry.h"
#include "feed/recipe.h"
#include "proto/frames.h"
#include "store/plan_cursor.h"

#define ROWS_A_PART 256 /* of at most some 3 KiB */

_Static_assert(ROWS_REPLY_MAX / ROWS_A_PART <= DLP_PARTS_MAX, "an answer of too many parts");

struct want {
    uint64_t step;
    bool all; /* ranks */
    uint32_t rank;
};

struct row {
    uint32_t rank, row;
    struct plan_place place;
    bool valid;
};

struct rows {
    uint64_t steps, count;
    struct row *list;
};

static int check_want(const struct inquiry *inquiry, const struct want *want, struct error *err)
{
    const struct steps *steps = &inquiry->steps;
    uint64_t total = steps_total(steps), rows = (uint64_t)steps->world * steps->batch;
    if (want->step >= total)
        return error_set(err, -EINVAL,
                         "step %" PRIu64 " does not exist: epoch %" PRIu64 " of feed %s has steps "
                         "0 to %" PRIu64 " with world %" PRIu32 " x batch %" PRIu32,
                         want->step, inquiry->epoch, inquiry->spec->name, total - 1, steps->world,
                         steps->batch);
    if (!want->all && want->rank >= steps->world)
        return error_set(err, -EINVAL, "rank %" PRIu32 " is not below world %" PRIu32, want->rank,
                         steps->world);
    if (want->all && rows > ROWS_REPLY_MAX)
        return error_set(err, -EINVAL,
                         "a batch of all ranks has %" PRIu64 " rows, more than %u: name a rank",
                         rows, ROWS_REPLY_MAX);
    return 0;
}

/* Rows stand sorted by lane and place in it: each block is permuted once. */
static void add_rank(const struct inquiry *inquiry, struct plan_cursor *cursor, uint32_t rank,
                     uint64_t *positions, struct rows *rows)
{
    const struct want *want = inquiry->want;
    uint64_t records = inquiry->steps.records;
    uint32_t count = steps_positions(&inquiry->steps, want->step, rank, positions);
    for (uint32_t i = 0; i < count && !inquiry->cancel; i++)
        rows->list[rows->count++] = (struct row){
            rank, i, plan_cursor_at(cursor, positions[i] % records), positions[i] < records};
}

static void add_all(const struct inquiry *inquiry, struct plan_cursor *cursor, struct rows *rows)
{
    const struct want *want = inquiry->want;
    uint32_t first = want->all ? 0 : want->rank;
    uint32_t ranks = want->all ? inquiry->steps.world : 1;
    cleanup_free uint64_t *positions = mem_array(inquiry->steps.batch, sizeof *positions);
    for (uint32_t r = 0; r < ranks && !inquiry->cancel; r++)
        add_rank(inquiry, cursor, first + r, positions, rows);
}

static uint64_t rows_wanted(const struct inquiry *inquiry)
{
    const struct want *want = inquiry->want;
    return (uint64_t)(want->all ? inquiry->steps.world : 1) * inquiry->steps.batch;
}

static void reckon(struct inquiry *inquiry)
{
    if (check_want(inquiry, inquiry->want, &inquiry->err))
        return;
    struct plan_source source = recipe_source(inquiry->dataset);
    struct plan *plan = plan_new(&source, &inquiry->order, inquiry->epoch);
    struct plan_cursor *cursor = plan ? plan_cursor_new(plan) : NULL;
    struct rows *rows = inquiry->result = mem_new(sizeof *rows);
    rows->steps = steps_total(&inquiry->steps);
    rows->list = calloc(rows_wanted(inquiry), sizeof *rows->list);
    if (cursor && rows->list)
        add_all(inquiry, cursor, rows);
    else
        error_set(&inquiry->err, -ENOMEM, "the rows cannot be reckoned: memory is short");
    plan_cursor_free(cursor);
    plan_free(plan);
}

struct row_text {
    Dlp__Row row;
    char shard[DLP_TEXT_MAX], key[DLP_TEXT_MAX];
};

static void fill_row(const struct dataset *dataset, const struct row *from, struct row_text *out)
{
    struct dataset_record record;
    struct plan_place place = from->place;
    dataset_record(dataset, place.shard, place.record, &record);
    dlp__row__init(&out->row);
    out->row.rank = from->rank;
    out->row.row = from->row;
    out->row.shard =
        dlp_escape(dataset_shard_path(dataset, place.shard), out->shard, sizeof out->shard);
    out->row.key = dlp_escape(record.key, out->key, sizeof out->key);
    out->row.offset = record.parts[0].offset;
    out->row.bytes = dataset_span_bytes(dataset, place.shard, place.record, 1);
    out->row.sample = record.id;
    out->row.valid = from->valid;
}

static bool send_some(struct inquiry *inquiry)
{
    const struct rows *rows = inquiry->result;
    cleanup_free struct row_text *texts = mem_array(ROWS_A_PART, sizeof *texts);
    Dlp__Row *list[ROWS_A_PART];
    const struct want *want = inquiry->want;
    char token[DLP_TOKEN_MAX];
    Dlp__RowsReply reply = DLP__ROWS_REPLY__INIT;
    for (; inquiry->sent < rows->count && reply.n_rows < ROWS_A_PART; inquiry->sent++) {
        fill_row(inquiry->dataset, &rows->list[inquiry->sent], &texts[reply.n_rows]);
        list[reply.n_rows] = &texts[reply.n_rows].row;
        reply.n_rows++;
    }
    reply.rows = list;
    reply.steps = rows->steps;
    reply.plan_id = inquiry->plan;
    reply.epoch = inquiry->epoch;
    reply.start = inquiry->steps.start;
    reply.token = inquiry_token(inquiry, want->step, token);
    reply.more = inquiry->sent < rows->count;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = inquiry->id;
    env.body_case = DLP__ENVELOPE__BODY_ROWS_REPLY;
    env.rows_reply = &reply;
    session_send(inquiry->session, &env);
    return reply.more;
}

static void free_rows(void *result)
{
    struct rows *rows = result;
    if (rows)
        free(rows->list);
    free(rows);
}

void rows_reply_begin(struct session *session, uint64_t id, const Dlp__RowsRequest *message)
{
    static const struct inquiry_kind kind = {"batch", reckon, send_some, free_rows};
    struct want *want = mem_new(sizeof *want);
    want->step = message->step;
    want->all = !message->rank;
    want->rank = message->rank ? (uint32_t)message->rank->value : 0;
    inquiry_begin(session, id, &kind, message->question, want);
}
