#include "control/find_reply.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "control/inquiry.h"
#include "feed/recipe.h"
#include "proto/frames.h"
#include "store/dataset_search.h"
#include "store/plan_cursor.h"

#define SIGHTINGS_A_PART 4096

struct want {
    uint64_t epochs;
    bool escaped; /* the key may be one that was printed */
    char key[];
};

struct sighting {
    uint64_t epoch;
    struct steps_row at;
    uint32_t record; /* number in `records` */
    bool valid;
};

struct finds {
    struct dataset_hit records[FIND_RECORDS_MAX];
    uint32_t nrecords, nplanned;
    struct sighting *sightings;
    uint64_t nsightings, room;
    bool cut; /* there are more sightings */
};

/* As it is in the shard, or as it is printed. A stop ends the search as a hit does. */
static bool is_key(const char *key, const void *context)
{
    const struct inquiry *inquiry = context;
    const struct want *want = inquiry->want;
    char escaped[DLP_TEXT_MAX];
    return inquiry->cancel || !strcmp(key, want->key) ||
           (want->escaped && !strcmp(dlp_escape(key, escaped, sizeof escaped), want->key));
}

static void find_records(struct inquiry *inquiry, struct finds *finds)
{
    const struct dataset *dataset = inquiry->dataset;
    for (uint32_t s = 0; s < dataset_shards(dataset) && !inquiry->cancel; s++, inquiry->done++)
        for (uint32_t from = 0; finds->nrecords < FIND_RECORDS_MAX && !inquiry->cancel;) {
            struct dataset_hit *hit = &finds->records[finds->nrecords];
            if (!dataset_search(dataset, s, from, is_key, inquiry, hit))
                break;
            from = hit->number + 1;
            finds->nrecords++;
            finds->nplanned += hit->planned;
        }
}

static void add_sighting(struct finds *finds, const struct steps *steps, uint64_t epoch,
                         uint32_t record, uint64_t position)
{
    if (finds->nsightings == FIND_SIGHTINGS_MAX) {
        finds->cut = true;
        return;
    }
    if (finds->nsightings == finds->room) {
        finds->room = finds->room ? 2 * finds->room : 64;
        finds->sightings = mem_grow(finds->sightings, finds->room, sizeof *finds->sightings);
    }
    finds->sightings[finds->nsightings++] =
        (struct sighting){epoch, steps_row_of(steps, position), record, position < steps->records};
}

/* A record is seen at its place in O, and with tail: wrap again after the end. */
static void look_in_epoch(struct inquiry *inquiry, struct finds *finds, struct plan_cursor *cursor,
                          uint64_t epoch)
{
    struct steps steps = inquiry_steps(inquiry, epoch);
    uint64_t end = steps.start + steps_total(&steps) * steps.world * steps.batch;
    if (steps.tail != TAIL_WRAP && end > steps.records)
        end = steps.records;
    for (uint32_t i = 0; i < finds->nrecords && !inquiry->cancel; i++) {
        const struct dataset_hit *hit = &finds->records[i];
        if (!hit->planned)
            continue;
        uint64_t at = plan_cursor_find(cursor, (struct plan_place){hit->shard, hit->record});
        for (; at < end && !finds->cut; at += steps.records)
            if (at >= steps.start)
                add_sighting(finds, &steps, epoch, i, at);
    }
}

static int look_at_epoch(struct inquiry *inquiry, struct finds *finds, uint64_t epoch)
{
    struct plan_source source = recipe_source(inquiry->dataset);
    struct plan *plan = plan_new(&source, &inquiry->order, epoch);
    struct plan_cursor *cursor = plan ? plan_cursor_new(plan) : NULL;
    if (cursor)
        look_in_epoch(inquiry, finds, cursor, epoch);
    else
        error_set(&inquiry->err, -ENOMEM, "the steps cannot be reckoned: memory is short");
    plan_cursor_free(cursor);
    plan_free(plan);
    return cursor ? 0 : -ENOMEM;
}

static void reckon(struct inquiry *inquiry)
{
    const struct want *want = inquiry->want;
    uint64_t last = inquiry->epoch + want->epochs - 1;
    struct finds *finds = inquiry->result = mem_new(sizeof *finds);
    if (last > DLP_EPOCH_MAX) {
        error_set(&inquiry->err, -EINVAL, "epoch %" PRIu64 " does not exist: %u is the last one",
                  last, DLP_EPOCH_MAX);
        return;
    }
    inquiry->total = dataset_shards(inquiry->dataset) + want->epochs;
    find_records(inquiry, finds);
    uint64_t epoch = finds->nplanned ? inquiry->epoch : last + 1;
    for (; epoch <= last && !finds->cut && !inquiry->cancel; epoch++, inquiry->done++)
        if (look_at_epoch(inquiry, finds, epoch))
            return;
}

struct record_text {
    Dlp__FoundRecord record;
    char shard[DLP_TEXT_MAX], key[DLP_TEXT_MAX], fault[DLP_TEXT_MAX];
};

static void fill_record(const struct dataset *dataset, const struct dataset_hit *from,
                        struct record_text *out)
{
    dlp__found_record__init(&out->record);
    out->record.sample = from->id;
    out->record.shard =
        dlp_escape(dataset_shard_path(dataset, from->shard), out->shard, sizeof out->shard);
    out->record.key = dlp_escape(from->key, out->key, sizeof out->key);
    out->record.offset = from->offset;
    out->record.fault = dlp_escape(from->reason, out->fault, sizeof out->fault);
}

static void fill_sighting(const struct finds *finds, const struct sighting *from,
                          Dlp__Sighting *out)
{
    dlp__sighting__init(out);
    out->epoch = from->epoch;
    out->step = from->at.step;
    out->rank = from->at.rank;
    out->row = from->at.row;
    out->sample = finds->records[from->record].id;
    out->valid = from->valid;
}

static void add_notes(const struct finds *finds, char *notes[2], Dlp__FindReply *reply)
{
    static const char records[] = "the first 256 records of this key are looked for",
                      sightings[] = "the first 65536 places are listed, there are more";
    _Static_assert(FIND_RECORDS_MAX == 256 && FIND_SIGHTINGS_MAX == 65536, "as the notes say");
    if (finds->nrecords == FIND_RECORDS_MAX)
        notes[reply->n_notes++] = (char *)records;
    if (finds->cut)
        notes[reply->n_notes++] = (char *)sightings;
    reply->notes = notes;
}

static void send_part(const struct inquiry *inquiry, Dlp__FindReply *reply)
{
    reply->plan_id = (char *)inquiry->plan;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = inquiry->id;
    env.body_case = DLP__ENVELOPE__BODY_FIND_REPLY;
    env.find_reply = reply;
    session_send(inquiry->session, &env);
}

/* The records come with the first part. */
static bool send_some(struct inquiry *inquiry)
{
    const struct finds *finds = inquiry->result;
    uint32_t nrecords = inquiry->sent == 0 ? finds->nrecords : 0;
    cleanup_free struct record_text *texts = mem_array(nrecords + 1, sizeof *texts);
    cleanup_free Dlp__Sighting *sightings = mem_array(SIGHTINGS_A_PART, sizeof *sightings);
    Dlp__FoundRecord *records[FIND_RECORDS_MAX];
    Dlp__Sighting *list[SIGHTINGS_A_PART];
    char *notes[2];
    Dlp__FindReply reply = DLP__FIND_REPLY__INIT;
    for (uint32_t i = 0; i < nrecords; i++) {
        fill_record(inquiry->dataset, &finds->records[i], &texts[i]);
        records[i] = &texts[i].record;
    }
    for (; inquiry->sent < finds->nsightings && reply.n_sightings < SIGHTINGS_A_PART;
         inquiry->sent++) {
        fill_sighting(finds, &finds->sightings[inquiry->sent], &sightings[reply.n_sightings]);
        list[reply.n_sightings] = &sightings[reply.n_sightings];
        reply.n_sightings++;
    }
    reply.n_records = nrecords;
    reply.records = records;
    reply.sightings = list;
    reply.more = inquiry->sent < finds->nsightings;
    add_notes(finds, notes, &reply);
    send_part(inquiry, &reply);
    return reply.more;
}

static void free_finds(void *result)
{
    struct finds *finds = result;
    if (finds)
        free(finds->sightings);
    free(finds);
}

void find_reply_begin(struct session *session, uint64_t id, const Dlp__FindRequest *message)
{
    static const struct inquiry_kind kind = {"find", reckon, send_some, free_finds};
    struct want *want = mem_new(sizeof *want + strlen(message->key) + 1);
    want->epochs = message->epochs ? message->epochs->value : 1;
    want->escaped = strchr(message->key, '\\');
    strcpy(want->key, message->key);
    inquiry_begin(session, id, &kind, message->question, want);
}
