#include "store/tar_member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/tar_header.h"
#include "store/tar_pax.h"

#define TRAILING_LOOK (1U << 20)
#define SPARSE_MORE_IN_HEADER 482 /* GNU sparse: 1 = an extension block follows */
#define SPARSE_MORE_IN_EXTENSION 504

struct tar_reader *tar_reader_new(int fd, uint64_t file_size, struct format_progress *progress)
{
    struct tar_reader *tar = mem_new(sizeof *tar);
    file_window_start(&tar->window, fd);
    tar->file_size = file_size;
    tar->progress = progress;
    return tar;
}

static void forget_extensions(struct tar_reader *tar)
{
    tar_extra_done(&tar->local);
    free(tar->gnu_name);
    free(tar->gnu_link);
    tar->gnu_name = tar->gnu_link = NULL;
}

void tar_reader_free(struct tar_reader *tar)
{
    if (!tar)
        return;
    forget_extensions(tar);
    tar_extra_done(&tar->global);
    free(tar);
}

/* False: cancelled. */
static bool note_progress(struct tar_reader *tar)
{
    if (!tar->progress)
        return true;
    atomic_store_explicit(&tar->progress->bytes, tar->at, memory_order_relaxed);
    return !atomic_load_explicit(&tar->progress->cancel, memory_order_relaxed);
}

static uint64_t rounded(uint64_t size)
{
    return (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

static enum tar_event io_error(struct tar_reader *tar, int64_t rc)
{
    tar->error = (int)rc;
    return TAR_IO_ERROR;
}

/* The next look is behind the damaged block; names that were meant for it are void. */
static enum tar_event broken(struct tar_reader *tar, const char *what)
{
    snprintf(tar->reason, sizeof tar->reason, "%s", what);
    forget_extensions(tar);
    tar->at += TAR_BLOCK;
    return TAR_BROKEN;
}

static enum tar_event cut(struct tar_reader *tar, const char *what, const char *name,
                          uint64_t needs)
{
    snprintf(tar->reason, sizeof tar->reason,
             "the file ends inside %s%s%.200s%s: it has %llu bytes, %llu are needed", what,
             name ? " '" : "", name ? name : "", name ? "'" : "",
             (unsigned long long)tar->file_size, (unsigned long long)needs);
    return TAR_CUT;
}

/* The block at tar->at: TAR_MEMBER when it is a header. */
static enum tar_event next_block(struct tar_reader *tar, struct tar_header *out)
{
    const uint8_t *block;
    if (tar->at >= tar->file_size)
        return TAR_EOF;
    int64_t got = file_window_at(&tar->window, tar->at, TAR_BLOCK, &block);
    if (got < 0)
        return io_error(tar, got);
    if (got == 0)
        return TAR_EOF;
    if ((uint64_t)got > tar->file_size - tar->at)
        got = (int64_t)(tar->file_size - tar->at);
    memset(out, 0, sizeof *out);
    memcpy(out, block, (size_t)got);
    if (tar_block_is_zero((const uint8_t *)out))
        return TAR_END;
    if (got < TAR_BLOCK)
        return cut(tar, "a member header", NULL, tar->at + TAR_BLOCK);
    return TAR_MEMBER;
}

/* The payload of an extension header, NUL-terminated. */
static enum tar_event read_body(struct tar_reader *tar, uint64_t size, char **out)
{
    uint64_t data = tar->at + TAR_BLOCK;
    if (size > tar->file_size - data)
        return cut(tar, "an extension header", NULL, data + size);
    char *body = mem_new(size + 1);
    int64_t got = file_read(tar->window.fd, body, data, size);
    if (got != (int64_t)size) {
        free(body);
        return got < 0 ? io_error(tar, got) : cut(tar, "an extension header", NULL, data + size);
    }
    *out = body;
    return TAR_MEMBER;
}

/* Returns what is wrong, NULL = nothing. */
static const char *take_extension(struct tar_reader *tar, char type, char *body, uint64_t size)
{
    char **name = type == 'L' ? &tar->gnu_name : &tar->gnu_link;
    if (type == 'g')
        return tar_pax_parse(&tar->global, body, size);
    if (type == 'x' || type == 'X')
        return tar_pax_parse(&tar->local, body, size);
    if (!*name) /* of several, the first counts, as in Python's tarfile */
        *name = mem_string(body);
    return NULL;
}

static bool is_extension(char type)
{
    return type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K';
}

static enum tar_event extension(struct tar_reader *tar, char type, uint64_t size)
{
    cleanup_free char *body = NULL;
    const char *fault = "it is longer than any name";
    if (size <= (type == 'L' || type == 'K' ? TAR_NAME_MAX : TAR_PAX_MAX)) {
        enum tar_event event = read_body(tar, size, &body);
        if (event != TAR_MEMBER)
            return event;
        fault = take_extension(tar, type, body, size);
    } else if (size > tar->file_size - tar->at - TAR_BLOCK) {
        return cut(tar, "an extension header", NULL, tar->at + TAR_BLOCK + size);
    }
    tar->at += rounded(size);
    if (!fault) {
        tar->at += TAR_BLOCK;
        return TAR_MEMBER;
    }
    char text[200];
    snprintf(text, sizeof text,
             "a '%c' extension header is broken (%s); the member after it is left out", type,
             fault);
    tar->drop_next = true;
    return broken(tar, text);
}

static const char *first_of(const char *a, const char *b, const char *c)
{
    return a ? a : b ? b : c;
}

/* What the header and the extensions before it say together. */
static void describe(struct tar_reader *tar, const struct tar_header *header, uint64_t size,
                     struct tar_member *out)
{
    const struct tar_extra *local = &tar->local, *global = &tar->global;
    tar_plain_name(header, tar->name);
    snprintf(tar->target, sizeof tar->target, "%.100s", header->link);
    const char *plain = first_of(tar->gnu_name, global->path, tar->name);
    out->name = first_of(local->sparse_name, local->path, plain);
    out->link = first_of(local->link, tar->gnu_link, first_of(NULL, global->link, tar->target));
    out->size = local->has_size ? local->size : global->has_size ? global->size : size;
    out->sparse = header->type == 'S' || local->sparse || global->sparse;
    out->type = header->type ? header->type : '0';
    size_t length = strlen(out->name);
    if (!header->type && length && out->name[length - 1] == '/')
        out->type = '5';
    out->regular = (out->type == '0' || out->type == '7') && !out->sparse;
    out->stored = out->type >= '1' && out->type <= '6' ? 0 : out->size;
    out->data = tar->at + TAR_BLOCK;
}

/* GNU sparse maps that do not fit the header go on in further blocks before the payload. */
static enum tar_event skip_sparse_map(struct tar_reader *tar, const struct tar_header *header,
                                      struct tar_member *out)
{
    bool more = header->type == 'S' && ((const char *)header)[SPARSE_MORE_IN_HEADER] == 1;
    while (more) {
        const uint8_t *block;
        int64_t got = file_window_at(&tar->window, out->data, TAR_BLOCK, &block);
        if (got < 0)
            return io_error(tar, got);
        if (got < TAR_BLOCK)
            return cut(tar, "the map of sparse member", out->name, out->data + TAR_BLOCK);
        more = block[SPARSE_MORE_IN_EXTENSION] == 1;
        out->data += TAR_BLOCK;
    }
    return TAR_MEMBER;
}

static enum tar_event member(struct tar_reader *tar, const struct tar_header *header, uint64_t size,
                             struct tar_member *out)
{
    describe(tar, header, size, out);
    enum tar_event event = skip_sparse_map(tar, header, out);
    if (event != TAR_MEMBER)
        return event;
    if (out->data > tar->file_size || out->stored > tar->file_size - out->data)
        return cut(tar, "member", out->name, out->data + out->stored);
    tar->at = out->data + rounded(out->stored);
    return TAR_MEMBER;
}

/* One header and what belongs to it; *more = it was an extension, or is to be left out. */
static enum tar_event step(struct tar_reader *tar, struct tar_member *out, bool *more)
{
    struct tar_header header;
    uint64_t size;
    *more = false;
    *out = (struct tar_member){.offset = tar->at};
    enum tar_event event = next_block(tar, &header);
    if (event != TAR_MEMBER)
        return event;
    if (!tar_checksum_is_right(&header))
        return broken(tar, "the checksum of a member header is wrong");
    if (!tar_number(header.size, sizeof header.size, &size))
        return broken(tar, "the size in a member header is negative or no number");
    *more = is_extension(header.type);
    if (*more)
        return extension(tar, header.type, size);
    event = member(tar, &header, size, out);
    if (event == TAR_MEMBER && tar->drop_next) {
        *more = true;
        tar->drop_next = false;
        forget_extensions(tar);
    }
    return event;
}

enum tar_event tar_next(struct tar_reader *tar, struct tar_member *out)
{
    enum tar_event event;
    bool more;
    note_progress(tar);
    if (tar->delivered)
        forget_extensions(tar);
    do
        event = step(tar, out, &more);
    while (event == TAR_MEMBER && more);
    tar->delivered = event == TAR_MEMBER;
    return event;
}

static bool is_sound_header(const uint8_t *block)
{
    struct tar_header header;
    uint64_t size;
    memcpy(&header, block, sizeof header);
    return tar_has_magic(&header) && tar_checksum_is_right(&header) &&
           tar_number(header.size, sizeof header.size, &size);
}

bool tar_resync(struct tar_reader *tar)
{
    const uint8_t *block;
    if (tar->drop_next) /* only the names were broken */
        return true;
    for (; tar->at < tar->file_size; tar->at += TAR_BLOCK) {
        if (!note_progress(tar) ||
            file_window_at(&tar->window, tar->at, TAR_BLOCK, &block) < TAR_BLOCK)
            return false;
        if (is_sound_header(block))
            return true;
    }
    return false;
}

bool tar_has_trailing(struct tar_reader *tar)
{
    const uint8_t *block;
    for (uint64_t end = tar->at + TRAILING_LOOK; tar->at < end; tar->at += TAR_BLOCK) {
        int64_t got = file_window_at(&tar->window, tar->at, TAR_BLOCK, &block);
        for (int64_t i = 0; i < got; i++)
            if (block[i])
                return true;
        if (got < TAR_BLOCK)
            return false;
    }
    return false;
}
