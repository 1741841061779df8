#include "control/errands.h"

#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#define NICE 10 /* about a tenth of a core that decoding could use as well */

struct errands {
    struct mailbox *mailbox;
    uint32_t at_once;
    struct errand *waiting, **last;
    uint32_t begun; /* and not ended */
    uint64_t moved; /* ns */
};

struct errands *errands_new(struct mailbox *mailbox, uint32_t at_once)
{
    struct errands *errands = mem_new(sizeof *errands);
    errands->mailbox = mailbox;
    errands->at_once = at_once;
    errands->last = &errands->waiting;
    return errands;
}

void errands_free(struct errands *errands)
{
    free(errands);
}

static void *work(void *context)
{
    struct errand *errand = context;
    (void)!nice(NICE); /* of this thread */
    errand->run(errand);
    mailbox_post(errand->errands->mailbox, &errand->mail);
    return NULL;
}

static void deliver(struct mail *mail)
{
    struct errand *errand = (struct errand *)(void *)((char *)mail - offsetof(struct errand, mail));
    if (!errand->err.code)
        pthread_join(errand->thread, NULL);
    errand->ran(errand);
}

static struct errand *take_first(struct errands *errands)
{
    struct errand *errand = errands->waiting;
    errands->waiting = errand->next;
    if (!errands->waiting)
        errands->last = &errands->waiting;
    return errand;
}

static void begin_some(struct errands *errands)
{
    while (errands->waiting && errands->begun < errands->at_once) {
        struct errand *errand = take_first(errands);
        errands->begun++;
        errand->begun = errands->moved = clock_ns();
        errand->mail.deliver = deliver;
        if (thread_try("errand", work, errand, &errand->thread, &errand->err))
            mailbox_post(errands->mailbox, &errand->mail);
    }
}

void errands_add(struct errands *errands, struct errand *errand)
{
    errand->errands = errands;
    errand->next = NULL;
    errand->begun = 0;
    errand->err = (struct error){0};
    *errands->last = errand;
    errands->last = &errand->next;
    begin_some(errands);
}

void errands_end(struct errand *errand)
{
    errand->errands->begun--;
    errand->errands->moved = clock_ns();
    begin_some(errand->errands);
}

bool errands_leave(struct errand *errand)
{
    struct errands *errands = errand->errands;
    struct errand **at = &errands->waiting;
    while (*at && *at != errand)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = errand->next;
    if (!errand->next)
        errands->last = at;
    return true;
}

uint32_t errands_before(const struct errand *errand)
{
    const struct errand *at = errand->errands->waiting;
    uint32_t before = errand->errands->begun;
    for (; at && at != errand; at = at->next)
        before++;
    return at ? before : 0;
}

void errands_go_on(const struct errand *errand, uint64_t now)
{
    errand->errands->moved = now;
}

uint64_t errands_moved(const struct errand *errand)
{
    return errand->begun ? errand->begun : errand->errands->moved;
}
