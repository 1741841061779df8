/* The configuration: what is read, what is refused, and that errors name file, line and key. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "config_yaml.h"
#include "control/http.h"

static struct config *parse(const char *text, struct error *err)
{
    struct config *config = NULL;
    config_parse("F", text, strlen(text), &config, err);
    return config;
}

static struct config *good(const char *text)
{
    struct error err = {0};
    struct config *config = parse(text, &err);
    ck_assert_msg(config != NULL, "%s", err.text);
    return config;
}

#define FEED "feeds:\n  - name: a\n    source: /x.tar\n"

START_TEST(defaults)
{
    struct config *config = good(FEED);
    const struct feed_spec *spec = config_feed(config, "a");
    ck_assert_ptr_nonnull(spec);
    ck_assert_uint_eq(config->workers, 0);
    ck_assert_uint_eq(config->workers_max, 0);
    ck_assert_uint_ge(config_workers(config), 1);
    ck_assert(!config->pin_workers);
    ck_assert_uint_eq(config->memory, 0);
    ck_assert_uint_eq(config->job_linger, 60);
    ck_assert_uint_eq(config->cache_bytes, 4ULL << 30);
    ck_assert(config->cache_marks);
    ck_assert_uint_eq(spec->shuffle, 16384);
    ck_assert_uint_eq(spec->lanes, 64);
    ck_assert_uint_eq(spec->slots, 4);
    ck_assert_uint_eq(spec->seed, 0);
    ck_assert_uint_eq(spec->weight, 1);
    ck_assert_int_eq(spec->tail, TAIL_WRAP);
    ck_assert_int_eq(spec->share, SHARE_SPLIT);
    ck_assert_int_eq(spec->handoff, HANDOFF_AUTO);
    ck_assert_int_eq(spec->lag, LAG_WAIT);
    ck_assert_uint_eq(spec->lag_bound, 10);
    ck_assert_int_eq(spec->bad_samples, BAD_REPLACE);
    ck_assert(spec->bad_limit == UINT64_MAX);
    ck_assert_uint_eq(spec->transform.count, 2);
    ck_assert_uint_eq(spec->transform.height, 224);
    ck_assert_float_eq(spec->transform.std[1], 1);
    ck_assert_uint_eq(spec->nfields, 2);
    ck_assert_str_eq(spec->fields[0].from[1], "jpeg");
    ck_assert_str_eq(spec->fields[1].from[0], "cls");
    ck_assert_ptr_null(config_feed(config, "b"));
    config_free(config);
}
END_TEST

START_TEST(eval_defaults)
{
    struct config *config = good(FEED "    transform: eval\n");
    ck_assert_uint_eq(config->feeds[0]->shuffle, 0);
    ck_assert_int_eq(config->feeds[0]->tail, TAIL_PARTIAL);
    config_free(config);
    config = good(FEED "    pixels: fast\n    transform: eval\n");
    ck_assert(config->feeds[0]->transform.fast);
    config_free(config);
    config = good(FEED "    pixels: exact\n");
    ck_assert(!config->feeds[0]->transform.fast);
    config_free(config);
    config = good(FEED "    transform: eval\n    shuffle: 5\n    tail: drop\n");
    ck_assert_uint_eq(config->feeds[0]->shuffle, 5);
    ck_assert_int_eq(config->feeds[0]->tail, TAIL_DROP);
    config_free(config);
}
END_TEST

START_TEST(everything)
{
    struct config *config = good(
        "workers: 3\npin_workers: yes\nmemory: 16GiB\ncache: {path: /c, bytes: 10MB, marks: off}\n"
        "feeds:\n  - name: f\n    source: [/a.tar, '/b-{0..9}.tar']\n"
        "    output: float32_nchw\n    mean: [0.5, 0.25, 1e-1]\n    std: [1, 2, 3]\n"
        "    fields:\n      - {name: x, from: JPG, kind: image}\n"
        "      - {name: y, from: [json], key: id, kind: int, classes: 7}\n"
        "      - {name: z, from: [txt], kind: bytes, max_bytes: 4KiB}\n"
        "    transform: [{random_resized_crop: {size: [32, 48], scale: [0.5, 1], "
        "interpolation: bicubic}}, {flip: 0.25}]\n"
        "    batch: 8\n    seed: 18446744073709551615\n    bad_limit: 0.5%\n"
        "    bad_samples: fail\n    handoff: vmm\n    share: mirror\n    lag: skip\n    lag_bound: "
        "30\n    "
        "exif: turn\n    decoder: turbo\n    pin: [batch, slots]\n  "
        "  allow: {users: "
        "[root, 1234]}\n    exclude: /lists/left-out.txt\n");
    const struct feed_spec *spec = config->feeds[0];
    ck_assert_uint_eq(config->workers, 3);
    ck_assert_uint_eq(config_workers(config), 3);
    ck_assert(config->pin_workers);
    ck_assert_uint_eq(config->memory, 16ULL << 30);
    ck_assert_str_eq(config->cache_dir, "/c");
    ck_assert_uint_eq(config->cache_bytes, 10000000);
    ck_assert(!config->cache_marks);
    ck_assert_uint_eq(spec->npatterns, 2);
    ck_assert_str_eq(spec->fields[0].from[0], "jpg");
    ck_assert_str_eq(spec->fields[1].json_key, "id");
    ck_assert_int_eq(spec->fields[1].classes, 7);
    ck_assert_uint_eq(spec->fields[2].max_bytes, 4096);
    ck_assert_int_eq(spec->transform.pixels, PIXELS_F32_NCHW);
    ck_assert_float_eq(spec->transform.mean[1], 0.25f);
    ck_assert_float_eq(spec->transform.std[2], 3);
    ck_assert_uint_eq(spec->transform.height, 32);
    ck_assert_uint_eq(spec->transform.width, 48);
    ck_assert_int_eq(spec->transform.ops[0].filter, FILTER_BICUBIC);
    ck_assert_double_eq(spec->transform.ops[0].scale[0], 0.5);
    ck_assert_double_eq(spec->transform.ops[0].ratio[0], 0.75);
    ck_assert_double_eq(spec->transform.ops[1].probability, 0.25);
    ck_assert(spec->transform.exif);
    ck_assert(spec->transform.turbo);
    ck_assert(spec->seed == UINT64_MAX);
    ck_assert_double_eq(spec->bad_limit_share, 0.005);
    ck_assert_int_eq(spec->bad_samples, BAD_FAIL);
    ck_assert_uint_eq(spec->pinned, PIN_BATCH | PIN_SLOTS);
    ck_assert_uint_eq(spec->nusers, 2);
    ck_assert_uint_eq(spec->users[0], 0);
    ck_assert_uint_eq(spec->users[1], 1234);
    ck_assert_str_eq(spec->exclude, "/lists/left-out.txt");
    ck_assert_int_eq(spec->share, SHARE_MIRROR);
    ck_assert_int_eq(spec->handoff, HANDOFF_VMM);
    ck_assert_int_eq(spec->lag, LAG_SKIP);
    ck_assert_uint_eq(spec->lag_bound, 30);
    config_free(config);
}
END_TEST

/* The order of keys does not matter: a preset keeps the output that was read before it. */
static void ck_limits(const struct user_limits *limits, const char *words)
{
    char text[USERS_WORDS_MAX];
    ck_assert_str_eq(users_words(limits, text), words);
}

/* What an entry leaves out is as in `default`, wherever that stands, and that as built in. */
START_TEST(limits_of_users)
{
    struct config *config = good(FEED);
    ck_assert_uint_eq(config->users.count, 0);
    ck_limits(&config->users.rest,
              "memory none, clients none, descriptors 4096, threads none, weight 1");
    config_free(config);
    config = good("users:\n  - {name: root, memory: 64MB}\n"
                  "  - {name: default, memory: 1GB, clients: 4, threads: 2}\n"
                  "  - {name: 1234, memory: none, clients: none, threads: none, descriptors: 0, "
                  "weight: 1000}\n" FEED "    weight: 7\n");
    const struct users *users = &config->users;
    ck_assert_uint_eq(users->count, 2);
    ck_assert_uint_eq(users->list[0].uid, 0);
    ck_assert_str_eq(users->list[0].name, "root");
    ck_assert_uint_eq(users->list[1].uid, 1234);
    ck_limits(&users->rest, "memory 1000.0 MB, clients 4, descriptors 4096, threads 2, weight 1");
    ck_limits(&users->list[0].limits,
              "memory 64.0 MB, clients 4, descriptors 4096, threads 2, weight 1");
    ck_limits(&users->list[1].limits,
              "memory none, clients none, descriptors 0, threads none, weight 1000");
    ck_assert_uint_eq(config->feeds[0]->weight, 7);
    struct users copy;
    users_copy(&copy, users);
    config_free(config);
    ck_assert_str_eq(copy.list[1].name, "1234");
    users_clear(&copy);
}
END_TEST

START_TEST(output_before_transform)
{
    struct config *config = good(FEED "    output: float16_nchw\n    exif: turn\n    mean: [0.5, "
                                      "0.5, 0.5]\n    transform: eval\n");
    ck_assert_int_eq(config->feeds[0]->transform.pixels, PIXELS_F16_NCHW);
    ck_assert(config->feeds[0]->transform.exif && !config->feeds[0]->transform.turbo);
    ck_assert_float_eq(config->feeds[0]->transform.mean[0], 0.5f);
    config_free(config);
}
END_TEST

static const struct {
    const char *text;
    const char *said[3]; /* all of these stand in the error */
} wrong[] = {
    {"", {"F:1:", "empty"}},
    {"# only a comment\n", {"F:", "empty"}},
    {"workers: 1\n", {"feeds", "at least one"}},
    {FEED "---\n" FEED, {"F:4:", "second document"}},
    {"a: &x 1\nb: *x\n", {"F:2:", "alias"}},
    {"workers: 1\nworkerz: 2\n" FEED, {"F:2:", "workerz", "known are"}},
    {"workers: 1\nworkers: 2\n" FEED, {"F:2:", "workers", "twice"}},
    {"workers: 1e3\n" FEED, {"F:1:", "workers", "1e3"}},
    {"workers: 010\n" FEED, {"F:1:", "010"}},
    {"workers: 0\n" FEED, {"workers", "at least 1"}},
    {"workers: -1\n" FEED, {"workers", "-1"}},
    {"memory: 16Gib\n" FEED, {"memory", "16Gib"}},
    {"memory: 99999999TiB\n" FEED, {"memory"}},
    {"memory: [1]\n" FEED, {"F:1:", "memory", "single value"}},
    {"memory: 0\n" FEED, {"F:1:", "memory", "or auto"}},
    {"memory: 63MiB\n" FEED, {"memory", "64MiB"}},
    {"decode_memory: 0\n" FEED, {"decode_memory", "or auto"}},
    {"decode_memory: 1000\n" FEED, {"decode_memory", "1MiB"}},
    {"memory: 1GiB\ndecode_memory: 1GiB\n" FEED, {"decode_memory", "less than memory"}},
    {"client_memory: 0\n" FEED, {"client_memory", "or auto"}},
    {"workers: 1025\n" FEED, {"workers", "1025"}},
    {"workers_max: 1025\n" FEED, {"workers_max", "1025"}},
    {"workers: 4\nworkers_max: 8\n" FEED, {"workers_max", "bound of workers: auto", "4"}},
    {"pin_workers: 2\n" FEED, {"F:1:", "\"2\"", "yes or no"}},
    {"pin_workers: [yes]\n" FEED, {"F:1:", "pin_workers"}},
    {"clients: 0\n" FEED, {"clients", "1 to"}},
    {"job_linger: 4294967296\n" FEED, {"job_linger", "too large"}},
    {"cache: {path: relative}\n" FEED, {"path", "absolute"}},
    {"cache: {marks: yes}\n" FEED, {"marks", "on, off"}},
    {"feeds: 5\n", {"feeds", "list"}},
    {"feeds:\n  - source: /x.tar\n", {"F:2:", "name"}},
    {"feeds:\n  - name: \"a b\"\n    source: /x\n", {"F:2:", "a b", "no name"}},
    {"feeds:\n  - name: a\n", {"a", "source", "folder"}},
    {FEED "    folder: /y\n", {"either source"}},
    {FEED "  - name: a\n    source: /y.tar\n", {"two feeds"}},
    {FEED "    transform: trane\n", {"F:4:", "transform: no preset trane"}},
    {FEED "    transform: [{rotate: 5}]\n", {"rotate", "known are"}},
    {FEED "    pixels: quick\n", {"F:4:", "pixels: \"quick\"", "known are exact, fast"}},
    {FEED "    pixels: fast\n    decoder: turbo\n", {"F:", "pixels: fast", "decoder: turbo"}},
    {FEED "    transform: [{random_resized_crop: {size: 0}}]\n", {"a", "0"}},
    {FEED "    transform: [{random_resized_crop: {scale: [1]}}]\n", {"scale", "2 numbers"}},
    {FEED "    transform: [{flip: 1.5}]\n", {"flip", "1.5"}},
    {FEED "    output: uint8\n", {"output", "uint8_nhwc"}},
    {FEED "    tail: cut\n", {"tail", "wrap"}},
    {FEED "    share: all\n", {"share", "split, mirror"}},
    {FEED "    handoff: gpu\n", {"handoff", "auto, vmm, ipc, host"}},
    {FEED "    share: mirror\n    lag: go\n", {"lag", "wait, detach, skip"}},
    {FEED "    lag: skip\n", {"lag", "share: mirror"}},
    {FEED "    share: mirror\n    lag_bound: 5\n", {"lag_bound", "lag: detach"}},
    {FEED "    share: mirror\n    lag: skip\n    lag_bound: 0\n", {"lag_bound 0", "1 to 3600"}},
    {FEED "    share: mirror\n    lag: skip\n    slots: 2\n", {"slots 2", "lag: skip", "3"}},
    {FEED "    batch: 70000\n", {"batch", "70000"}},
    {FEED "    slots: 1\n", {"slots", "2 to"}},
    {FEED "    lanes: 0\n", {"lanes"}},
    {FEED "    bad_limit: 500%\n", {"bad_limit", "500%"}},
    {FEED "    bad_limit: many\n", {"bad_limit", "many"}},
    {FEED "    bad_limit: 0x1%\n", {"bad_limit", "0x1%"}},
    {FEED "    bad_limit: 0%\n", {"bad_limit", "0%"}},
    {FEED "    bad_limit: 1.2.3%\n", {"bad_limit", "1.2.3%"}},
    {FEED "    bad_limit: '%'\n", {"bad_limit", "share"}},
    {FEED "    shuffle: 18446744073709551616\n", {"shuffle", "18446744073709551616"}},
    {FEED "    pin: [batch]\n", {"pinned"}},
    {FEED "    allow: {users: [no-such-user-here]}\n", {"no-such-user-here"}},
    {FEED "    weight: 0\n", {"F:2:", "weight 0", "1 to 1000"}},
    {FEED "    weight: 1001\n", {"weight 1001", "1 to 1000"}},
    {"users: {name: root}\n" FEED, {"F:1: users:", "list of users"}},
    {"users:\n  - {memory: 1GiB}\n" FEED, {"F:2:", "needs a name"}},
    {"users:\n  - {name: no-such-user-here}\n" FEED,
     {"F:2: name:", "no user \"no-such-user-here\""}},
    {"users:\n  - {name: 4294967296}\n" FEED, {"no user \"4294967296\""}},
    {"users:\n  - {name: root}\n  - {name: 0}\n" FEED, {"F:3: 0:", "root is in the list"}},
    {"users:\n  - {name: default}\n  - {name: default}\n" FEED, {"F:3: default:", "already"}},
    {"users:\n  - {name: root, memory: 0}\n" FEED, {"F:2: memory:", "or none"}},
    {"users:\n  - {name: root, memory: much}\n" FEED, {"memory", "much"}},
    {"users:\n  - {name: root, clients: 0}\n" FEED, {"clients: 0", "1 to 1024, or none"}},
    {"users:\n  - {name: root, threads: 100000}\n" FEED, {"threads: 100000", "or none"}},
    {"users:\n  - {name: root, weight: 0}\n" FEED, {"weight: 0", "1 to 1000"}},
    {"users:\n  - {name: root, weight: none}\n" FEED, {"weight", "none"}},
    {"users:\n  - {name: root, nice: 3}\n" FEED,
     {"F:2: nice:", "unknown key in a user", "threads"}},
    {FEED "    fields: [{name: x, from: jpg}]\n", {"x", "kind"}},
    {FEED "    fields: [{name: x, kind: image}]\n", {"x", "from"}},
    {FEED "    fields: [{name: x, from: jpg, kind: image, classes: 5}]\n", {"classes"}},
    {FEED "    fields: [{name: x, from: cls, kind: int, classes: 0}]\n", {"classes", "at least 1"}},
    {FEED "    fields: [{name: x, from: cls, kind: int, classes: 9223372036854775808}]\n",
     {"classes", "too large"}},
    {FEED "    fields: [{name: x, from: txt, kind: bytes, max_bytes: 0}]\n",
     {"max_bytes", "at least 1"}},
    {FEED "    fields: [{name: valid, from: jpg, kind: image}]\n", {"valid", "already"}},
    {FEED "    fields: [{name: x, from: a, kind: int}, {name: x, from: b, kind: int}]\n",
     {"two fields"}},
    {FEED "    mean: [1, 2]\n", {"mean", "3 numbers"}},
    {FEED "    mean: [0, 0, 0.5]\n", {"F:", "mean and std", "float32_nchw"}},
    {FEED "    std: [1, 2, 1]\n    output: uint8_nchw\n", {"F:", "mean and std", "float32_nchw"}},
    {FEED "    fields: [{name: k, kind: key, from: jpg}]\n", {"F:", "k", "no from"}},
    {"feeds: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n", {"deep"}},
    {"feeds: {\n", {"F:", "not valid YAML"}},
    {"workers: \"\\0\"\n" FEED, {"workers"}},
};

START_TEST(refusals)
{
    struct error err = {0};
    ck_assert_ptr_null(parse(wrong[_i].text, &err));
    ck_assert_int_lt(err.code, 0);
    for (int i = 0; i < 3 && wrong[_i].said[i]; i++)
        ck_assert_msg(strstr(err.text, wrong[_i].said[i]), "\"%s\" lacks \"%s\"", err.text,
                      wrong[_i].said[i]);
    ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

static const struct {
    const char *a, *b;
    bool equal;
} recipes[] = {
    {"{ name: a, source: /x, batch: 4 }", "{ batch: 4, name: a, source: /x }", false},
    {"{ name: a, source: /x, batch: 4 }", "{ name: a, source: \"/x\",   batch: 4 } # why", true},
    {"{ name: a, source: /x, batch: 4 }", "{ name: a, source: /x, batch: 5 }", false},
    {"{ name: a, source: [/x, /y] }", "{ name: a, source: [/x/, y] }", false},
    {"{ name: a, source: /x, allow: { users: [0] } }",
     "{ name: a, source: /x, allow: { users: [1] } }", false},
};

static uint64_t digest_of(const char *feed)
{
    char text[200];
    snprintf(text, sizeof text, "feeds:\n  - %s\n", feed);
    struct config *config = good(text);
    uint64_t digest = config->feeds[0]->digest;
    config_free(config);
    return digest;
}

START_TEST(digests_tell_recipes_apart)
{
    ck_assert_int_eq(digest_of(recipes[_i].a) == digest_of(recipes[_i].b), recipes[_i].equal);
}
END_TEST

START_TEST(a_feed_outlives_its_configuration)
{
    struct config *config = good("feeds:\n  - { name: a, source: /x }\n");
    const struct feed_spec *spec = spec_ref(config->feeds[0]);
    config_free(config);
    ck_assert_str_eq(spec->name, "a");
    spec_unref(spec);
}
END_TEST

START_TEST(numbers)
{
    uint64_t out;
    ck_assert_int_eq(config_parse_u64("18446744073709551615", &out), 0);
    ck_assert(out == UINT64_MAX);
    ck_assert_int_lt(config_parse_u64("18446744073709551616", &out), 0);
    ck_assert_int_lt(config_parse_u64("", &out), 0);
    ck_assert_int_lt(config_parse_u64(" 1", &out), 0);
    ck_assert_int_lt(config_parse_u64("1 ", &out), 0);
    ck_assert_int_eq(config_parse_size("3 MiB", &out), 0);
    ck_assert_uint_eq(out, 3U << 20);
    ck_assert_int_eq(config_parse_size("0", &out), 0);
    ck_assert_int_lt(config_parse_size("MiB", &out), 0);
    ck_assert_int_lt(config_parse_size("1.5GiB", &out), 0);
    ck_assert_int_lt(config_parse_size("1  MiB", &out), 0);
}
END_TEST

START_TEST(sample_file)
{
    struct config *config = NULL;
    struct error err = {0};
    ck_assert_msg(config_read(SOURCE_DIR "/systemd/dataloadd.yaml", &config, &err) == 0, "%s",
                  err.text);
    config_free(config);
    ck_assert_int_eq(config_read("/no/such/file", &config, &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "/no/such/file"));
    ck_assert_int_lt(config_read("/tmp", &config, &err), 0);
}
END_TEST

START_TEST(metrics)
{
    struct error err = {0};
    char text[HTTP_ADDRESS_MAX];
    if (!http_built()) {
        ck_assert_ptr_null(parse("metrics: 127.0.0.1:1\n" FEED, &err));
        ck_assert_ptr_nonnull(strstr(err.text, "built without libmicrohttpd"));
        return;
    }
    struct config *config = good("metrics: 127.0.0.1:9475\n" FEED);
    ck_assert_str_eq(http_address_text(&config->metrics, text), "127.0.0.1:9475");
    config_free(config);
    config = good("metrics: \"[::1]:0\"\n" FEED);
    ck_assert_str_eq(http_address_text(&config->metrics, text), "[::1]:0");
    config_free(config);
    config = good(FEED);
    ck_assert_uint_eq(config->metrics.size, 0);
    config_free(config);
    ck_assert_ptr_null(parse("metrics: 0.0.0.0:9475\n" FEED, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "F:1: metrics: \"0.0.0.0:9475\" is not on"));
    ck_assert_ptr_null(parse("metrics: [1]\n" FEED, &err));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    tcase_add_loop_test(tcase, digests_tell_recipes_apart, 0, sizeof recipes / sizeof *recipes);
    tcase_add_test(tcase, a_feed_outlives_its_configuration);
    tcase_add_test(tcase, defaults);
    tcase_add_test(tcase, eval_defaults);
    tcase_add_test(tcase, everything);
    tcase_add_test(tcase, limits_of_users);
    tcase_add_test(tcase, output_before_transform);
    tcase_add_loop_test(tcase, refusals, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tcase, metrics);
    tcase_add_test(tcase, numbers);
    tcase_add_test(tcase, sample_file);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
