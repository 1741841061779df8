/* The members of a tar archive, one after the other: ustar, GNU, pax, star and v7 headers. Knows
 * nothing of samples. Every length and offset is checked against the file. Owner: one thread.
 * Sources: POSIX.1-2017 pax, and the GNU tar manual's "Basic Tar Format". */
#ifndef TAR_MEMBER_H
#define TAR_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/file_window.h"
#include "store/format.h"

#define TAR_BLOCK 512
#define TAR_NAME_MAX 65536
#define TAR_PAX_MAX (1U << 20)

/* What a pax header or a GNU long name says about the next member. */
struct tar_extra {
    char *path, *link, *sparse_name;
    bool has_size, sparse;
    uint64_t size;
};

struct tar_member {
    const char *name; /* valid until the next call */
    const char *link; /* target of types '1' and '2' */
    char type;        /* '0' also for NUL, '5' also for a v7 name that ends in '/' */
    bool regular;     /* types '0' and '7', not sparse */
    bool sparse;      /* whose stored blocks are not its content */
    uint64_t offset;  /* of its header (not of a pax or long name header before it) */
    uint64_t data;    /* of the payload */
    uint64_t size;    /* as its header (or pax) has it */
    uint64_t stored;  /* bytes of the payload in the archive: 0 for links, directories, devices */
};

enum tar_event {
    TAR_MEMBER,
    TAR_END,      /* the end marker */
    TAR_EOF,      /* the file ends where a header could begin, without a marker */
    TAR_CUT,      /* the file ends inside a header or payload; member is filled as far as known */
    TAR_BROKEN,   /* the header at member.offset is damaged; tar_resync() finds the next one */
    TAR_IO_ERROR, /* error has the negative errno */
};

struct tar_reader {
    struct file_window window;
    struct format_progress *progress; /* may be NULL */
    uint64_t file_size;
    uint64_t at;      /* where the next header is looked for */
    bool delivered;   /* the last call gave a member: what was said about it is over */
    bool drop_next;   /* an extension header is broken: the name of the next member is not known */
    int error;        /* of TAR_IO_ERROR */
    char reason[400]; /* of TAR_CUT and TAR_BROKEN */
    struct tar_extra global, local;
    char *gnu_name, *gnu_link;
    char name[257], target[101]; /* of a plain header */
};

/* progress: its bytes follow the place that is looked at; may be NULL. */
struct tar_reader *tar_reader_new(int fd, uint64_t file_size, struct format_progress *progress);
void tar_reader_free(struct tar_reader *tar);
enum tar_event tar_next(struct tar_reader *tar, struct tar_member *out);
/* After TAR_BROKEN: goes on at the next block that is a sound ustar or GNU header; false: there is
 * none, or progress was cancelled. */
bool tar_resync(struct tar_reader *tar);
/* Is there anything but zeros within 1 MiB after the end marker? */
bool tar_has_trailing(struct tar_reader *tar);

#endif
