#include "feed/handles.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "base/mem.h"

#define MOST 256U
#define LEAST 8U
#define SHARE 64U /* of the process's descriptors, for one feed: a shard takes up to two */

struct handle {
    uint32_t number;
    struct shard *shard; /* NULL = unused */
    uint64_t used;
};

struct handles {
    const struct dataset *dataset;
    uint64_t uses;
    uint32_t count;
    struct handle handles[];
};

static uint32_t how_many(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / SHARE > MOST)
        return MOST;
    uint32_t share = (uint32_t)(limit.rlim_cur / SHARE);
    return share > LEAST ? share : LEAST;
}

struct handles *handles_new(const struct dataset *dataset)
{
    uint32_t count = how_many();
    struct handles *handles = mem_new(sizeof *handles + count * sizeof handles->handles[0]);
    handles->dataset = dataset;
    handles->count = count;
    return handles;
}

static void close_one(struct handle *handle)
{
    if (handle->shard)
        shard_close(handle->shard);
    *handle = (struct handle){0};
}

void handles_clear(struct handles *handles)
{
    for (uint32_t i = 0; i < handles->count; i++)
        close_one(&handles->handles[i]);
}

void handles_free(struct handles *handles)
{
    if (!handles)
        return;
    handles_clear(handles);
    free(handles);
}

/* The one that is open, else an unused or the longest unused one. */
static struct handle *find(struct handles *handles, uint32_t shard)
{
    struct handle *oldest = &handles->handles[0];
    for (uint32_t i = 0; i < handles->count; i++) {
        struct handle *handle = &handles->handles[i];
        if (handle->shard && handle->number == shard)
            return handle;
        if (handle->used < oldest->used)
            oldest = handle;
    }
    return oldest;
}

uint32_t handles_room(const struct handles *handles)
{
    return handles->count;
}

struct shard *handles_find(struct handles *handles, uint32_t shard)
{
    struct handle *handle = find(handles, shard);
    if (!handle->shard || handle->number != shard)
        return NULL;
    handle->used = ++handles->uses;
    return handle->shard;
}

static int compare_use(const void *left, const void *right)
{
    const struct handle *a = left;
    const struct handle *b = right;
    return (a->used > b->used) - (a->used < b->used);
}

void handles_make_room(struct handles *handles, uint32_t count)
{
    qsort(handles->handles, handles->count, sizeof handles->handles[0], compare_use);
    for (uint32_t i = 0; i < count; i++)
        close_one(&handles->handles[i]);
}

void handles_put(struct handles *handles, uint32_t number, struct shard *shard)
{
    struct handle *handle = find(handles, number);
    close_one(handle);
    *handle = (struct handle){number, shard, ++handles->uses};
}

struct shard *handles_get(struct handles *handles, uint32_t number, struct error *err)
{
    struct shard *shard = handles_find(handles, number);
    if (!shard && shard_open(handles->dataset, number, &shard, err) == 0)
        handles_put(handles, number, shard);
    return shard;
}
