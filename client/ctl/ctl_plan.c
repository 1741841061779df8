#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_probe.h"
#include "client/ctl/ctl_table.h"
#include "proto/frames.h"

#define EPOCH_MAX 80 /* of its words */
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* A question about a plan, and the settings of the job that it may give. */
struct question {
    Dlp__Question message;
    Dlp__Number world, batch, seed, epoch;
};

static Dlp__Number *number(Dlp__Number *out, int64_t value)
{
    dlp__number__init(out);
    out->value = (uint64_t)value;
    return value < 0 ? NULL : out;
}

static Dlp__Question *fill(struct question *question, const struct ctl *ctl)
{
    dlp__question__init(&question->message);
    question->message.feed = (char *)ctl->feed;
    question->message.world = number(&question->world, ctl->world);
    question->message.batch = number(&question->batch, ctl->batch);
    question->message.seed = number(&question->seed, ctl->seed);
    question->message.epoch = number(&question->epoch, ctl->epoch);
    question->message.token = (char *)(ctl->token ? ctl->token : "");
    return &question->message;
}

/* "epoch 3, from record 40 on" */
static const char *words_of_epoch(uint64_t epoch, uint64_t start, char text[EPOCH_MAX])
{
    int used = snprintf(text, EPOCH_MAX, "epoch %ju", (uintmax_t)epoch);
    if (start > 0)
        snprintf(text + used, EPOCH_MAX - (size_t)used, ", from record %ju on", (uintmax_t)start);
    return text;
}

static void print_ranks(const struct ctl *ctl, const Dlp__SlicesReply *slices)
{
    static const struct ctl_column columns[] = {{"RANK", true},    {"SHARDS", true},
                                                {"RECORDS", true}, {"BYTES", true},
                                                {"STEPS", true},   {"REPEATED", true}};
    struct ctl_table table;
    ctl_table_init(&table, columns, COUNT(columns));
    for (size_t i = 0; i < slices->n_ranks; i++) {
        const Dlp__SliceRank *rank = slices->ranks[i];
        ctl_table_add(&table, "%u", rank->rank);
        ctl_table_add_known(&table, rank->shards);
        ctl_table_add(&table, "%ju", (uintmax_t)rank->records);
        ctl_table_add(&table, "%ju", (uintmax_t)rank->bytes);
        ctl_table_add(&table, "%ju", (uintmax_t)rank->steps);
        ctl_table_add(&table, "%ju", (uintmax_t)rank->repeated_rows);
    }
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
}

static void print_slices(const struct ctl *ctl, const Dlp__SlicesReply *slices)
{
    char bytes[CTL_TEXT_MAX], epoch[EPOCH_MAX];
    print_ranks(ctl, slices);
    ctl_print(ctl, "%s", "");
    ctl_print(ctl, "%s: records: %ju, %s; steps: %ju; tail: %s, left out: %ju; plan %s",
              words_of_epoch(slices->epoch, slices->start, epoch), (uintmax_t)slices->records,
              ctl_text_bytes(slices->bytes, bytes), (uintmax_t)slices->steps, slices->tail,
              (uintmax_t)slices->lost, slices->plan_id);
    ctl_print(ctl,
              "the ranks' bytes differ by %.2f %% of their mean; a rank reads %.2f x its lanes",
              slices->spread * 100, slices->lane_factor);
    for (size_t i = 0; i < slices->n_notes; i++)
        ctl_print(ctl, "warning: %s", slices->notes[i]);
}

int ctl_slices(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__SlicesRequest request = DLP__SLICES_REQUEST__INIT;
    struct question question;
    struct ctl_reply reply;
    request.question = fill(&question, ctl);
    env.body_case = DLP__ENVELOPE__BODY_SLICES_REQUEST;
    env.slices_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl slices", &env, DLP__ENVELOPE__BODY_SLICES_REPLY,
                            CTL_OPENING_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__SlicesReply *slices = ctl_reply_body(&reply);
    if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&slices->base), true);
    else
        print_slices(ctl, slices);
    ctl_reply_free(&reply);
    return CTL_OK;
}

int ctl_token(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__TokenRequest request = DLP__TOKEN_REQUEST__INIT;
    struct question question;
    struct ctl_reply reply;
    request.question = fill(&question, ctl);
    request.step = (uint64_t)ctl->step;
    env.body_case = DLP__ENVELOPE__BODY_TOKEN_REQUEST;
    env.token_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl token", &env, DLP__ENVELOPE__BODY_TOKEN_REPLY,
                            CTL_OPENING_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__TokenReply *token = ctl_reply_body(&reply);
    if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&token->base), true);
    else
        ctl_print(ctl, "%s", token->token);
    ctl_reply_free(&reply);
    return CTL_OK;
}

static void add_share(struct ctl_table *table, double share)
{
    ctl_table_add(table, "%.3f", share);
}

static void add_measure(struct ctl_table *table, const char *what, double batch, double shuffled)
{
    ctl_table_add(table, "%s", what);
    add_share(table, batch);
    add_share(table, shuffled);
}

static void print_measures(const struct ctl *ctl, const Dlp__MixReply *mix)
{
    static const struct ctl_column columns[] = {
        {"DISTANCE FROM THE WHOLE SET", false}, {"HERE", true}, {"TRUE SHUFFLE", true}};
    struct ctl_table table;
    ctl_table_init(&table, columns, COUNT(columns));
    const Dlp__MixDistance *label = mix->label_mix, *region = mix->region_mix;
    if (label) {
        add_measure(&table, "classes, one batch", label->batch, label->batch_shuffled);
        add_measure(&table, "classes, all these batches", label->all, label->all_shuffled);
    }
    if (region) {
        add_measure(&table, "regions of storage, one batch", region->batch, region->batch_shuffled);
        add_measure(&table, "regions, all these batches", region->all, region->all_shuffled);
    }
    add_measure(&table, "share of storage neighbours in a batch", mix->neighbours,
                mix->neighbours_shuffled);
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
}

static void print_classes(const struct ctl *ctl, const Dlp__MixReply *mix)
{
    static const struct ctl_column columns[] = {
        {"CLASS", true}, {"WHOLE SET %", true}, {"THESE BATCHES %", true}};
    struct ctl_table table;
    if (mix->n_mix == 0)
        return;
    ctl_print(ctl, "%s", "");
    ctl_table_init(&table, columns, COUNT(columns));
    for (size_t i = 0; i < mix->n_mix; i++) {
        ctl_table_add(&table, "%jd", (intmax_t)mix->mix[i]->label);
        ctl_table_add(&table, "%.2f", 100 * mix->mix[i]->share);
        ctl_table_add(&table, "%.2f", 100 * mix->mix[i]->share_batches);
    }
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
    if (mix->classes > mix->n_mix)
        ctl_print(ctl, "classes that differ most: %zu of %ju", mix->n_mix, (uintmax_t)mix->classes);
}

static void print_mix(const struct ctl *ctl, const Dlp__MixReply *mix)
{
    bool poor =
        (mix->label_mix && mix->label_mix->poor) || (mix->region_mix && mix->region_mix->poor);
    char epoch[EPOCH_MAX];
    ctl_print(ctl,
              "%s: first batches: %ju; records in them: %ju of %ju; shuffle %ju, lanes %u; plan %s",
              words_of_epoch(mix->epoch, mix->start, epoch), (uintmax_t)mix->batches,
              (uintmax_t)mix->rows, (uintmax_t)mix->records, (uintmax_t)mix->shuffle, mix->lanes,
              mix->plan_id);
    print_measures(ctl, mix);
    print_classes(ctl, mix);
    if (!mix->label_mix)
        ctl_print(ctl, "no labels: the feed has no field of kind int that can be read");
    else if (mix->unlabelled)
        ctl_print(ctl, "records and rows looked at without a good label: %ju",
                  (uintmax_t)mix->unlabelled);
    for (size_t i = 0; i < mix->n_notes; i++)
        ctl_print(ctl, "%s: %s", poor ? "warning" : "note", mix->notes[i]);
    if (!poor)
        ctl_print(ctl, "well mixed: no further from the whole set than a true shuffle");
}

int ctl_mix(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__MixRequest request = DLP__MIX_REQUEST__INIT;
    struct question question;
    struct ctl_reply reply;
    request.question = fill(&question, ctl);
    env.body_case = DLP__ENVELOPE__BODY_MIX_REQUEST;
    env.mix_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl mix", &env, DLP__ENVELOPE__BODY_MIX_REPLY,
                            CTL_OPENING_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__MixReply *mix = ctl_reply_body(&reply);
    if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&mix->base), true);
    else
        print_mix(ctl, mix);
    ctl_reply_free(&reply);
    return CTL_OK;
}

static void print_rows(const struct ctl *ctl, const Dlp__RowsReply *rows)
{
    static const struct ctl_column columns[] = {
        {"RANK", true},   {"ROW", true},   {"SAMPLE", true}, {"VALID", false},
        {"OFFSET", true}, {"BYTES", true}, {"KEY", false},   {"SHARD", false}};
    struct ctl_table table;
    ctl_table_init(&table, columns, COUNT(columns));
    for (size_t i = 0; i < rows->n_rows; i++) {
        const Dlp__Row *row = rows->rows[i];
        ctl_table_add(&table, "%u", row->rank);
        ctl_table_add(&table, "%u", row->row);
        ctl_table_add(&table, "%ju", (uintmax_t)row->sample);
        ctl_table_add(&table, row->valid ? "yes" : "repeated");
        ctl_table_add(&table, "%ju", (uintmax_t)row->offset);
        ctl_table_add(&table, "%ju", (uintmax_t)row->bytes);
        ctl_table_add(&table, "%s", row->key);
        ctl_table_add(&table, "%s", row->shard);
    }
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
    ctl_print(ctl, "%s", "");
    char epoch[EPOCH_MAX];
    ctl_print(ctl, "%s: step %jd of %ju, rows: %zu, plan %s",
              words_of_epoch(rows->epoch, rows->start, epoch), (intmax_t)ctl->step,
              (uintmax_t)rows->steps, rows->n_rows, rows->plan_id);
}

/* The sheet is that of a probe which begins with the batch that was listed. */
static int draw(const struct ctl *ctl, const Dlp__RowsReply *rows)
{
    const struct probe probe = {.verb = "batch",
                                .world = ctl->world > 0 ? ctl->world : 1,
                                .batch = ctl->batch,
                                .token = rows->token};
    dataload *handle = NULL;
    dataload_batch *batch = NULL;
    int code = ctl_probe_attach(ctl, &probe, ctl->rank > 0 ? ctl->rank : 0, &handle);
    if (code == CTL_OK)
        code = ctl_probe_first(ctl, handle, CTL_PROBE_PATIENCE_MS, &batch);
    if (code == CTL_OK)
        code = ctl_show_batch(ctl, batch, !ctl->json);
    if (batch)
        dataload_release(handle, batch);
    dataload_detach(handle);
    return code;
}

static int answer_batch(const struct ctl *ctl, const Dlp__RowsReply *rows)
{
    if (!ctl->json)
        print_rows(ctl, rows);
    if (ctl->file && rows->n_rows == 0)
        return ctl_fail(ctl, CTL_NOT_FOUND, "rank %jd has no row in step %jd: there is no sheet",
                        (intmax_t)ctl->rank, (intmax_t)ctl->step);
    int code = ctl->file ? draw(ctl, rows) : CTL_OK;
    if (code == CTL_OK && ctl->json) {
        json_t *json = ctl_json_message(&rows->base);
        if (ctl->file)
            json_object_set_new(json, "file", ctl_json_text(ctl->file));
        ctl_json_print(ctl->out, json, true);
    }
    return code;
}

int ctl_batch(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__RowsRequest request = DLP__ROWS_REQUEST__INIT;
    struct question question;
    Dlp__Number rank;
    struct ctl_reply reply;
    request.question = fill(&question, ctl);
    request.rank = number(&rank, ctl->rank);
    request.step = (uint64_t)ctl->step;
    env.body_case = DLP__ENVELOPE__BODY_ROWS_REQUEST;
    env.rows_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl batch", &env, DLP__ENVELOPE__BODY_ROWS_REPLY,
                            CTL_OPENING_DEADLINE_MS, &reply);
    if (code)
        return code;
    code = answer_batch(ctl, ctl_reply_body(&reply));
    ctl_reply_free(&reply);
    return code;
}

static void print_sightings(const struct ctl *ctl, const Dlp__FindReply *found)
{
    static const struct ctl_column columns[] = {{"EPOCH", true},  {"STEP", true},
                                                {"RANK", true},   {"ROW", true},
                                                {"VALID", false}, {"SAMPLE", true}};
    struct ctl_table table;
    for (size_t i = 0; i < found->n_records; i++) {
        const Dlp__FoundRecord *record = found->records[i];
        ctl_print(ctl, "sample %ju: %s at %ju of %s%s%s", (uintmax_t)record->sample, record->key,
                  (uintmax_t)record->offset, record->shard, *record->fault ? "; never seen: " : "",
                  record->fault);
    }
    ctl_print(ctl, "%s", "");
    ctl_table_init(&table, columns, COUNT(columns));
    for (size_t i = 0; i < found->n_sightings; i++) {
        const Dlp__Sighting *at = found->sightings[i];
        ctl_table_add(&table, "%ju", (uintmax_t)at->epoch);
        ctl_table_add(&table, "%ju", (uintmax_t)at->step);
        ctl_table_add(&table, "%u", at->rank);
        ctl_table_add(&table, "%u", at->row);
        ctl_table_add(&table, at->valid ? "yes" : "repeated");
        ctl_table_add(&table, "%ju", (uintmax_t)at->sample);
    }
    if (found->n_sightings)
        ctl_table_print(&table, ctl->out, ctl->headers);
    else
        ctl_print(ctl, "not seen in these epochs");
    ctl_table_free(&table);
    for (size_t i = 0; i < found->n_notes; i++)
        ctl_print(ctl, "note: %s", found->notes[i]);
}

int ctl_find(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__FindRequest request = DLP__FIND_REQUEST__INIT;
    struct question question;
    Dlp__Number epochs;
    struct ctl_reply reply;
    char key[DLP_TEXT_MAX];
    request.question = fill(&question, ctl);
    request.epochs = number(&epochs, ctl->epochs);
    request.key = dlp_printable(ctl->key, key, sizeof key);
    env.body_case = DLP__ENVELOPE__BODY_FIND_REQUEST;
    env.find_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl find", &env, DLP__ENVELOPE__BODY_FIND_REPLY,
                            CTL_OPENING_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__FindReply *found = ctl_reply_body(&reply);
    if (found->n_records == 0)
        code = ctl_fail(ctl, CTL_NOT_FOUND, "feed %s has no record with the key %s", ctl->feed,
                        request.key);
    else if (ctl->json)
        ctl_json_print(ctl->out, ctl_json_message(&found->base), true);
    else
        print_sightings(ctl, found);
    ctl_reply_free(&reply);
    return code;
}
