/* The recipe of a feed of a user's own: an entry of the configuration that names no file and nobody
 * else. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "config_recipe.h"
#include "proto/limits.h"

static struct error err;

static struct feed_spec *parse(const char *text)
{
    struct feed_spec *spec = NULL;
    int rc = config_recipe_parse(text, strlen(text), 1000, &spec, &err);
    ck_assert_int_eq(!rc, spec != NULL);
    return spec;
}

START_TEST(yaml_and_json)
{
    struct feed_spec *yaml = parse("name: a\nbatch: 8\ntransform: eval\n");
    struct feed_spec *json = parse("{\"name\": \"a\", \"batch\": 8, \"transform\": \"eval\"}");
    ck_assert_msg(yaml && json, "%s", err.text);
    ck_assert_str_eq(yaml->name, "~1000/a");
    ck_assert_uint_eq(yaml->nusers, 1);
    ck_assert_uint_eq(yaml->users[0], 1000);
    ck_assert_uint_eq(yaml->ngroups, 0);
    ck_assert_uint_eq(yaml->npatterns, 0);
    ck_assert_uint_eq(json->batch, 8);
    ck_assert_uint_eq(json->nfields, 2);
    ck_assert_uint_eq(json->shuffle, 0);
    ck_assert(yaml->digest == json->digest);
    spec_unref(yaml);
    spec_unref(json);
}
END_TEST

static const struct {
    const char *text, *says;
} wrong[] = {
    {"", "recipe:1"},
    {"# nothing\n", "recipe:1"},
    {"[a, b]", "recipe:1: the recipe: must be a mapping"},
    {"[a]: b", "recipe:1: the recipe: must be a single value"},
    {"batch: 4", "recipe:1: name: a feed needs a name"},
    {"name: a\nsource: /x.tar", "recipe:2: source: the client opens the shards"},
    {"name: a\nfolder: /x", "recipe:2: folder: a feed of one's own has shards"},
    {"name: a\nexclude: /etc/shadow", "recipe:2: exclude: the daemon opens no file for a user"},
    {"allow: {users: [root]}\nname: a", "recipe:1: allow: a feed of one's own is for its user"},
    {"name: a\nbatch: 1e3", "recipe:2: batch"},
    {"name: a\nname: b", "recipe:2: name: given twice"},
    {"name: ~1/a", "recipe:1: name: \"~1/a\" is no name"},
    {"name: a\n---\nname: b", "recipe:2: a second document"},
    {"name: &x a\nbatch: *x", "aliases are not allowed"},
    {"name: a\ntransform: [{center_crop: {size: 1000000}}]", "center_crop"},
};

START_TEST(refusals)
{
    ck_assert_ptr_null(parse(wrong[_i].text));
    ck_assert_msg(strstr(err.text, wrong[_i].says), "%s", err.text);
}
END_TEST

START_TEST(long_names)
{
    char text[200] = "name: ";
    memset(text + 6, 'n', DLP_NAME_MAX - strlen("~1000/"));
    struct feed_spec *spec = parse(text);
    ck_assert_msg(spec && strlen(spec->name) == DLP_NAME_MAX, "%s", err.text);
    spec_unref(spec);
    text[strlen(text)] = 'n';
    ck_assert_ptr_null(parse(text));
    ck_assert_msg(strstr(err.text, "129 characters, at most 128"), "%s", err.text);
}
END_TEST

/* It is parsed on the loop's thread. The worst that its length allows: keys, levels, parts. */
START_TEST(takes_no_time)
{
    char text[DLP_RECIPE_MAX + 1] = "name: a\nfields:\n";
    size_t used = strlen(text);
    for (int i = 0; i < DATASET_FIELDS_MAX; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "- {name: f%d, kind: bytes, from: [", i);
        for (int k = 0; k < 64; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%sp%d", k ? "," : "", k);
        used += (size_t)snprintf(text + used, sizeof text - used, "]}\n");
    }
    ck_assert_uint_lt(used, sizeof text);
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 10; i++) {
        uint64_t begin = clock_ns();
        struct feed_spec *spec = parse(text);
        uint64_t took = clock_ns() - begin;
        ck_assert_msg(spec != NULL, "%s", err.text);
        spec_unref(spec);
        best = took < best ? took : best;
    }
    fprintf(stderr, "%zu bytes: %.3f ms\n", used, (double)best / 1e6);
    ck_assert_uint_lt(best, 20 * CLOCK_MS); /* on the slowest machine, under a sanitizer */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recipe");
    TCase *test = tcase_create("recipe");
    tcase_add_test(test, yaml_and_json);
    tcase_add_loop_test(test, refusals, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(test, long_names);
    tcase_add_test(test, takes_no_time);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
