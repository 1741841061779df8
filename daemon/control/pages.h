/* Texts that the daemon makes of its figures, by name. A page is made when somebody asks, and given
 * again to who asks soon after: it is made anew only after a hundred times what it took, at most a
 * second, so that all who ask cost the loop about one hundredth of its time. Loop thread. */
#ifndef PAGES_H
#define PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PAGES_BYTES_MAX (16U << 20) /* of one page */

struct control;

struct page {         /* shared by those who read it */
    const char *type; /* media type */
    char *bytes;
    size_t size;
    uint32_t references;
    uint64_t made, took; /* ns: when, and the CPU time that it took */
};

struct pages *pages_new(const struct control *control);
void pages_free(struct pages *pages); /* pages that are still read live on */

/* A reference; NULL and err: -ENOENT, there is no such page; -EFBIG, it is too long. */
struct page *pages_get(struct pages *pages, const char *name, struct error *err);
void page_unref(struct page *page); /* NULL is fine */

#endif
