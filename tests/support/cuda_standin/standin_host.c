/* Pinned host memory. */
#include <stdlib.h>
#include <sys/mman.h>

#include "standin_memory.h"
#include "standin_stream.h"

static struct pinned {
    struct pinned *next;
    const unsigned char *at;
    size_t size;
    struct si_context *context;
    bool allocated; /* by us */
} * pinned;

bool si_is_pinned(const void *at, size_t size)
{
    const unsigned char *byte = at;
    for (const struct pinned *one = pinned; one; one = one->next)
        if (byte >= one->at && byte < one->at + one->size &&
            size <= one->size - (size_t)(byte - one->at))
            return true;
    return false;
}

static void add(void *at, size_t size, bool allocated)
{
    struct pinned *one = malloc(sizeof *one);
    if (!one)
        si_abort("out of memory");
    *one = (struct pinned){pinned, at, size, si_current(), allocated};
    pinned = one;
}

/* Copies that use it end first. */
static bool drop(const void *at, bool allocated)
{
    for (struct pinned **from = &pinned; *from; from = &(*from)->next)
        if ((*from)->at == at && (*from)->allocated == allocated) {
            struct pinned *one = *from;
            *from = one->next;
            si_streams_drain("cuMemHostUnregister");
            if (allocated)
                munmap((void *)at, one->size);
            free(one);
            return true;
        }
    return false;
}

static bool overlaps(const unsigned char *at, size_t size)
{
    for (const struct pinned *one = pinned; one; one = one->next)
        if (at < one->at + one->size && one->at < at + size)
            return true;
    return false;
}

static bool is_mapped(const void *at, size_t size)
{
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)(SI_PAGE - 1);
    size_t pages = ((uintptr_t)at + size - from + SI_PAGE - 1) / SI_PAGE;
    unsigned char *in = malloc(pages);
    bool yes = in && mincore((void *)from, pages * SI_PAGE, in) == 0;
    free(in);
    return yes;
}

dlp_cu_result cuMemHostRegister_v2(void *at, size_t size, unsigned flags)
{
    SI_ENTER(SI_IN_CONTEXT);
    if (!at || !size || flags & ~(unsigned)DLP_CU_HOST_PORTABLE || !is_mapped(at, size))
        return DLP_CU_INVALID_VALUE;
    if (overlaps(at, size))
        return DLP_CU_HOST_MEMORY_ALREADY_REGISTERED;
    add(at, size, false);
    return 0;
}

dlp_cu_result cuMemHostUnregister(void *at)
{
    SI_ENTER(SI_IN_CONTEXT);
    return drop(at, false) ? 0 : DLP_CU_HOST_MEMORY_NOT_REGISTERED;
}

dlp_cu_result cuMemHostAlloc(void **at, size_t size, unsigned flags)
{
    SI_ENTER(SI_IN_CONTEXT);
    if (!size || flags & ~(unsigned)DLP_CU_HOST_PORTABLE)
        return DLP_CU_INVALID_VALUE;
    *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*at == MAP_FAILED)
        return DLP_CU_OUT_OF_MEMORY;
    add(*at, size, true);
    return 0;
}

dlp_cu_result cuMemFreeHost(void *at)
{
    SI_ENTER(SI_IN_CONTEXT);
    return drop(at, true) ? 0 : DLP_CU_INVALID_VALUE;
}

void si_leaks_host(const struct si_context *context)
{
    unsigned n = 0;
    for (const struct pinned *one = pinned; one; one = one->next)
        n += one->context == context;
    if (n)
        si_report("leak: %u ranges of host memory are pinned for GPU %u", n, context->device);
}
