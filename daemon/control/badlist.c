#include "control/badlist.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/plural.h"
#include "proto/frames.h"
#include "proto/limits.h"

#define HEADER "dataloadd bad samples 1\n"
#define FILE_MAX (64U << 20)
#define SHARD_MAX 1024 /* bytes kept of each text, escaped */
#define KEY_MAX 512
#define REASON_MAX 256
#define COLUMNS 7

struct badlist {
    struct badlist_entry *entries;
    uint32_t count, max;
    uint32_t own;    /* of these, of feeds of a user's own */
    uint32_t *table; /* open addressing: number of the entry + 1, 0 = empty */
    uint32_t mask;
    uint64_t unlisted;
    bool dirty;
};

struct badlist *badlist_new(uint32_t max)
{
    struct badlist *list = mem_new(sizeof *list);
    uint32_t size = 1;
    while (size < 2 * max)
        size *= 2;
    list->entries = mem_array(max, sizeof *list->entries);
    list->table = mem_array(size, sizeof *list->table);
    list->mask = size - 1;
    list->max = max;
    return list;
}

static void free_entry(struct badlist_entry *entry)
{
    free(entry->feed);
    free(entry->shard);
    free(entry->key);
    free(entry->reason);
}

void badlist_free(struct badlist *list)
{
    if (!list)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        free_entry(&list->entries[i]);
    free(list->entries);
    free(list->table);
    free(list);
}

/* FNV-1a, the terminating NUL included, so that "ab" "c" differs from "a" "bc". */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3ULL;
    while (*text++);
    return hash;
}

static uint64_t hash_entry(const struct badlist_entry *entry)
{
    uint64_t hash = 0xcbf29ce484222325ULL ^ entry->offset ^ ((uint64_t)entry->cls << 56);
    hash = hash_text(hash, entry->feed);
    hash = hash_text(hash, entry->shard);
    hash = hash_text(hash, entry->key);
    return hash ^ hash >> 32;
}

static bool same_entry(const struct badlist_entry *a, const struct badlist_entry *b)
{
    return a->cls == b->cls && a->offset == b->offset && !strcmp(a->feed, b->feed) &&
           !strcmp(a->shard, b->shard) && !strcmp(a->key, b->key);
}

static bool is_own(const struct badlist_entry *entry)
{
    return *entry->feed == DLP_OWN_FEED;
}

/* The entry equal to `wanted`, or a new one with its texts; NULL when the list is full. */
static struct badlist_entry *find_or_add(struct badlist *list, const struct badlist_entry *wanted)
{
    uint32_t at = (uint32_t)hash_entry(wanted) & list->mask;
    for (; list->table[at]; at = (at + 1) & list->mask) {
        struct badlist_entry *entry = &list->entries[list->table[at] - 1];
        if (same_entry(entry, wanted))
            return entry;
    }
    if (list->count == list->max || (is_own(wanted) && list->own == list->max / 2))
        return NULL;
    list->own += is_own(wanted);
    struct badlist_entry *entry = &list->entries[list->count++];
    *entry = (struct badlist_entry){.cls = wanted->cls,
                                    .offset = wanted->offset,
                                    .feed = mem_string(wanted->feed),
                                    .shard = mem_string(wanted->shard),
                                    .key = mem_string(wanted->key),
                                    .reason = mem_string(wanted->reason)};
    list->table[at] = list->count;
    return entry;
}

static void count_entry(struct badlist *list, const struct badlist_entry *wanted, uint64_t count,
                        bool once)
{
    struct badlist_entry *entry = find_or_add(list, wanted);
    if (entry && once && entry->count)
        return;
    if (entry)
        entry->count += count;
    else
        list->unlisted += count;
    list->dirty = true;
}

static void add(struct badlist *list, const char *feed, const struct bad_report *report, bool once)
{
    char shard[SHARD_MAX], key[KEY_MAX], reason[REASON_MAX];
    struct badlist_entry entry = {.cls = report->cls, .offset = report->offset};
    entry.feed = (char *)feed;
    entry.shard = dlp_escape(report->shard ? report->shard : "", shard, sizeof shard);
    entry.key = dlp_escape(report->key ? report->key : "", key, sizeof key);
    entry.reason = dlp_escape(report->reason ? report->reason : "", reason, sizeof reason);
    count_entry(list, &entry, 1, once);
}

void badlist_add(struct badlist *list, const char *feed, const struct bad_report *report)
{
    add(list, feed, report, false);
}

void badlist_add_once(struct badlist *list, const char *feed, const struct bad_report *report)
{
    add(list, feed, report, true);
}

static void enter(struct badlist *list, uint32_t number)
{
    uint32_t at = (uint32_t)hash_entry(&list->entries[number]) & list->mask;
    while (list->table[at])
        at = (at + 1) & list->mask;
    list->table[at] = number + 1;
}

static bool has_any(const struct badlist *list, const char *feed)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (!strcmp(list->entries[i].feed, feed))
            return true;
    return false;
}

void badlist_forget(struct badlist *list, const char *feed)
{
    uint32_t count = 0;
    if (!has_any(list, feed))
        return;
    memset(list->table, 0, ((size_t)list->mask + 1) * sizeof *list->table);
    for (uint32_t i = 0; i < list->count; i++) {
        struct badlist_entry *entry = &list->entries[i];
        if (!strcmp(entry->feed, feed)) {
            list->own -= is_own(entry);
            free_entry(entry);
            continue;
        }
        list->entries[count] = *entry;
        enter(list, count++);
    }
    list->count = count;
}

uint32_t badlist_count(const struct badlist *list)
{
    return list->count;
}

const struct badlist_entry *badlist_at(const struct badlist *list, uint32_t number)
{
    return &list->entries[number];
}

uint64_t badlist_unlisted(const struct badlist *list)
{
    return list->unlisted;
}

bool badlist_dirty(const struct badlist *list)
{
    return list->dirty;
}

char *badlist_text(struct badlist *list, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    fputs(HEADER, out);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct badlist_entry *entry = &list->entries[i];
        if (is_own(entry))
            continue;
        fprintf(out, "%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%s\t%s\t%s\n", entry->count, entry->offset,
                bad_name(entry->cls), entry->feed, entry->shard, entry->key, entry->reason);
    }
    list->dirty = false;
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static int write_all(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t put = write(fd, text, size);
        if (put < 0)
            return -errno;
        text += put;
        size -= (size_t)put;
    }
    return 0;
}

int badlist_write(const char *path, const char *text, size_t size, struct error *err)
{
    cleanup_free char *temporary = mem_format("%s.tmp.%d", path, (int)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd < 0 ? -errno : write_all(fd, text, size);
    if (fd >= 0 && close(fd) < 0 && !rc)
        rc = -errno;
    if (!rc && rename(temporary, path) < 0)
        rc = -errno;
    if (!rc)
        return 0;
    unlink(temporary);
    return error_set(err, rc, "the list of bad samples %s cannot be kept: %s", path, strerror(-rc));
}

static enum bad_class class_of(const char *name)
{
    for (int cls = BAD_NONE + 1; cls < BAD_CLASSES_COUNT; cls++)
        if (!strcmp(bad_name((enum bad_class)cls), name))
            return (enum bad_class)cls;
    return BAD_NONE;
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool parse_line(struct badlist *list, char *line)
{
    char *columns[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        columns[i] = line ? strsep(&line, "\t") : NULL;
    struct badlist_entry entry = {0};
    uint64_t count;
    if (!columns[COLUMNS - 1] || line || !parse_number(columns[0], &count) ||
        !parse_number(columns[1], &entry.offset) || !dlp_name_valid(columns[3]))
        return false;
    entry.cls = class_of(columns[2]);
    if (entry.cls == BAD_NONE || !count || strlen(columns[4]) >= SHARD_MAX ||
        strlen(columns[5]) >= KEY_MAX || strlen(columns[6]) >= REASON_MAX)
        return false;
    entry.feed = columns[3];
    entry.shard = columns[4];
    entry.key = columns[5];
    entry.reason = columns[6];
    count_entry(list, &entry, count, true);
    return true;
}

uint32_t badlist_parse(struct badlist *list, char *text)
{
    uint32_t left_out = 0;
    if (strncmp(text, HEADER, sizeof HEADER - 1) != 0)
        return 1;
    text += sizeof HEADER - 1;
    while (*text) {
        char *line = strsep(&text, "\n");
        if (!parse_line(list, line))
            left_out++;
        if (!text)
            break;
    }
    list->dirty = false;
    return left_out;
}

int badlist_read(struct badlist *list, const char *path, struct error *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno,
                         "the list of bad samples %s cannot be read: %s; counting begins anew",
                         path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)FILE_MAX)
        return error_set(err, -EINVAL, "%s is no list of bad samples; counting begins anew", path);
    size_t size = (size_t)st.st_size, got = 0;
    cleanup_free char *text = mem_new(size + 1);
    for (ssize_t n; got < size && (n = read(fd, text + got, size - got)) > 0;)
        got += (size_t)n;
    uint32_t left_out = badlist_parse(list, text);
    if (left_out)
        return error_set(err, -EINVAL, "%s: %u line%s not understood and left out", path, left_out,
                         plural(left_out));
    return 0;
}
