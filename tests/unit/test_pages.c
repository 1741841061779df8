/* control/pages.c and control/page_reply.c: pages by name, in parts, given again for a while. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/pages.h"
#include "control_rig.h"

#define LONG (300U << 10)

static void ask(struct rig_peer *peer, uint64_t id, char *name)
{
    Dlp__PageRequest request = DLP__PAGE_REQUEST__INIT;
    request.name = name;
    SAY(peer, id, PAGE_REQUEST, page_request, &request);
}

START_TEST(pages_have_names)
{
    struct rig_peer *peer = rig_greeted(1);
    ask(peer, 5, "metrics");
    const Dlp__PageReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_PAGE_REPLY)->page_reply;
    ck_assert(!reply->more);
    rig_expect_text(reply->text, "# TYPE dataload_feed_clients gauge\n",
                    "\ndataload_feed_clients{feed=\"small\"} 0\n");
    ask(peer, 6, "matrices");
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST), "no page 'matrices'",
                    "metrics");
    ask(peer, 7, "a page\n");
    rig_await_error(peer, 7, DLP_ERROR_BAD_REQUEST);
    rig_peer_free(peer);
}
END_TEST

START_TEST(a_page_is_given_again_for_a_while)
{
    struct error err;
    struct page *page = pages_get(rig_control->pages, "metrics", &err);
    ck_assert_uint_eq(page->references, 2);
    page->took = CLOCK_SECOND;
    ck_assert_ptr_eq(pages_get(rig_control->pages, "metrics", &err), page);
    page_unref(page);
    page->took = 0;
    struct page *newer = pages_get(rig_control->pages, "metrics", &err);
    ck_assert_ptr_ne(newer, page);
    ck_assert_uint_eq(page->references, 1); /* ours: it outlives its place */
    page_unref(page);
    page_unref(newer);
}
END_TEST

/* Of characters of three bytes, so that no part ends with one by chance. */
static struct page *long_page(void)
{
    struct page *page = mem_new(sizeof *page);
    page->bytes = mem_new(LONG + 1);
    for (size_t i = 0; i < LONG; i += 3)
        memcpy(page->bytes + i, "\xE2\x82\xAC", 3);
    page->size = LONG;
    page->references = 2;
    return page;
}

START_TEST(long_pages_come_in_parts)
{
    struct rig_peer *peer = rig_greeted(1);
    struct page *page = long_page();
    peer->session->reading = (struct page_reading){.page = page, .id = 9};
    uint32_t parts = 0;
    size_t got = 0;
    for (bool more = true; more; parts++) {
        ck_assert(page_reply_continue(peer->session));
        const Dlp__PageReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_PAGE_REPLY)->page_reply;
        size_t size = strlen(reply->text);
        ck_assert_uint_eq(size % 3, 0);
        ck_assert_mem_eq(reply->text, page->bytes + got, size);
        got += size;
        more = reply->more;
    }
    ck_assert_uint_eq(got, LONG);
    ck_assert_uint_eq(parts, 3);
    ck_assert(!page_reply_continue(peer->session));
    ck_assert_uint_eq(page->references, 1);
    page_unref(page);
    rig_peer_free(peer);
}
END_TEST

START_TEST(a_page_that_is_not_read_is_given_up)
{
    struct rig_peer *peer = rig_greeted(1), *other = rig_greeted(2);
    struct page *page = long_page();
    peer->session->reading = other->session->reading = (struct page_reading){.page = page, .id = 9};
    page_reply_continue(peer->session);
    for (int second = 0; second < 10; second++) {
        ck_assert_ptr_nonnull(peer->session->reading.page);
        page_reply_tick(peer->session);
    }
    page_reply_tick(peer->session);
    rig_expect_text(rig_await_error(peer, 9, DLP_ERROR_TOO_MANY), "not read for 10 s", "ask again");
    ck_assert_uint_eq(page->references, 1);
    rig_peer_free(other); /* vanishes and lets go of it */
    rig_peer_free(peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pages");
    TCase *test = tcase_create("pages");
    tcase_add_checked_fixture(test, rig_setup, rig_teardown);
    tcase_add_test(test, pages_have_names);
    tcase_add_test(test, a_page_is_given_again_for_a_while);
    tcase_add_test(test, long_pages_come_in_parts);
    tcase_add_test(test, a_page_that_is_not_read_is_given_up);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
