/* feed/layout.c: what a batch looks like for each kind of field and output. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "feed/layout.h"
#include "feed_data.h"

static struct feed_spec spec;
static struct layout layout;
static struct error err;

static void setup(void)
{
    spec = (struct feed_spec){.name = "f", .nfields = 2};
    spec.fields[0] = (struct field_spec){.name = "image", .kind = FIELD_IMAGE};
    spec.fields[1] = (struct field_spec){.name = "label", .kind = FIELD_INT};
    ck_assert_int_eq(transform_preset(&spec.transform, "eval", &err), 0);
    ck_assert_int_eq(transform_check(&spec.transform, &err), 0);
}

static const struct {
    enum pixels pixels;
    enum dlp_dtype dtype;
    uint64_t shape[4];
    uint64_t row;
} outputs[] = {
    {PIXELS_U8_NHWC, DLP_DTYPE_U8, {8, 224, 224, 3}, 150528},
    {PIXELS_U8_NCHW, DLP_DTYPE_U8, {8, 3, 224, 224}, 150528},
    {PIXELS_F32_NCHW, DLP_DTYPE_F32, {8, 3, 224, 224}, 602112},
    {PIXELS_F16_NCHW, DLP_DTYPE_F16, {8, 3, 224, 224}, 301056},
    {PIXELS_BF16_NCHW, DLP_DTYPE_BF16, {8, 3, 224, 224}, 301056},
};

START_TEST(test_outputs)
{
    spec.transform.pixels = outputs[_i].pixels;
    ck_assert_int_eq(layout_make(&spec, NULL, 8, &layout, &err), 0);
    const struct dlp_tensor *image = dlp_layout_find(&layout.wire, "image");
    ck_assert_int_eq(image->dtype, outputs[_i].dtype);
    ck_assert_uint_eq(image->ndim, 4);
    ck_assert_mem_eq(image->shape, outputs[_i].shape, sizeof outputs[_i].shape);
    ck_assert_uint_eq(layout.fields[0].row_bytes, outputs[_i].row);
    ck_assert_uint_eq(image->size, 8 * outputs[_i].row);
    uint8_t *slot = NULL;
    ck_assert_uint_eq((uintptr_t)layout_row(&layout, slot, 0, 3),
                      image->offset + 3 * outputs[_i].row);
}
END_TEST

START_TEST(test_always_there)
{
    ck_assert_int_eq(layout_make(&spec, NULL, 8, &layout, &err), 0);
    ck_assert_uint_eq(layout.wire.ntensors, 4);
    const struct dlp_tensor *label = dlp_layout_find(&layout.wire, "label");
    const struct dlp_tensor *valid = dlp_layout_find(&layout.wire, "valid");
    const struct dlp_tensor *index = dlp_layout_find(&layout.wire, "index");
    ck_assert(label->dtype == DLP_DTYPE_I64 && label->ndim == 1 && label->shape[0] == 8);
    ck_assert(valid->dtype == DLP_DTYPE_U8 && valid->ndim == 1 && valid->shape[0] == 8);
    ck_assert(index->dtype == DLP_DTYPE_I64 && index->ndim == 1 && index->shape[0] == 8);
    ck_assert_int_eq(dlp_layout_check(&layout.wire), 0);
}
END_TEST

START_TEST(test_own_size)
{
    ck_assert_int_eq(transform_preset(&spec.transform, "none", &err), 0);
    ck_assert_int_eq(transform_check(&spec.transform, &err), 0);
    ck_assert_int_eq(layout_make(&spec, NULL, 8, &layout, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "max_bytes"));
    spec.fields[0].max_bytes = 300000;
    ck_assert_int_eq(layout_make(&spec, NULL, 8, &layout, &err), 0);
    const struct dlp_tensor *image = dlp_layout_find(&layout.wire, "image");
    const struct dlp_tensor *shape = dlp_layout_find(&layout.wire, "image.shape");
    ck_assert(image->ragged && image->data_size == 8 * 300000);
    ck_assert(shape->dtype == DLP_DTYPE_I32 && shape->ndim == 2 && shape->shape[1] == 2);
    ck_assert_uint_eq(layout.nragged, 1);
    spec.transform.pixels = PIXELS_F32_NCHW;
    ck_assert_int_eq(layout_make(&spec, NULL, 8, &layout, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "uint8"));
}
END_TEST

START_TEST(test_bytes_field)
{
    struct feed_data *data = feed_data_new(&(struct feed_data_recipe){.shards = 1, .records = 40});
    feed_data_open(data);
    ck_assert_int_eq(layout_make(&data->spec, data->dataset, 8, &layout, &err), 0);
    ck_assert_uint_eq(dlp_layout_find(&layout.wire, "text")->data_size, 8 * 36);
    data->spec.fields[2].max_bytes = 5;
    ck_assert_int_eq(layout_make(&data->spec, data->dataset, 8, &layout, &err), 0);
    ck_assert_uint_eq(dlp_layout_find(&layout.wire, "text")->data_size, 8 * 5);
    feed_data_free(data);
}
END_TEST

START_TEST(test_bytes_field_too_large)
{
    struct feed_data *data =
        feed_data_new(&(struct feed_data_recipe){.shards = 1, .records = 40, .longest = 10000});
    feed_data_open(data);
    const uint32_t most = (64 << 20) / 10000;
    ck_assert_int_eq(layout_make(&data->spec, data->dataset, most, &layout, &err), 0);
    ck_assert_int_eq(layout_make(&data->spec, data->dataset, most + 1, &layout, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "max_bytes"));
    ck_assert_ptr_nonnull(strstr(err.text, "10000"));
    feed_data_free(data);
}
END_TEST

START_TEST(test_refused)
{
    ck_assert_int_eq(layout_make(&spec, NULL, 0, &layout, &err), -EINVAL);
    ck_assert_int_eq(layout_make(&spec, NULL, DLP_BATCH_MAX + 1, &layout, &err), -EINVAL);
    spec.fields[1].name = "index";
    ck_assert_int_eq(layout_make(&spec, NULL, 8, &layout, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "index"));
    spec.fields[1].name = "image";
    ck_assert_int_eq(layout_make(&spec, NULL, 8, &layout, &err), -EINVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layout");
    TCase *tcase = tcase_create("layout");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, test_outputs, 0, sizeof outputs / sizeof *outputs);
    tcase_add_test(tcase, test_always_there);
    tcase_add_test(tcase, test_own_size);
    tcase_add_test(tcase, test_bytes_field);
    tcase_add_test(tcase, test_bytes_field_too_large);
    tcase_add_test(tcase, test_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
