#include "feed_data.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "jpeg_maker.h"
#include "tar_maker.h"

static bool is_in(const uint32_t *list, uint32_t count, uint32_t number)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == number)
            return true;
    return false;
}

static void add_record(struct tarm *tar, const struct feed_data_recipe *recipe, uint32_t number)
{
    char name[32];
    char text[64] = "cat";
    size_t size;
    uint8_t *jpeg = jpeg_maker_plain(20 + number % 13, 20 + number % 17, number, &size);
    if (is_in(recipe->cut_images, recipe->ncut, number))
        size /= 2;
    snprintf(name, sizeof name, "r%05u.jpg", number);
    tarm_file(tar, name, jpeg, size);
    free(jpeg);
    if (!is_in(recipe->bad_labels, recipe->nbad, number))
        snprintf(text, sizeof text, "%u\n", number);
    snprintf(name, sizeof name, "r%05u.cls", number);
    tarm_text(tar, name, text);
    size = recipe->longest && number == 0 ? recipe->longest : number % 37;
    cleanup_free char *long_text = mem_array(size + 1, 1);
    memset(long_text, 'a' + (int)(number % 26), size);
    snprintf(name, sizeof name, "r%05u.txt", number);
    tarm_file(tar, name, long_text, size);
}

static void write_shard(const struct feed_data *data, const struct feed_data_recipe *recipe,
                        uint32_t shard)
{
    struct tarm *tar = tarm_new();
    for (uint32_t r = 0; r < recipe->records; r++)
        add_record(tar, recipe, shard * recipe->records + r);
    tarm_end(tar);
    cleanup_free char *path = feed_data_path(data, shard);
    ck_assert_int_eq(tarm_write(tar, path), 0);
    tarm_free(tar);
}

static void set_field(struct field_spec *field, const char *name, const char *from,
                      enum field_kind kind)
{
    *field = (struct field_spec){.name = mem_string(name), .kind = kind, .nfrom = 1};
    field->from = mem_array(1, sizeof *field->from);
    field->from[0] = mem_string(from);
}

static void set_spec(struct feed_data *data)
{
    struct feed_spec *spec = &data->spec;
    struct error err;
    spec->name = mem_string("test");
    spec->patterns = mem_array(1, sizeof *spec->patterns);
    spec->patterns[0] = mem_format("%s/s-{000..%03u}.tar", data->dir, data->shards - 1);
    spec->npatterns = 1;
    set_field(&spec->fields[0], "image", "jpg", FIELD_IMAGE);
    set_field(&spec->fields[1], "label", "cls", FIELD_INT);
    set_field(&spec->fields[2], "text", "txt", FIELD_BYTES);
    spec->nfields = 3;
    ck_assert_int_eq(transform_preset(&spec->transform, "train", &err), 0);
    spec->transform.ops[0].height = spec->transform.ops[0].width = 16;
    ck_assert_msg(transform_check(&spec->transform, &err) == 0, "%s", err.text);
    spec->shuffle = 64;
    spec->lanes = 8;
    spec->tail = TAIL_WRAP;
    spec->bad_limit = UINT64_MAX;
}

struct feed_data *feed_data_new(const struct feed_data_recipe *recipe)
{
    struct feed_data *data = mem_new(sizeof *data);
    snprintf(data->dir, sizeof data->dir, "/tmp/feed-data-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(data->dir));
    data->shards = recipe->shards;
    for (uint32_t shard = 0; shard < recipe->shards; shard++)
        write_shard(data, recipe, shard);
    set_spec(data);
    return data;
}

void feed_data_open(struct feed_data *data)
{
    struct error err;
    int code = spec_open_dataset(&data->spec, NULL, 0, false, 2, NULL, NULL, &data->dataset, &err);
    ck_assert_msg(code == 0, "%s", err.text);
}

char *feed_data_path(const struct feed_data *data, uint32_t shard)
{
    return mem_format("%s/s-%03u.tar", data->dir, shard);
}

void feed_data_free(struct feed_data *data)
{
    dataset_unref(data->dataset);
    for (uint32_t shard = 0; shard < data->shards; shard++) {
        cleanup_free char *path = feed_data_path(data, shard);
        unlink(path);
    }
    rmdir(data->dir);
    for (uint32_t f = 0; f < data->spec.nfields; f++) {
        free(data->spec.fields[f].name);
        free(data->spec.fields[f].from[0]);
        free(data->spec.fields[f].from);
    }
    free(data->spec.patterns[0]);
    free(data->spec.patterns);
    free(data->spec.name);
    free(data);
}
