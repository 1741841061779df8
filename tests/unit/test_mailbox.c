#include "base/mailbox.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define THREADS 4
#define LETTERS 20000

struct letter {
    struct mail mail; /* first */
    unsigned thread, number;
};

static uv_loop_t loop;
static struct mailbox *mailbox;
static pthread_t loop_thread;
static unsigned next_number[THREADS], delivered, out_of_order, on_other_thread;

static void setup(void)
{
    uv_loop_init(&loop);
    mailbox = mailbox_new(&loop);
    loop_thread = pthread_self();
}

/* Closes the mailbox; the loop must then have nothing left. */
static void finish(void)
{
    mailbox_free(mailbox);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void on_letter(struct mail *mail)
{
    struct letter *letter = (struct letter *)mail;
    out_of_order += letter->number != next_number[letter->thread];
    on_other_thread += !pthread_equal(pthread_self(), loop_thread);
    next_number[letter->thread] = letter->number + 1;
    delivered++;
    free(letter);
}

static void *post_letters(void *context)
{
    for (unsigned i = 0; i < LETTERS; i++) {
        struct letter *letter = malloc(sizeof *letter);
        *letter = (struct letter){
            .mail.deliver = on_letter, .thread = (unsigned)(uintptr_t)context, .number = i};
        mailbox_post(mailbox, &letter->mail);
    }
    return NULL;
}

START_TEST(many_threads_keep_their_order)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, post_letters, (void *)i);
    while (delivered < THREADS * LETTERS)
        uv_run(&loop, UV_RUN_ONCE);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(delivered, THREADS * LETTERS);
    ck_assert_uint_eq(out_of_order, 0);
    ck_assert_uint_eq(on_other_thread, 0);
    finish();
}
END_TEST

static unsigned again;

static void on_again(struct mail *mail)
{
    if (++again < 5)
        mailbox_post(mailbox, mail);
}

START_TEST(deliver_may_post_again)
{
    struct mail mail = {.deliver = on_again};
    mailbox_post(mailbox, &mail);
    while (again < 5)
        uv_run(&loop, UV_RUN_ONCE);
    finish();
    ck_assert_uint_eq(again, 5);
}
END_TEST

START_TEST(free_delivers_what_is_left)
{
    post_letters((void *)1);
    struct mail mail = {.deliver = on_again}; /* posts while the mailbox is being freed */
    mailbox_post(mailbox, &mail);
    finish();
    ck_assert_uint_eq(delivered, LETTERS);
    ck_assert_uint_eq(out_of_order, 0);
    ck_assert_uint_eq(again, 5);
}
END_TEST

static void on_free_mailbox(struct mail *mail)
{
    (void)mail;
    mailbox_free(mailbox);
}

START_TEST(deliver_may_free_the_mailbox)
{
    struct mail last = {.deliver = on_free_mailbox};
    mailbox_post(mailbox, &last);
    post_letters((void *)0);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_uint_eq(delivered, LETTERS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox");
    TCase *tests = tcase_create("mailbox");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, many_threads_keep_their_order);
    tcase_add_test(tests, deliver_may_post_again);
    tcase_add_test(tests, free_delivers_what_is_left);
    tcase_add_test(tests, deliver_may_free_the_mailbox);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
