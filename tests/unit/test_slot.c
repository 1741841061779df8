/* Layouts: built, and checked as if a stranger had sent them. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/slot.h"

/* 8 images, their labels, a ragged member, and the two columns of every layout. */
static struct dlp_layout typical(void)
{
    struct dlp_layout layout = {.batch = 8};
    const uint64_t dims[] = {224, 224, 3};
    ck_assert_ptr_nonnull(dlp_layout_add(&layout, "image", DLP_DTYPE_U8, dims, 3));
    ck_assert_ptr_nonnull(dlp_layout_add(&layout, "label", DLP_DTYPE_I64, NULL, 0));
    ck_assert_ptr_nonnull(dlp_layout_add_ragged(&layout, "json", 1000));
    ck_assert_ptr_nonnull(dlp_layout_add(&layout, "valid", DLP_DTYPE_U8, NULL, 0));
    ck_assert_ptr_nonnull(dlp_layout_add(&layout, "index", DLP_DTYPE_I64, NULL, 0));
    dlp_layout_seal(&layout);
    return layout;
}

START_TEST(dtypes)
{
    ck_assert_uint_eq(dlp_dtype_size(DLP_DTYPE_U8), 1);
    ck_assert_uint_eq(dlp_dtype_size(DLP_DTYPE_BF16), 2);
    ck_assert_uint_eq(dlp_dtype_size(DLP_DTYPE_I64), 8);
    ck_assert_uint_eq(dlp_dtype_size(0), 0);
    ck_assert_uint_eq(dlp_dtype_size(8), 0);
    ck_assert_uint_eq(dlp_dtype_size(DLP_DTYPE_F32), 4);
    ck_assert_uint_eq(dlp_dtype_size(99), 0);
}
END_TEST

START_TEST(places)
{
    struct dlp_layout layout = typical();
    ck_assert_int_eq(dlp_layout_check(&layout), 0);
    const struct dlp_tensor *image = dlp_layout_find(&layout, "image");
    const struct dlp_tensor *label = dlp_layout_find(&layout, "label");
    const struct dlp_tensor *json = dlp_layout_find(&layout, "json");
    ck_assert_uint_eq(image->ndim, 4);
    ck_assert_uint_eq(image->shape[0], 8);
    ck_assert_uint_eq(image->size, 8ULL * 224 * 224 * 3);
    ck_assert_uint_eq(label->offset, image->offset + image->size); /* is a multiple of 256 */
    ck_assert(json->ragged);
    ck_assert_uint_eq(json->size, 9 * 8);
    ck_assert_uint_eq(json->data_offset, json->offset + 256);
    ck_assert_uint_eq(json->data_size, 8000);
    ck_assert_uint_eq(layout.slot_bytes % DLP_SLOT_ALIGN, 0);
    ck_assert_ptr_null(dlp_layout_find(&layout, "mask"));
}
END_TEST

START_TEST(refused_when_added)
{
    struct dlp_layout layout = typical(), before = layout;
    const uint64_t zero[] = {4, 0}, huge[] = {1ULL << 32, 1ULL << 32}, wide[] = {1ULL << 60};
    const uint64_t eight[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    ck_assert_ptr_null(dlp_layout_add(&layout, "image", DLP_DTYPE_U8, NULL, 0));
    ck_assert_ptr_null(dlp_layout_add(&layout, "no name", DLP_DTYPE_U8, NULL, 0));
    ck_assert_ptr_null(dlp_layout_add(&layout, "a", (enum dlp_dtype)9, NULL, 0));
    ck_assert_ptr_null(dlp_layout_add(&layout, "a", DLP_DTYPE_U8, zero, 2));
    ck_assert_ptr_null(dlp_layout_add(&layout, "a", DLP_DTYPE_U8, huge, 2));
    ck_assert_ptr_null(dlp_layout_add(&layout, "a", DLP_DTYPE_I64, wide, 1));
    ck_assert_ptr_null(dlp_layout_add(&layout, "a", DLP_DTYPE_U8, eight, 8));
    ck_assert_ptr_null(dlp_layout_add_ragged(&layout, "a", UINT64_MAX / 4));
    ck_assert_ptr_null(dlp_layout_add_ragged(&layout, "a", UINT64_MAX / 8 - 1));
    ck_assert_uint_eq(layout.ntensors, before.ntensors);
    ck_assert_uint_eq(layout.slot_bytes, before.slot_bytes);
    ck_assert_int_eq(dlp_layout_check(&layout), 0);
}
END_TEST

START_TEST(number_of_tensors)
{
    struct dlp_layout layout = {.batch = DLP_BATCH_MAX};
    char name[8];
    for (unsigned i = 0; i < DLP_TENSORS_MAX; i++) {
        snprintf(name, sizeof name, "t%u", i);
        ck_assert_ptr_nonnull(dlp_layout_add_ragged(&layout, name, i));
    }
    ck_assert_ptr_null(dlp_layout_add(&layout, "more", DLP_DTYPE_U8, NULL, 0));
    dlp_layout_seal(&layout);
    ck_assert_int_eq(dlp_layout_check(&layout), 0);
    layout.ntensors++;
    ck_assert_int_eq(dlp_layout_check(&layout), -EPROTO);
}
END_TEST

/* One change each that makes a good layout a bad one. */
static void spoil(struct dlp_layout *layout, int how)
{
    struct dlp_tensor *image = &layout->tensors[0], *label = &layout->tensors[1];
    struct dlp_tensor *json = &layout->tensors[2];
    switch (how) {
    case 0:
        layout->batch = 0;
        break;
    case 1:
        layout->batch = DLP_BATCH_MAX + 1;
        break;
    case 2:
        layout->ntensors = 0;
        break;
    case 3:
        layout->slot_bytes -= 1;
        break;
    case 4:
        layout->slot_bytes = 0;
        break;
    case 5:
        layout->slot_bytes = 1U << 20; /* the last tensors lie behind it */
        break;
    case 6:
        image->offset = UINT64_MAX - 255; /* end overflows */
        break;
    case 7:
        label->offset += 8;
        break;
    case 8:
        label->offset = image->offset; /* overlap */
        break;
    case 9:
        json->data_offset = json->offset;
        break;
    case 10:
        json->data_size = UINT64_MAX;
        break;
    case 11:
        image->size += 1;
        break;
    case 12:
        image->shape[1] = 0;
        break;
    case 13:
        image->shape[1] = 1ULL << 63;
        break;
    case 14:
        image->shape[0] = 4;
        break;
    case 15:
        image->ndim = 0;
        break;
    case 16:
        image->ndim = DLP_DIMS_MAX + 1;
        break;
    case 17:
        image->dtype = (enum dlp_dtype)77;
        break;
    case 18:
        strcpy(label->name, "image");
        break;
    case 19:
        strcpy(label->name, "\n");
        break;
    case 20:
        json->shape[0] = 8;
        break;
    case 21:
        json->size = 8 * 8;
        break;
    case 22:
        json->dtype = DLP_DTYPE_U64;
        break;
    case 23:
        label->data_size = 4096;
        break;
    default:
        ck_abort();
    }
}

START_TEST(hostile)
{
    struct dlp_layout layout = typical();
    spoil(&layout, _i);
    ck_assert_int_eq(dlp_layout_check(&layout), -EPROTO);
}
END_TEST

START_TEST(seal_without_room)
{
    struct dlp_layout layout = typical();
    layout.slot_bytes = UINT64_MAX - 5;
    dlp_layout_seal(&layout);
    ck_assert_int_eq(dlp_layout_check(&layout), -EPROTO);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("slot");
    tcase_add_test(tc, dtypes);
    tcase_add_test(tc, places);
    tcase_add_test(tc, refused_when_added);
    tcase_add_test(tc, number_of_tensors);
    tcase_add_loop_test(tc, hostile, 0, 24);
    tcase_add_test(tc, seal_without_room);
    Suite *suite = suite_create("slot");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
