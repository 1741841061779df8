/* proto/page: figures, escapes, and a page from reports that are full, hostile or wrong. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/page/markup.h"
#include "proto/page/page.h"

#define HOSTILE "</style></script><img src=x onerror=alert(1)>\"' onload='x &amp; \x01\x7f"

static const char full[] =
    "{'version':'1.2','host':'node7','taken':'2026-01-01 00:00:00 UTC','pid':7,'uptime_s':90061,"
    "'workers':2,'workers_max':14,'workers_why':'decode limits','worker_cpus':'0-3',"
    "'memory_used':1500000000,'memory_limit':4e9,'throttled_share':0.25,'device':'shared memory',"
    "'wait_bounds_s':[0.0001,0.01,3],"
    "'clients':["
    "{'pid':11,'user':'ann','job':'run','rank':0,'world':2,'feed':'train','state':'streaming',"
    "'samples_per_s':400,'compute_limit':600,'wait_share':0.3,'ready':1,'slots':4,'verdict':'V1',"
    "'wait_counts':[0,30,0,10],'limiting_stage':'decode','last_cause':'decode',"
    "'causes':[{'name':'decode','stalls':54,'wait_s':12.34},{'name':'storage','stalls':2,'wait_s':"
    "0.4}],"
    "'ready_share':0.9,'gpu':'GPU-1','reason':'reads "
    "x','history':{'wait_share':[0,0.3,1],'samples_per_s':[0,500,250]}},"
    "{'pid':12,'user':'ann','job':'a','feed':'train','group':'g','compute_limit':500},"
    "{'pid':13,'user':'ann','job':'b','feed':'train','group':'g','compute_limit':100},"
    "{'pid':14,'feed':'train','probe':true,'compute_limit':9999}],"
    "'feeds':[{'name':'train','clients':4,'records':1234567,'shards':3,'samples_per_s':500,"
    "'verdict':'decode limits','limiting_stage':'decode','remedies':['R1','R2'],'notes':['N1'],"
    "'shuffle_fill':0.5,'stages':["
    "{'name':'read','limit':90000,'queued':1000000,'room':2000000},"
    "{'name':'decode','limit':1040,'queued':3,'room':9},{'name':'augment','limit':1040},{'name':'"
    "slots','queued':1,'room':4}]}],"
    "'mixes':[{'feed':'train','batches':20,'rows':640,'label_mix':{'batch':0.5,'poor':true},"
    "'mix':[{'label':3,'share':0.1,'share_batches':0.2}],'notes':['M1']}],"
    "'sheets':[{'feed':'train','png':'aGFsbG8='}]}";

static json_t *load(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; (at = strchr(at, '\'')); at++)
        *at = '"';
    json_error_t err;
    json_t *json = json_loads(copy, 0, &err);
    ck_assert_msg(json != NULL, "%s at %d", err.text, err.position);
    free(copy);
    return json;
}

static void has(const char *page, const char *text)
{
    ck_assert_msg(strstr(page, text) != NULL, "the page lacks '%s'", text);
}

static void lacks(const char *page, const char *text)
{
    ck_assert_msg(strstr(page, text) == NULL, "the page has '%s'", text);
}

START_TEST(a_full_report)
{
    json_t *report = load(full);
    char *page = page_html(report, false);
    has(page, "<title>dataloadd on node7</title>");
    has(page, ">decode limits</p>");
    has(page, "<li>R2</li>");
    has(page, "<li>N1</li>");
    has(page, ">M1</p>");
    has(page, "class=\"stage limits\"><text y=\"78\" class=\"name\">decode &#9664; limits");
    has(page, "with augment, 520/s</text>");
    has(page, "demand 700/s"); /* 600, and 100 of the group's slowest; no probe */
    has(page, "2 of at most 14, on CPUs 0-3: decode limits");
    has(page, "1.5 GB of 4.0 GB");
    has(page, "25 h 1 min");
    has(page, "1,234,567");
    has(page, "3/9 rows");
    has(page, "to 10 ms</text>");
    has(page, "over 3 s</text>");
    lacks(page, "to 0.1 ms</text>");
    has(page, "decode 54 (12.3 s), storage 2 (400.0 ms)</dd>");
    has(page, "90 % of the time");
    has(page, "base64,aGFsbG8=\"");
    has(page, "3 seconds are known; on average 43 % of them was waited; highest rate 500/s.");
    lacks(page, "<script");
    lacks(page, "This port");
    free(page);
    page = page_html(report, true);
    has(page, "<script>");
    has(page, "This port does not know who asks");
    free(page);
    json_decref(report);
}
END_TEST

/* All texts of it become the hostile one. */
static json_t *poisoned(const json_t *value)
{
    json_t *out, *item;
    size_t i;
    const char *key;
    if (json_is_string(value))
        return json_string(HOSTILE);
    if (json_is_array(value)) {
        out = json_array();
        json_array_foreach (value, i, item)
            json_array_append_new(out, poisoned(item));
        return out;
    }
    if (!json_is_object(value))
        return json_deep_copy(value);
    out = json_object();
    json_object_foreach ((json_t *)value, key, item)
        json_object_set_new(out, key, poisoned(item));
    return out;
}

START_TEST(texts_are_nothing_but_text)
{
    json_t *report = load(full), *evil = poisoned(report);
    for (int live = 0; live < 2; live++) {
        char *page = page_html(evil, live);
        lacks(page, "<img src=x");
        lacks(page, "' onload");
        lacks(page, "\x01");
        has(page, "&lt;/style&gt;&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;");
        const char *style = strstr(page, "</style>");
        ck_assert_ptr_null(strstr(style + 1, "</style>"));
        const char *script = strstr(page, "</script>");
        ck_assert(!live ? !script : script && !strstr(script + 1, "</script>"));
        free(page);
    }
    json_decref(evil);
    json_decref(report);
}
END_TEST

START_TEST(what_is_missing_or_of_another_kind_is_left_out)
{
    static const char *const reports[] = {
        "{}",
        "{'clients':5,'feeds':'x','mixes':{},'sheets':3}",
        "{'clients':[null,3,'x',[],{}],'feeds':[null,3,{},{'clients':1}],'mixes':[null,{}]}",
        "{'feeds':[{'name':'f','clients':1,'records':1,'remedies':[3,null],'notes':[{}],"
        "'stages':[null,{'limit':1e308},{'name':'x','limit':1e-308,'room':1e-300,'queued':1e300}]}]"
        ","
        "'wait_bounds_s':[],'clients':[{'feed':'f','wait_counts':[1,2],'history':{'wait_share':[1]}"
        "}],"
        "'mixes':[{'feed':'f','mix':[null,{}],'notes':[7]}],'sheets':[{'feed':'f'}]}",
        "{'wait_bounds_s':[1],'clients':[{'wait_counts':[1,2,3,4],'wait_share':-5,'pid':1e300}]}",
    };
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        json_t *report = load(reports[i]);
        char *page = page_html(report, i % 2);
        has(page, "</html>");
        lacks(page, "nan");
        lacks(page, "inf%");
        free(page);
        json_decref(report);
    }
}
END_TEST

START_TEST(many_clients_are_bounded)
{
    json_t *report = json_object(), *clients = json_array();
    for (int i = 0; i < 200; i++)
        json_array_append_new(clients, json_pack("{s:i,s:f}", "pid", i, "wait_share", i / 200.0));
    json_object_set_new(report, "clients", clients);
    char *page = page_html(report, false);
    has(page, "The 64 of 200 clients that wait most.");
    has(page, "<h3>pid 199, ");
    has(page, "<h3>pid 136, ");
    lacks(page, "<h3>pid 135, ");
    free(page);
    json_decref(report);
}
END_TEST

START_TEST(figures_have_units)
{
    char text[MARKUP_FIGURE];
    ck_assert_str_eq(markup_count(0, text), "0");
    ck_assert_str_eq(markup_count(999.6, text), "1,000");
    ck_assert_str_eq(markup_count(-1234567, text), "-1,234,567");
    ck_assert_str_eq(markup_count(NAN, text), "0");
    ck_assert_str_eq(markup_rate(2.46, text), "2.5/s");
    ck_assert_str_eq(markup_rate(1e17, text), "100,000,000,000,000,000/s");
    ck_assert_str_eq(markup_rate(INFINITY, text), "0/s");
    ck_assert_str_eq(markup_bytes(999, text), "999 B");
    ck_assert_str_eq(markup_bytes(1234567, text), "1.2 MB");
    ck_assert_str_eq(markup_seconds(0.0000042, text), "4 \xc2\xb5s");
    ck_assert_str_eq(markup_seconds(0.0042, text), "4.2 ms");
    ck_assert_str_eq(markup_seconds(59.94, text), "59.9 s");
    ck_assert_str_eq(markup_seconds(3 * 3600 + 12 * 60, text), "3 h 12 min");
    ck_assert_str_eq(markup_seconds(1e300, text), "0 \xc2\xb5s");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page");
    TCase *test = tcase_create("page");
    tcase_add_test(test, a_full_report);
    tcase_add_test(test, texts_are_nothing_but_text);
    tcase_add_test(test, what_is_missing_or_of_another_kind_is_left_out);
    tcase_add_test(test, many_clients_are_bounded);
    tcase_add_test(test, figures_have_units);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
