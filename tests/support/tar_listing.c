#include "tar_listing.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct index *tar_list_fd(int fd)
{
    struct index *index = NULL;
    struct error err = {0};
    struct format_progress progress = {0};
    struct index_stamp stamp = {.size = 1};
    struct index_builder *builder = index_builder_new();
    int rc = format_tar.list(fd, "x.tar", builder, &progress, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_int_eq(index_builder_finish(builder, &stamp, &index), 0);
    return index;
}

struct index *tar_list(struct tarm *tar)
{
    int fd = tarm_memfd(tar);
    struct index *index = tar_list_fd(fd);
    close(fd);
    tarm_free(tar);
    return index;
}

const char *tar_text(const struct index *index)
{
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < index_records(index); i++) {
        const struct index_part *parts = index_parts(index, i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 index_key(index, i));
        for (uint32_t k = 0; k < index_record(index, i)->parts; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%c%s", k ? '+' : ':',
                                     index_suffix(index, parts[k].suffix));
    }
    return text;
}

const struct index_fault *tar_fault(const struct index *index, enum bad_class cls)
{
    const struct index_fault *found = NULL;
    for (uint32_t i = 0; i < index_faults(index); i++)
        if (index_fault(index, i)->cls == cls) {
            if (found)
                return NULL;
            found = index_fault(index, i);
        }
    return found;
}

unsigned tar_faults(const struct index *index)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < index_faults(index); i++)
        count += index_fault(index, i)->cls != BAD_NONE;
    return count;
}

void tar_says(const struct index *index, enum bad_class cls, const char *word)
{
    const struct index_fault *fault = tar_fault(index, cls);
    ck_assert_ptr_nonnull(fault);
    const char *reason = index_text(index, fault->reason);
    ck_assert_msg(strstr(reason, word) != NULL, "%s", reason);
}

void tar_samples(struct tarm *tar, int from, int to)
{
    for (int i = from; i < to; i++) {
        char name[40], bytes[700];
        memset(bytes, 'a' + i, sizeof bytes);
        snprintf(name, sizeof name, "%03d.jpg", i);
        tarm_file(tar, name, bytes, sizeof bytes);
        snprintf(name, sizeof name, "%03d.cls", i);
        tarm_text(tar, name, "7");
    }
}

struct tarm *tar_good(int count)
{
    struct tarm *tar = tarm_new();
    tar_samples(tar, 0, count);
    tarm_end(tar);
    return tar;
}
