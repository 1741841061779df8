#include "control/pages.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "control/metrics_page.h"
#include "control/report_page.h"
#include "control/status.h"

#define REST 100 /* times what it took, a page is not made anew; but no longer than: */
#define REST_MOST CLOCK_SECOND

static const struct kind {
    const char *name, *type;
    void (*render)(const struct status *status, struct text *out);
} kinds[] = {
    {"metrics", "text/plain; version=0.0.4; charset=utf-8", metrics_page},
    {"report.json", "application/json", report_page_json},
    {"report.html", "text/html; charset=utf-8", report_page_html},
};
#define NKINDS (sizeof kinds / sizeof *kinds)

struct pages {
    const struct control *control;
    struct page *last[NKINDS]; /* NULL: none yet */
};

struct pages *pages_new(const struct control *control)
{
    struct pages *pages = mem_new(sizeof *pages);
    pages->control = control;
    return pages;
}

void pages_free(struct pages *pages)
{
    for (size_t i = 0; pages && i < NKINDS; i++)
        page_unref(pages->last[i]);
    free(pages);
}

void page_unref(struct page *page)
{
    if (!page || --page->references)
        return;
    free(page->bytes);
    free(page);
}

/* Of the loop's thread alone: on a busy machine a page does not take longer. */
static uint64_t own_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

static bool may_serve(const struct page *page)
{
    uint64_t rest = REST * page->took;
    return clock_ns() - page->made < (rest < REST_MOST ? rest : REST_MOST);
}

static struct page *make(const struct control *control, const struct kind *kind, struct error *err)
{
    uint64_t begun = own_time();
    struct text text = {.most = PAGES_BYTES_MAX};
    struct status *status = status_new(control, NULL);
    kind->render(status, &text);
    status_free(status);
    if (text.cut) {
        text_free(&text);
        error_set(err, -EFBIG, "page %s would be longer than %u bytes, or memory is short",
                  kind->name, PAGES_BYTES_MAX);
        return NULL;
    }
    struct page *page = mem_new(sizeof *page);
    page->type = kind->type;
    page->bytes = text.bytes ? text.bytes : mem_string("");
    page->size = text.size;
    page->references = 1;
    page->made = clock_ns();
    page->took = own_time() - begun;
    return page;
}

static const struct kind *find(const char *name, struct error *err)
{
    struct text names = {.most = sizeof err->text / 2};
    for (size_t i = 0; i < NKINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    for (size_t i = 0; i < NKINDS; i++)
        text_format(&names, "%s%s", i ? ", " : "", kinds[i].name);
    error_set(err, -ENOENT, "no page '%s'; there are: %s", name, names.bytes);
    text_free(&names);
    return NULL;
}

struct page *pages_get(struct pages *pages, const char *name, struct error *err)
{
    const struct kind *kind = find(name, err);
    if (!kind)
        return NULL;
    struct page **last = &pages->last[kind - kinds];
    if (!*last || !may_serve(*last)) {
        struct page *page = make(pages->control, kind, err);
        if (!page)
            return NULL;
        page_unref(*last);
        *last = page;
    }
    (*last)->references++;
    return *last;
}
