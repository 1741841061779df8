#include "base/mailbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"

/* Not a uv_async: on a core that both share, the loop would spin in it until the thread that posts
 * has come back from waking it. */
struct mailbox {
    uv_poll_t poll;
    int wake; /* eventfd: there is mail */
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    struct mail *first, **last; /* under the mutex */
    unsigned waking;            /* under the mutex: posts that have yet to wake the loop */
};

static struct mail *take_all(struct mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->mutex);
    struct mail *list = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    pthread_mutex_unlock(&mailbox->mutex);
    return list;
}

static void deliver_list(struct mail *list)
{
    while (list) {
        struct mail *mail = list;
        list = mail->next;
        mail->deliver(mail); /* may free or post it again */
    }
}

static void on_wake(uv_poll_t *poll, int status, int events)
{
    struct mailbox *mailbox = poll->data;
    eventfd_t count;
    (void)status, (void)events;
    /* First, so that mail posted from here on wakes again. */
    eventfd_read(mailbox->wake, &count);
    deliver_list(take_all(mailbox));
}

struct mailbox *mailbox_new(uv_loop_t *loop)
{
    struct mailbox *mailbox = mem_new(sizeof *mailbox);
    pthread_mutex_init(&mailbox->mutex, NULL);
    pthread_cond_init(&mailbox->woken, NULL);
    mailbox->last = &mailbox->first;
    mailbox->poll.data = mailbox;
    mailbox->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->wake < 0 || uv_poll_init(loop, &mailbox->poll, mailbox->wake) < 0 ||
        uv_poll_start(&mailbox->poll, UV_READABLE, on_wake) < 0)
        abort();
    return mailbox;
}

void mailbox_post(struct mailbox *mailbox, struct mail *mail)
{
    mail->next = NULL;
    pthread_mutex_lock(&mailbox->mutex);
    bool wakes = !mailbox->first;
    *mailbox->last = mail;
    mailbox->last = &mail->next;
    mailbox->waking += wakes ? 1 : 0;
    pthread_mutex_unlock(&mailbox->mutex);
    if (!wakes)
        return;
    /* Outside of the lock, which the loop thread would run into. */
    eventfd_write(mailbox->wake, 1);
    pthread_mutex_lock(&mailbox->mutex);
    if (--mailbox->waking == 0)
        pthread_cond_signal(&mailbox->woken);
    pthread_mutex_unlock(&mailbox->mutex);
}

static void on_closed(uv_handle_t *handle)
{
    struct mailbox *mailbox = handle->data;
    close(mailbox->wake);
    pthread_cond_destroy(&mailbox->woken);
    pthread_mutex_destroy(&mailbox->mutex);
    free(mailbox);
}

/* A thread whose mail is taken may still be about to wake the loop. */
static void wait_for_posts(struct mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->mutex);
    while (mailbox->waking)
        pthread_cond_wait(&mailbox->woken, &mailbox->mutex);
    pthread_mutex_unlock(&mailbox->mutex);
}

void mailbox_free(struct mailbox *mailbox)
{
    if (!mailbox)
        return;
    for (struct mail *list; (list = take_all(mailbox));)
        deliver_list(list);
    wait_for_posts(mailbox);
    uv_close((uv_handle_t *)&mailbox->poll, on_closed);
}
