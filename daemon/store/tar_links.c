#include "store/tar_links.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/names.h"

struct place {
    uint64_t data, size;
};

struct tar_links {
    struct index_builder *builder;
    struct names names;
    struct place *places; /* by number of the name */
    uint64_t room;
};

void tar_links_free(struct tar_links *links)
{
    if (!links)
        return;
    names_done(&links->names);
    free(links->places);
    free(links);
}

int tar_links_add(struct tar_links *links, const char *name, uint64_t data, uint64_t size)
{
    uint32_t number;
    int rc = names_add(&links->names, name, &number);
    if (rc)
        return rc;
    if (!array_room(&links->places, number, &links->room, sizeof *links->places))
        return -ENOMEM;
    links->places[number] = (struct place){data, size};
    uint64_t places = links->names.count * sizeof *links->places;
    return index_builder_beside(links->builder, names_bytes(&links->names) + places);
}

static int add_until(struct tar_links *links, struct tar_reader *tar, uint64_t end)
{
    struct tar_member member;
    int rc = 0;
    while (!rc && tar->at < end && !tar->progress->cancel) {
        enum tar_event event = tar_next(tar, &member);
        if (event == TAR_MEMBER && member.regular && member.offset < end)
            rc = tar_links_add(links, member.name, member.data, member.size);
        else if (event != TAR_MEMBER && !(event == TAR_BROKEN && tar_resync(tar)))
            break;
    }
    return rc;
}

struct tar_links *tar_links_new(int fd, uint64_t end, struct index_builder *builder,
                                struct format_progress *progress)
{
    struct tar_links *links = mem_new(sizeof *links);
    links->builder = builder;
    struct tar_reader *tar = tar_reader_new(fd, end, progress);
    int rc = add_until(links, tar, end);
    tar_reader_free(tar);
    if (!rc)
        return links;
    tar_links_free(links);
    return NULL;
}

bool tar_links_find(const struct tar_links *links, const char *name, uint64_t *data, uint64_t *size)
{
    uint32_t number;
    if (!names_find(&links->names, name, &number))
        return false;
    *data = links->places[number].data;
    *size = links->places[number].size;
    return true;
}
