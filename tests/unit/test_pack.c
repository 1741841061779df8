/* dataload-pack, run as users run it. */
#include <check.h>
#include <glob.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <jpeglib.h>

#include "base/mem.h"
#include "store/dataset.h"

#define PACK BINARY_DIR "/daemon/dataload-pack"
#define CHECK SOURCE_DIR "/tests/support/check_shards.py"

static char dir[] = "/tmp/test_pack.XXXXXX";
/* 40 pictures of 4 classes, drawn once; each test finds a copy as f. */
static char pictures[] = "/tmp/test_pack.XXXXXX";

/* A shell command in the test's own directory; its exit status. $P is the program. */
static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...)
{
    char command[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    cleanup_free char *all =
        mem_format("cd %s 2>/dev/null || cd /tmp; P=%s && { %s; }", dir, PACK, command);
    int status = system(all);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(run("cp -r %s f", pictures), 0);
}

static void teardown(void)
{
    run("rm -rf %s", dir);
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
}

static void make_pictures(void)
{
    ck_assert_ptr_nonnull(mkdtemp(pictures));
    ck_assert_int_eq(
        run("$P sample %s --images 40 --classes 4 --seed 5 --folder 2>/dev/null", pictures), 0);
}

static void remove_pictures(void)
{
    run("rm -rf %s", pictures);
}

static bool with_python(void)
{
    return system("python3 -c '' >/dev/null 2>&1") == 0;
}

START_TEST(same_seed_gives_the_same_sample)
{
    ck_assert_int_eq(run("$P sample a --images 65 --classes 4 --seed 5 >/dev/null 2>&1"), 0);
    ck_assert_int_eq(run("for s in 5 5b 6; do $P sample o$s --images 5 --classes 4 --seed ${s%%b} "
                         ">/dev/null 2>&1 || exit 1; done"),
                     0);
    ck_assert_int_eq(run("diff -r o5 o5b"), 0);
    ck_assert_int_ne(run("cmp -s o5/shard-000000.tar o6/shard-000000.tar"), 0);
    ck_assert_int_eq(run("test $(ls a/*.tar | wc -l) = 2 && test $(wc -l < a/classes.txt) = 4"), 0);
    /* The folder form holds the same pictures. */
    ck_assert_int_eq(run("mkdir x && for t in a/*.tar; do tar xf $t -C x; done && "
                         "for i in f/*/*.jpg; do cmp $i x/$(basename $i) || exit 1; done && "
                         "test $(ls f/*/*.jpg | wc -l) = 40"),
                     0);
}
END_TEST

struct seen {
    unsigned count, grey, full_chroma, coloured, portraits;
    unsigned least_side, most_side;
    double bytes, pixels;
};

static void look_at(struct seen *seen, const char *path)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    jpeg_stdio_src(&jpeg, file);
    jpeg_read_header(&jpeg, TRUE);
    unsigned w = jpeg.image_width, h = jpeg.image_height;
    seen->count++;
    seen->grey += jpeg.num_components == 1;
    seen->coloured += jpeg.num_components == 3;
    seen->full_chroma += jpeg.num_components == 3 && jpeg.comp_info[0].h_samp_factor == 1;
    seen->portraits += h > w;
    seen->least_side = w < seen->least_side ? w : seen->least_side;
    seen->least_side = h < seen->least_side ? h : seen->least_side;
    seen->most_side = w > seen->most_side ? w : seen->most_side;
    seen->most_side = h > seen->most_side ? h : seen->most_side;
    seen->pixels += (double)w * h;
    struct stat status;
    ck_assert_int_eq(fstat(fileno(file), &status), 0);
    seen->bytes += (double)status.st_size;
    ck_assert(!jpeg.progressive_mode);
    jpeg_start_decompress(&jpeg);
    cleanup_free JSAMPLE *row = mem_array(jpeg.output_width, jpeg.output_components);
    while (jpeg.output_scanline < jpeg.output_height)
        jpeg_read_scanlines(&jpeg, &row, 1);
    jpeg_finish_decompress(&jpeg);
    ck_assert_int_eq(errors.num_warnings, 0);
    jpeg_destroy_decompress(&jpeg);
    fclose(file);
}

START_TEST(sample_resembles_photographs)
{
    struct seen seen = {.least_side = UINT32_MAX};
    cleanup_free char *pattern = mem_format("%s/f/*/*.jpg", dir);
    glob_t found;
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        look_at(&seen, found.gl_pathv[i]);
    globfree(&found);
    ck_assert_uint_eq(seen.count, 40);
    ck_assert_uint_eq(seen.grey + seen.coloured, 40);
    ck_assert(seen.grey >= 1 && seen.grey <= 5);
    ck_assert(seen.full_chroma >= 5 && seen.full_chroma <= 18);
    ck_assert(seen.portraits >= 5 && seen.portraits <= 18);
    ck_assert(seen.least_side >= 160 && seen.least_side < 250);
    ck_assert(seen.most_side <= 1200 && seen.most_side > 800);
    double pixels = seen.pixels / seen.count, bits = 8 * seen.bytes / seen.pixels;
    ck_assert_msg(pixels > 170e3 && pixels < 300e3, "%g pixels", pixels);
    ck_assert_msg(bits > 3 && bits < 5, "%g bits a pixel", bits);
}
END_TEST

/* A folder with deep, long, odd and dotted names, upper case, an empty class, a link, a stranger,
 * an empty picture. */
static void make_odd_folder(void)
{
    ck_assert_int_eq(
        run("mkdir -p "
            "'f/Zebra.v2/a b/\303\244' f/empty && "
            "cp f/class0/000000.jpg 'f/Zebra.v2/a b/\303\244/x.y.z.JPEG' && "
            "cp f/class0/000004.jpg f/Zebra.v2/$(printf '%%0150d' 7).jpg && "
            "cp f/class1/000001.jpg f/Zebra.v2/$(printf '%%089d' 7).jpg && "
            "cp f/class1/000001.jpg f/Zebra.v2/$(printf '%%080d' 7).jpg && "
            "ln -s ../class2/000002.jpg f/Zebra.v2/link.jpg && "
            ": > f/class1/none.jpg && echo hello > f/class1/notes.txt && cp f/class0/000000.jpg f"),
        0);
}

START_TEST(folder_becomes_shards)
{
    if (!with_python())
        return;
    make_odd_folder();
    ck_assert_int_eq(
        run("$P folder f s7 --shards 7 >feed 2>log && python3 %s f s7 >/dev/null", CHECK), 0);
    ck_assert_int_eq(run("test $(ls s7/*.tar | wc -l) = 7 && grep -q 'files left out: 2' log"), 0);
    ck_assert_int_eq(
        run("$P folder f s1 --shards 1 >/dev/null 2>&1 && python3 %s f s1 >/dev/null", CHECK), 0);
    ck_assert_int_eq(
        run("$P folder f sb --shard-bytes 500kB >/dev/null 2>&1 && python3 %s f sb >/dev/null",
            CHECK),
        0);
    ck_assert_int_eq(run("test $(ls sb/*.tar | wc -l) -gt 6"), 0);
    ck_assert_int_eq(run("grep -q '^    source: \"%s/s7/shard-{000000..000006}.tar\"$' feed && "
                         "grep -q 'classes: 6 }' feed && grep -q 'name: \"f\"$' feed",
                         dir),
                     0);
    ck_assert_int_eq(run("test -z \"$(ls -A s7 | grep partial)\""), 0);
}
END_TEST

START_TEST(the_daemon_reads_what_was_packed)
{
    make_odd_folder();
    ck_assert_int_eq(run("$P folder f s --shards 5 >/dev/null 2>&1"), 0);
    cleanup_free char *pattern = mem_format("%s/s/shard-{000000..000004}.tar", dir);
    const char *patterns[] = {pattern}, *jpg[] = {"jpg"}, *cls[] = {"cls"};
    const struct dataset_field fields[] = {{"image", jpg, 1}, {"label", cls, 1}};
    const struct dataset_options options = {.name = "test",
                                            .source = {patterns, 1, false},
                                            .fields = fields,
                                            .nfields = 2,
                                            .threads = 2};
    struct dataset *dataset = NULL;
    struct error err = {0};
    ck_assert_msg(dataset_open(&options, &dataset, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(dataset_shards(dataset), 5);
    ck_assert_uint_eq(dataset_records(dataset), 46);
    ck_assert_uint_eq(dataset_faults(dataset), 0);
    for (uint32_t shard = 0; shard < 5; shard++) {
        ck_assert_uint_gt(dataset_shard_records(dataset, shard), 0);
        for (uint64_t j = 0; j < dataset_shard_records(dataset, shard); j++) {
            struct dataset_record record;
            dataset_record(dataset, shard, j, &record);
            ck_assert_uint_eq(strtoull(record.key, NULL, 10), record.id);
            ck_assert_str_eq(record.parts[0].suffix, "jpg");
            ck_assert_uint_eq(record.parts[1].size, 1);
        }
    }
    dataset_unref(dataset);
}
END_TEST

START_TEST(order_of_writing_is_the_seeds)
{
    ck_assert_int_eq(run("for s in 1 1b 2; do "
                         "$P folder f o$s --shards 3 --seed ${s%%b} >/dev/null 2>&1; done"),
                     0);
    ck_assert_int_eq(run("diff -r o1 o1b"), 0);
    ck_assert_int_ne(run("cmp -s o1/shard-000000.tar o2/shard-000000.tar"), 0);
    ck_assert_int_eq(run("$P folder f plain --shards 3 --no-shuffle >/dev/null 2>&1"), 0);
    ck_assert_int_eq(run("for t in plain/*.tar; do tar tf $t; done | grep jpg | "
                         "sed 's/^[0-9]*_//; s/_/\\//' >have; "
                         "(cd f && ls */*.jpg) | LC_ALL=C sort >want; cmp have want"),
                     0);
}
END_TEST

START_TEST(refusals_name_the_reason)
{
    static const struct {
        const char *arguments, *text;
        int code;
    } refused[] = {
        {"", "a verb is wanted", EX_USAGE},
        {"nix", "there are folder and sample", EX_USAGE},
        {"folder f", "DIR and OUT-DIR", EX_USAGE},
        {"folder f o x", "one too many", EX_USAGE},
        {"folder f o --shards 0", "from 1 to", EX_USAGE},
        {"folder f o --shards 3x", "from 1 to", EX_USAGE},
        {"folder f o --shard-bytes 3XB", "a size such as", EX_USAGE},
        {"folder f o --shard-bytes 99999999TiB", "a size such as", EX_USAGE},
        {"folder f o --shards 2 --shard-bytes 1MB", "exclude each other", EX_USAGE},
        {"sample", "OUT-DIR is wanted", EX_USAGE},
        {"sample o --classes -1", "from 1 to", EX_USAGE},
        {"folder none o", "none: No such file", EX_UNAVAILABLE},
        {"folder f/class0 o", "has no images", EX_UNAVAILABLE},
        {"folder f o --shards 50", "50 shards are more than the 40 images", EX_UNAVAILABLE},
        {"folder f t", "holds tar files already (x.tar)", EX_UNAVAILABLE},
        {"folder f 'o{1}'", "another directory", EX_UNAVAILABLE},
        {"folder f f", "count as a class", EX_UNAVAILABLE},
        {"folder f f/o/p", "count as a class", EX_UNAVAILABLE},
        {"folder g/ f/class0/../o", "count as a class", EX_UNAVAILABLE},
        {"folder n o", "control character", EX_UNAVAILABLE},
        {"sample f --images 4 --classes 4 --folder", "class0: File exists", EX_UNAVAILABLE},
        {"sample f/class0/000000.jpg/x", "Not a directory", EX_UNAVAILABLE},
    };
    ck_assert_int_eq(run("mkdir t && touch t/x.tar && mkdir -p \"$(printf 'n/a\\nb')\" && "
                         "cp f/class0/000000.jpg n/*/ && ln -s ../f f/link && ln -s f g"),
                     0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ck_assert_msg(run("$P %s >/dev/null 2>log", refused[i].arguments) == refused[i].code, "%s",
                      refused[i].arguments);
        ck_assert_msg(run("tr '\\n' ' ' <log | grep -qF '%s'", refused[i].text) == 0, "%s",
                      refused[i].arguments);
    }
    ck_assert_int_eq(run("ls o o{1} 2>/dev/null | grep tar"), 1);
}
END_TEST

START_TEST(a_full_disk_leaves_nothing)
{
    ck_assert_int_eq(run("trap '' XFSZ; ulimit -f 200; $P folder f o --shards 3 >out 2>log"),
                     EX_UNAVAILABLE);
    ck_assert_int_eq(run("grep -q 'cannot write .*File too large' log && test ! -s out"), 0);
    ck_assert_int_eq(run("test -z \"$(ls -A o)\""), 0);
}
END_TEST

START_TEST(a_folder_that_fails_leaves_nothing)
{
    ck_assert_int_eq(run("mkdir o && (trap '' XFSZ; ulimit -f 100; "
                         "$P sample o/s --images 40 --classes 3 --folder 2>log)"),
                     EX_UNAVAILABLE);
    ck_assert_int_eq(run("grep -q 'cannot write .*File too large' log && test -z \"$(ls -A o/s)\""),
                     0);
    ck_assert_int_eq(
        run("mkdir -p o/t/class2 && $P sample o/t --images 9 --classes 3 --folder 2>log"),
        EX_UNAVAILABLE);
    ck_assert_int_eq(run("test \"$(ls -A o/t)\" = class2"), 0);
    ck_assert_int_eq(run("$P sample o/u --images 20000 --folder 2>log & p=$!; "
                         "while [ ! -e o/u/class0/000000.jpg ]; do sleep 0.02; done; "
                         "kill -TERM $p; wait $p"),
                     130);
    ck_assert_int_eq(run("grep -q stopped log && test -z \"$(ls -A o/u)\""), 0);
}
END_TEST

START_TEST(stopping_leaves_nothing)
{
    ck_assert_int_eq(run("$P sample o --images 1000000 >out 2>log & p=$!; "
                         "while [ ! -e o/.shard-000000.tar.partial ]; do sleep 0.02; done; "
                         "kill -INT $p; wait $p"),
                     130);
    ck_assert_int_eq(run("grep -q stopped log && test ! -s out && test -z \"$(ls -A o)\""), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pack");
    tcase_add_unchecked_fixture(tests, make_pictures, remove_pictures);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, same_seed_gives_the_same_sample);
    tcase_add_test(tests, sample_resembles_photographs);
    tcase_add_test(tests, folder_becomes_shards);
    tcase_add_test(tests, the_daemon_reads_what_was_packed);
    tcase_add_test(tests, order_of_writing_is_the_seeds);
    tcase_add_test(tests, refusals_name_the_reason);
    tcase_add_test(tests, a_full_disk_leaves_nothing);
    tcase_add_test(tests, a_folder_that_fails_leaves_nothing);
    tcase_add_test(tests, stopping_leaves_nothing);
    Suite *suite = suite_create("pack");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
