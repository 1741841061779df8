/* WebDataset shards: the members of a tar archive, in runs of one key. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "store/format.h"
#include "store/read_spans.h"
#include "store/sample_name.h"
#include "store/stamp.h"
#include "store/tar_header.h"
#include "store/tar_kind.h"
#include "store/tar_links.h"
#include "store/tar_member.h"

struct tally { /* members that are left out for one reason */
    uint64_t count;
    uint64_t offset; /* of the first */
    char first[200];
};

struct listing {
    int fd;
    const char *path;
    struct tar_reader *tar;
    struct index_builder *builder;
    struct format_progress *progress;
    struct tar_links *links; /* NULL until the first hard link */
    struct tally plain;      /* without an extension */
    struct tally special;    /* links that are not followed, devices */
    bool damaged;
    char *key; /* scratch */
    size_t key_room;
};

static void count(struct tally *tally, const struct tar_member *member)
{
    if (tally->count++ == 0) {
        tally->offset = member->offset;
        snprintf(tally->first, sizeof tally->first, "%.199s", member->name);
    }
}

/* Key and suffix in the scratch; the suffix in lower case. */
static const char *split(struct listing *listing, const char *name)
{
    size_t length, room = strlen(name) + 1;
    const char *suffix;
    if (!sample_name_split(name, &length, &suffix))
        return NULL;
    if (room > listing->key_room) {
        listing->key = mem_grow(listing->key, room, 1);
        listing->key_room = room;
    }
    memcpy(listing->key, name, room);
    listing->key[length] = '\0';
    for (char *at = listing->key + length + 1; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    return listing->key + length + 1;
}

/* A hard link becomes a regular member with the place of its target, if that is known. */
static int follow(struct listing *listing, struct tar_member *member)
{
    if (!listing->links)
        listing->links =
            tar_links_new(listing->fd, member->offset, listing->builder, listing->progress);
    if (!listing->links)
        return -ENOMEM;
    member->regular = tar_links_find(listing->links, member->link, &member->data, &member->size);
    return 0;
}

static bool is_special(const struct tar_member *member)
{
    return !member->regular && member->type >= '1' && member->type <= '6' && member->type != '5';
}

static int take(struct listing *listing, struct tar_member *member)
{
    int rc = member->type == '1' ? follow(listing, member) : 0;
    if (!rc && listing->links && member->regular)
        rc = tar_links_add(listing->links, member->name, member->data, member->size);
    if (rc || sample_name_is_skipped(member->name))
        return rc;
    if (member->sparse)
        index_builder_fault(listing->builder, BAD_UNSUP, member->offset,
                            "member '%.200s' is sparse, its content is not stored as it is: pack "
                            "it without --sparse",
                            member->name);
    const char *suffix = split(listing, member->name);
    if (member->regular && suffix)
        return index_builder_part(listing->builder, listing->key, suffix, PART_STORED, member->data,
                                  member->size);
    if (member->regular)
        count(&listing->plain, member);
    else if (is_special(member))
        count(&listing->special, member);
    return 0;
}

static void cut_off(struct listing *listing, const struct tar_member *member)
{
    listing->damaged = true;
    bool of_last = member->name && split(listing, member->name) &&
                   index_builder_records(listing->builder) &&
                   !strcmp(listing->key, index_builder_last_key(listing->builder));
    (of_last ? index_builder_spoil : index_builder_fault)(
        listing->builder, BAD_SHARD_TRUNC, member->offset,
        "%s; samples from here on are lost: copy the shard again", listing->tar->reason);
}

/* True when there is a sound header further on. */
static bool broken(struct listing *listing, uint64_t offset)
{
    listing->damaged = true;
    char reason[sizeof listing->tar->reason];
    memcpy(reason, listing->tar->reason, sizeof reason);
    uint64_t from = listing->tar->at;
    bool found = tar_resync(listing->tar);
    uint64_t to = found ? listing->tar->at : listing->tar->file_size;
    index_builder_fault(listing->builder, BAD_SHARD_HEADER, offset,
                        found ? "%s; %" PRIu64 " bytes are skipped, reading goes on at %" PRIu64
                              : "%s; the %" PRIu64 " bytes up to the end at %" PRIu64 " are lost",
                        reason, to - from, to);
    return found;
}

static void note_end(struct listing *listing, enum tar_event event)
{
    uint64_t at = listing->tar->at;
    if (event == TAR_EOF && at)
        index_builder_fault(listing->builder, BAD_NONE, at,
                            "no end-of-archive blocks: its writer was perhaps not closed");
    else if (event == TAR_END && tar_has_trailing(listing->tar))
        index_builder_fault(listing->builder, BAD_NONE, at,
                            "data after the end-of-archive blocks at byte %" PRIu64
                            " is not read (archives laid one after the other?)",
                            at);
}

static void note_tallies(struct listing *listing)
{
    if (listing->plain.count)
        index_builder_fault(listing->builder, BAD_NONE, listing->plain.offset,
                            "%" PRIu64 " members without an extension are left out (first: '%s')",
                            listing->plain.count, listing->plain.first);
    if (listing->special.count)
        index_builder_fault(listing->builder, BAD_NONE, listing->special.offset,
                            "%" PRIu64 " members are links out of the archive, devices or pipes; "
                            "these are never opened (first: '%s')",
                            listing->special.count, listing->special.first);
    if (index_builder_records(listing->builder) || listing->damaged)
        return;
    const char *first = listing->plain.first;
    index_builder_fault(listing->builder, BAD_SHARD_EMPTY, 0, "the archive holds no samples%s%s%s",
                        *first ? ": its members have no extension (first: '" : "", first,
                        *first ? "')" : "");
}

static int walk(struct listing *listing, struct error *err)
{
    for (;;) {
        struct tar_member member;
        enum tar_event event = tar_next(listing->tar, &member);
        int rc = 0;
        listing->progress->records = index_builder_records(listing->builder);
        if (listing->progress->cancel)
            return error_set(err, -ECANCELED, "listing %s was cancelled", listing->path);
        if (event == TAR_IO_ERROR)
            rc = listing->tar->error;
        else if (event == TAR_MEMBER)
            rc = take(listing, &member);
        else if (event == TAR_CUT)
            cut_off(listing, &member);
        else if (event != TAR_BROKEN)
            note_end(listing, event);
        if (rc)
            return error_set(err, rc, "cannot list %s at byte %" PRIu64 ": %s", listing->path,
                             member.offset, strerror(-rc));
        if (event != TAR_MEMBER && !(event == TAR_BROKEN && broken(listing, member.offset)))
            return 0;
    }
}

/* A file whose first block is no header of any age. */
static bool is_other_kind(struct listing *listing, uint64_t size)
{
    uint8_t block[TAR_BLOCK] = {0};
    int64_t got = file_read(listing->fd, block, 0, sizeof block);
    struct tar_header header;
    memcpy(&header, block, sizeof header);
    if (got <= 0 || tar_block_is_zero(block) || tar_has_magic(&header) ||
        (got == TAR_BLOCK && tar_checksum_is_right(&header)))
        return false;
    const char *kind = tar_kind_guess(block, (size_t)got);
    if (kind)
        index_builder_fault(listing->builder, BAD_SHARD_TYPE, 0, "not a tar archive but %s", kind);
    else
        index_builder_fault(listing->builder, BAD_SHARD_TYPE, 0,
                            "not a tar archive: %" PRIu64
                            " bytes that begin with %02x %02x %02x %02x",
                            size, block[0], block[1], block[2], block[3]);
    return true;
}

static int tar_list(int fd, const char *path, struct index_builder *builder,
                    struct format_progress *progress, struct error *err)
{
    struct listing listing = {.fd = fd, .path = path, .builder = builder, .progress = progress};
    struct stat stat;
    if (stamp_look(fd, &stat))
        return error_set(err, -errno, "cannot look at %s: %s", path, strerror(errno));
    uint64_t size = (uint64_t)stat.st_size;
    if (is_other_kind(&listing, size))
        return 0;
    listing.tar = tar_reader_new(fd, size, progress);
    int rc = walk(&listing, err);
    if (!rc)
        note_tallies(&listing);
    tar_reader_free(listing.tar);
    tar_links_free(listing.links);
    free(listing.key);
    return rc;
}

static void tar_read(int fd, const struct index *index, struct format_read *reads, size_t number)
{
    (void)index;
    read_spans(fd, reads, number);
}

const struct format format_tar = {
    .name = "tar", .stamp = stamp_file, .list = tar_list, .read = tar_read};
