/* The odd tar files of the handed cases, when they are there: members as listed, samples, labels
 * and faults as their log has them. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sha256.h"
#include "store/dataset.h"
#include "store/tar_member.h"

#define SKIPPED 77

struct row { /* of REFS.tsv */
    char id[8], file[64], outcome[32], digest[65];
    unsigned members;
};

static char folder[4000];
static struct row rows[100];
static unsigned nrows;

static bool find_rows(void)
{
    const char *shared = getenv("DATALOADD_SHARED");
    char path[4200], line[4000];
    snprintf(folder, sizeof folder, "%s/cases", shared ? shared : SOURCE_DIR "/../shared");
    snprintf(path, sizeof path, "%s/REFS.tsv", folder);
    FILE *table = fopen(path, "r");
    while (table && fgets(line, sizeof line, table) && nrows < 100) {
        char *rest = line, *words[8] = {0};
        for (int i = 0; i < 8 && rest; i++)
            words[i] = strsep(&rest, "\t\n");
        if (line[0] != 'T' || !words[7])
            continue;
        struct row *row = &rows[nrows++];
        snprintf(row->id, sizeof row->id, "%s", words[0]);
        snprintf(row->file, sizeof row->file, "%s", words[1]);
        snprintf(row->outcome, sizeof row->outcome, "%s", words[4]);
        snprintf(row->digest, sizeof row->digest, "%s", words[7]);
        row->members = (unsigned)atoi(words[5]);
    }
    if (table)
        fclose(table);
    return nrows > 0;
}

static const char *path_of(const char *id)
{
    static char paths[4][4200];
    static unsigned next;
    for (unsigned i = 0; i < nrows; i++)
        if (!strcmp(rows[i].id, id)) {
            char *path = paths[next++ % 4];
            snprintf(path, sizeof *paths, "%s/%s", folder, rows[i].file);
            return path;
        }
    ck_abort_msg("no case %s", id);
    return NULL;
}

static void payload(int fd, const struct tar_member *member, char hex[65])
{
    struct sha256 hash;
    uint8_t *bytes = malloc(member->stored + 1);
    ck_assert_int_eq(file_read(fd, bytes, member->data, member->stored), (int64_t)member->stored);
    sha256_start(&hash);
    sha256_add(&hash, bytes, member->stored);
    sha256_hex(&hash, hex);
    free(bytes);
}

/* The members up to the first damage, as the log's list: "name TAB type TAB size TAB payload". A
 * member that is cut off is listed without a payload. Returns their number. */
static unsigned list_members(const char *path, struct sha256 *list)
{
    struct tar_member member;
    struct stat stat;
    unsigned count = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(fstat(fd, &stat), 0);
    struct tar_reader *tar = tar_reader_new(fd, (uint64_t)stat.st_size, NULL);
    sha256_start(list);
    for (;;) {
        enum tar_event event = tar_next(tar, &member);
        char hex[65] = "", line[1200];
        if (event != TAR_MEMBER && !(event == TAR_CUT && member.name))
            break;
        if (event == TAR_MEMBER && member.regular)
            payload(fd, &member, hex);
        size_t name = strlen(member.name);
        while (member.type == '5' && name > 1 && member.name[name - 1] == '/')
            name--;
        int length = snprintf(line, sizeof line, "%.*s\t%c\t%" PRIu64 "\t%s\n", (int)name,
                              member.name, member.type, member.size, hex);
        ck_assert_int_lt(length, (int)sizeof line);
        sha256_add(list, line, (size_t)length);
        count++;
        if (event == TAR_CUT)
            break;
    }
    tar_reader_free(tar);
    close(fd);
    return count;
}

START_TEST(members_as_listed)
{
    const struct row *row = &rows[_i];
    struct sha256 list;
    char hex[65];
    unsigned count = list_members(path_of(row->id), &list);
    ck_assert_msg(count == row->members, "%s: %u members, %u listed", row->id, count, row->members);
    sha256_hex(&list, hex);
    /* Sparse members are not expanded here. The digests of T21 and T22 are over names in another
     * form than the log's rule: see names_beyond_ascii. */
    if (!strncmp(row->outcome, "SPARSE", 6) || !strcmp(row->id, "T21") || !strcmp(row->id, "T22"))
        return;
    ck_assert_msg(!strcmp(hex, row->digest), "%s %s: other members than listed", row->id,
                  row->file);
}
END_TEST

static struct index *listed(const char *id)
{
    struct index *index = NULL;
    struct error err = {0};
    struct format_progress progress = {0};
    struct index_stamp stamp = {0};
    const char *path = path_of(id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct index_builder *builder = index_builder_new();
    ck_assert_int_eq(format_tar.list(fd, path, builder, &progress, &err), 0);
    ck_assert_int_eq(index_builder_finish(builder, &stamp, &index), 0);
    close(fd);
    return index;
}

START_TEST(names_beyond_ascii)
{
    struct index *index = listed("T21");
    ck_assert_uint_eq(index_records(index), 2);
    ck_assert_str_eq(index_key(index, 0), "\xf0\x9f\x8c\x9f");
    ck_assert_uint_eq(index_parts(index, 0)->size, 106);
    ck_assert_str_eq(index_key(index, 1), "one-byte");
    index_free(index);
    index = listed("T22");
    ck_assert_uint_eq(index_records(index), 3);
    ck_assert_str_eq(index_key(index, 0), "\xce\xa9");
    ck_assert_str_eq(index_key(index, 2),
                     "long-path/r/e/a/l/l/y/-/d/e/e/p/-/f/o/l/d/e/r/-/p/a/t/h/\xce\xa9");
    index_free(index);
}
END_TEST

static unsigned faults_of(const struct index *index, enum bad_class cls, const char *word)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < index_faults(index); i++)
        count += index_fault(index, i)->cls == cls &&
                 strstr(index_text(index, index_fault(index, i)->reason), word) != NULL;
    return count;
}

static const struct {
    const char *id;
    enum bad_class cls;
    const char *word;
    unsigned count;
    uint32_t records;
} damages[] = {
    {"T08", BAD_UNSUP, "sparse-gnu", 1, 0},       {"T08", BAD_UNSUP, "sparse-posix-", 3, 0},
    {"T09", BAD_UNSUP, "gnu-sparse", 1, 0},       {"T10", BAD_SHARD_HEADER, "size", 1, 0},
    {"T12", BAD_SHARD_HEADER, "extension", 1, 0}, {"T13", BAD_SHARD_TRUNC, "512 bytes", 1, 0},
    {"T17", BAD_NONE, "after the end", 1, 0},     {"T20", BAD_SHARD_HEADER, "checksum", 1, 1},
    {"T53", BAD_SHARD_EMPTY, "", 1, 0},           {"T54", BAD_SHARD_TYPE, "gunzip", 1, 0},
    {"T55", BAD_SHARD_TYPE, "HTML", 1, 0}};

START_TEST(damages_are_told)
{
    struct index *index = listed(damages[_i].id);
    ck_assert_uint_eq(faults_of(index, damages[_i].cls, damages[_i].word), damages[_i].count);
    ck_assert_uint_eq(index_records(index), damages[_i].records);
    index_free(index);
}
END_TEST

START_TEST(a_hard_link_is_followed)
{
    struct index *index = listed("T06");
    ck_assert_uint_eq(index_records(index), 2);
    ck_assert_str_eq(index_key(index, 1), "hard");
    ck_assert_uint_eq(index_parts(index, 1)->offset, index_parts(index, 0)->offset);
    ck_assert_uint_eq(index_parts(index, 1)->size, 15);
    index_free(index);
}
END_TEST

/* Labels of the plan in order, and the counts of the faults by class. */
static const struct {
    const char *ids[3];
    const char *labels;
    const char *faults;
} sets[] = {
    {{"T38"}, "0,7,14,21,28,35", ""},
    {{"T39"}, "0,7,14,21,28,35", ""},
    {{"T40"}, "0,1,2,0,1", ""},
    {{"T41"}, "5", "PART-MISSING:2"},
    {{"T42"}, "12", "KEY-SPLIT:4"},
    {{"T43"}, "0,2", "KEY-DUP:1"},
    {{"T44", "T45"}, "0,1,2,3", ""},
    {{"T46"}, "0,3", "PART-MISSING:3"},
    {{"T47"}, "0,1,2,3", ""},
    {{"T48"}, "0,7,14,21", "SHARD-TRUNC:1"},
    {{"T48", "T38"}, "0,7,14,21,0,7,14,21,28,35", "SHARD-TRUNC:1"},
    {{"T49"}, "0,7,14,21", "SHARD-TRUNC:1"},
    {{"T50"}, "0,1,2", ""},
    {{"T51"}, "0,7,21,28,35", "PART-MISSING:1 SHARD-HEADER:1"},
    {{"T52"}, "0,1,,3", ""},
    {{"T53", "T38"}, "0,7,14,21,28,35", "SHARD-EMPTY:1"},
    {{"T54", "T38"}, "0,7,14,21,28,35", "SHARD-TYPE:1"},
    {{"T56"}, "0,1", ""},
    {{"T57"}, "0,2,5", "PART-MISSING:3"},
    {{"T58"}, "0,1", ""},
    {{"T59"},
     "7,7\n, 42 ,+5,-1,0007,2147483648,9223372036854775807,9223372036854775808,3.0,cat,,1 2 3,"
     "\xef\xbb\xbf"
     "8",
     ""},
    {{"T60"}, "0,1", ""},
    {{"T61"}, "0", "SHARD-TRUNC:1"},
    {{"T62"}, "0,1,2,3,4,5", ""},
};

static int open_set(const char *const ids[3], struct dataset **out, struct error *err)
{
    static const char *const image[] = {"jpg", "jpeg"}, *const label[] = {"cls"};
    static const struct dataset_field fields[] = {{"image", image, 2}, {"label", label, 1}};
    const char *patterns[3];
    size_t count = 0;
    for (; count < 3 && ids[count]; count++)
        patterns[count] = path_of(ids[count]);
    struct dataset_options options = {.name = "case",
                                      .source = {.patterns = patterns, .count = count},
                                      .fields = fields,
                                      .nfields = 2,
                                      .threads = 2};
    return dataset_open(&options, out, err);
}

static void label_of(const struct dataset *dataset, struct shard *shard, uint32_t s, uint64_t j,
                     char out[200])
{
    struct dataset_record record;
    dataset_record(dataset, s, j, &record);
    ck_assert_uint_lt(record.parts[1].size, 200);
    struct format_read read = {.record = record.number,
                               .offset = record.parts[1].offset,
                               .size = record.parts[1].size,
                               .dst = out};
    shard_read(shard, &read, 1);
    ck_assert_uint_eq(read.got, read.size);
    out[read.got] = '\0';
}

static const char *labels_of(const struct dataset *dataset)
{
    static char text[8000];
    struct error err = {0};
    text[0] = '\0';
    for (uint32_t s = 0; s < dataset_shards(dataset); s++) {
        struct shard *shard;
        ck_assert_int_eq(shard_open(dataset, s, &shard, &err), 0);
        for (uint64_t j = 0; j < dataset_shard_records(dataset, s); j++) {
            char label[200];
            label_of(dataset, shard, s, j, label);
            strcat(text, *text ? "," : "");
            strcat(text, label);
        }
        shard_close(shard);
    }
    return text;
}

static const char *faults_by_class(const struct dataset *dataset)
{
    static char text[1000];
    unsigned counts[BAD_CLASSES_COUNT] = {0};
    text[0] = '\0';
    for (uint32_t i = 0; i < dataset_faults(dataset); i++)
        counts[dataset_fault(dataset, i).cls]++;
    for (unsigned cls = 0; cls < BAD_CLASSES_COUNT; cls++)
        if (counts[cls])
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%u", *text ? " " : "",
                     bad_name((enum bad_class)cls), counts[cls]);
    return text;
}

START_TEST(samples_and_labels)
{
    struct dataset *dataset;
    struct error err = {0};
    int rc = open_set(sets[_i].ids, &dataset, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_str_eq(labels_of(dataset), sets[_i].labels);
    ck_assert_str_eq(faults_by_class(dataset), sets[_i].faults);
    dataset_unref(dataset);
}
END_TEST

static uint64_t records_in(const char *a, const char *b, const char *c)
{
    struct dataset *dataset;
    struct error err = {0};
    int rc = open_set((const char *const[3]){a, b, c}, &dataset, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    uint64_t records = dataset_records(dataset);
    ck_assert_uint_eq(dataset_faults(dataset), 0);
    dataset_unref(dataset);
    return records;
}

START_TEST(counts)
{
    ck_assert_uint_eq(records_in("T63", "T64", "T65"), 68);
    ck_assert_uint_eq(records_in("T66", "T67", NULL), 80);
    ck_assert_uint_eq(records_in("T68", NULL, NULL), 100);
}
END_TEST

START_TEST(the_same_samples_in_another_form)
{
    struct dataset *ustar, *pax;
    struct error err = {0};
    ck_assert_int_eq(open_set((const char *const[3]){"T38"}, &ustar, &err), 0);
    ck_assert_int_eq(open_set((const char *const[3]){"T39"}, &pax, &err), 0);
    ck_assert_str_eq(dataset_fingerprint(ustar), dataset_fingerprint(pax));
    dataset_unref(ustar);
    dataset_unref(pax);
}
END_TEST

START_TEST(nothing_usable)
{
    static const struct {
        const char *id, *word;
    } refused[] = {{"T53", "SHARD-EMPTY"}, {"T54", "gunzip"}, {"T55", "HTML"}, {"T19", "'image'"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct dataset *dataset;
        struct error err = {0};
        ck_assert_int_eq(open_set((const char *const[3]){refused[i].id}, &dataset, &err), -ENODATA);
        ck_assert_msg(strstr(err.text, refused[i].word) != NULL, "%s", err.text);
    }
}
END_TEST

int main(void)
{
    if (!find_rows()) {
        printf("skipped: no %s/REFS.tsv (see DATALOADD_SHARED)\n", folder);
        return SKIPPED;
    }
    Suite *suite = suite_create("cases_tar");
    TCase *tests = tcase_create("cases_tar");
    tcase_add_loop_test(tests, members_as_listed, 0, (int)nrows);
    tcase_add_test(tests, names_beyond_ascii);
    tcase_add_loop_test(tests, damages_are_told, 0, sizeof damages / sizeof *damages);
    tcase_add_test(tests, a_hard_link_is_followed);
    tcase_add_loop_test(tests, samples_and_labels, 0, sizeof sets / sizeof *sets);
    tcase_add_test(tests, counts);
    tcase_add_test(tests, the_same_samples_in_another_form);
    tcase_add_test(tests, nothing_usable);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
