#include "feed/spec.h"

#include <stdlib.h>

static void free_spec(struct feed_spec *spec)
{
    for (uint32_t i = 0; i < spec->nfields; i++) {
        struct field_spec *field = &spec->fields[i];
        for (uint32_t j = 0; j < field->nfrom; j++)
            free(field->from[j]);
        free(field->from);
        free(field->name);
        free(field->json_key);
    }
    for (uint32_t i = 0; i < spec->npatterns; i++)
        free(spec->patterns[i]);
    free(spec->patterns);
    files_unref(spec->files);
    free(spec->exclude);
    free(spec->users);
    free(spec->groups);
    free(spec->name);
    free(spec);
}

const struct feed_spec *spec_ref(const struct feed_spec *spec)
{
    if (spec && spec->refs)
        ((struct feed_spec *)spec)->refs++;
    return spec;
}

void spec_unref(const struct feed_spec *spec)
{
    struct feed_spec *it = (struct feed_spec *)spec;
    if (it && it->refs && --it->refs == 0)
        free_spec(it);
}

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
                   .folder = spec->folder,
                   .files = spec->files},
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
