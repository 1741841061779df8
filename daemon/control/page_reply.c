#include "control/page_reply.h"

#include <errno.h>
#include <string.h>

#include "control/control.h"
#include "control/pages.h"
#include "control/session.h"

#define PART (128U << 10) /* bytes; half of what makes a peer one that does not read */
#define UNREAD_S 10

/* Bytes of the next part: all, or as many as end with a whole character. */
static size_t part_of(const struct page_reading *reading)
{
    const char *bytes = reading->page->bytes + reading->sent;
    size_t size = reading->page->size - reading->sent;
    if (size <= PART)
        return size;
    size = PART;
    while (size > PART - 4 && ((unsigned char)bytes[size] & 0xC0) == 0x80)
        size--;
    return size;
}

static void send_text(struct session *session, char *text, bool more)
{
    Dlp__PageReply reply = DLP__PAGE_REPLY__INIT;
    reply.text = text;
    reply.more = more;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = session->reading.id;
    env.body_case = DLP__ENVELOPE__BODY_PAGE_REPLY;
    env.page_reply = &reply;
    session_send(session, &env);
}

bool page_reply_continue(struct session *session)
{
    struct page_reading *reading = &session->reading;
    if (!reading->page)
        return false;
    char text[PART + 1];
    size_t size = part_of(reading);
    memcpy(text, reading->page->bytes + reading->sent, size);
    text[size] = '\0';
    reading->sent += size;
    bool more = reading->sent < reading->page->size;
    send_text(session, text, more);
    if (!more)
        page_reply_cancel(session);
    return true;
}

void page_reply_cancel(struct session *session)
{
    page_unref(session->reading.page);
    session->reading.page = NULL;
}

void page_reply_tick(struct session *session)
{
    struct page_reading *reading = &session->reading;
    if (!reading->page)
        return;
    reading->unread = reading->sent == reading->seen ? reading->unread + 1 : 0;
    reading->seen = reading->sent;
    if (reading->unread < UNREAD_S)
        return;
    page_reply_cancel(session);
    session_refuse_format(session, reading->id, DLP_ERROR_TOO_MANY,
                          "the page was not read for %d s and is given up: ask again", UNREAD_S);
}

void page_reply_begin(struct session *session, uint64_t id, const char *name)
{
    struct error err;
    struct page *page = pages_get(session->control->pages, name, &err);
    if (!page) {
        session_refuse(session, id,
                       err.code == -ENOENT ? DLP_ERROR_BAD_REQUEST : DLP_ERROR_INTERNAL, err.text);
        return;
    }
    session->reading = (struct page_reading){.page = page, .id = id};
    page_reply_continue(session);
}
