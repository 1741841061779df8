#include "feed/spec.h"

const char *spec_lag_name(enum feed_lag lag)
{
    static const char *const names[] = {
        [LAG_WAIT] = "wait", [LAG_DETACH] = "detach", [LAG_SKIP] = "skip"};
    return names[lag];
}

int spec_open_dataset(const struct feed_spec *spec, const char *cache_dir, uint64_t cache_bytes,
                      bool marks, unsigned threads,
                      bool (*progress)(void *context, const char *text, uint64_t done,
                                       uint64_t total),
                      void *context, struct dataset **out, struct error *err)
{
    struct dataset_field fields[DATASET_FIELDS_MAX];
    for (uint32_t f = 0; f < spec->nfields; f++)
        fields[f] = (struct dataset_field){.name = spec->fields[f].name,
                                           .from = (const char *const *)spec->fields[f].from,
                                           .nfrom = spec->fields[f].nfrom,
                                           .marks = spec->fields[f].kind == FIELD_IMAGE};
    struct dataset_options options = {
        .name = spec->name,
        .source = {.patterns = (const char *const *)spec->patterns,
                   .count = spec->npatterns,
                   .folder = spec->folder},
        .fields = fields,
        .nfields = spec->nfields,
        .exclude = spec->exclude,
        .cache_dir = cache_dir,
        .cache_bytes = cache_bytes,
        .marks = marks && !spec->transform.turbo,
        .threads = threads,
        .progress = progress,
        .context = context,
    };
    return dataset_open(&options, out, err);
}
