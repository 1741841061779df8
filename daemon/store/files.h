/* Files that a user has given as descriptors, in listed order: the shards of a feed of his own. He
 * has opened them, so it is his rights that the kernel has checked; nothing here opens a path for
 * him. Sets and what is in them are counted by reference; all threads.
 *
 * To close a file may block (a file system in user space is asked first), so a thread of the
 * owner's does it, and a descriptor counts as held until that has been done. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct files_owner; /* a user, and how many descriptors we hold of his */
struct files;

struct files_owner *files_owner_new(uid_t uid);
struct files_owner *files_owner_ref(struct files_owner *owner);
void files_owner_unref(struct files_owner *owner); /* NULL is fine */
uid_t files_owner_uid(const struct files_owner *owner);
uint32_t files_owner_held(struct files_owner *owner); /* descriptors */
/* Closes what no thread could be had for. */
void files_owner_tidy(struct files_owner *owner);
/* Takes over descriptors that are not wanted: (void *) owner, for dlp_channel_take_fds. */
void files_drop(void *owner, const int *fds, size_t count);

struct files *files_new(struct files_owner *owner);
struct files *files_ref(struct files *files); /* NULL is fine */
void files_unref(struct files *files);        /* likewise */
const struct files_owner *files_owner(const struct files *files);
/* Takes fd over; the name is for texts. */
void files_add(struct files *files, int fd, const char *name);
/* Looks at the file: a regular one, open for reading. Blocks. -EINVAL, -EACCES and those of fstat,
 * with its name. */
int files_look(struct files *files, uint32_t number, struct error *err);
/* Of these, which have been looked at and nobody else has: where `known` has the same state of the
 * same file, from its number `first` on, that one takes the place, and ours is closed. Blocks. */
void files_share(struct files *files, const struct files *known, uint32_t first);
void files_join(struct files *files, const struct files *from); /* adds all of `from` */
bool files_equal(const struct files *a, const struct files *b); /* in files_share's sense */
uint32_t files_count(const struct files *files);
const char *files_name(const struct files *files, uint32_t number);

/* Opens a shard as open(2) does: the path, or with files another descriptor of what was given. */
int files_open(const struct files *files, uint32_t number, const char *path, int flags);
/* Threads have been left behind (or come back, -1) at files of this user whose storage hangs. */
void files_leave_behind(const struct files *files, int more);
/* None may be left behind again: -EBUSY. */
int files_may_hang(const struct files *files, struct error *err);
/* Memory that what is known of his files takes: indexes in the making and open, mapped or not, and
 * the lists of records left out. */
void files_owner_allow(struct files_owner *owner, uint64_t bytes); /* 0 = any */
uint64_t files_owner_memory(const struct files_owner *owner);
/* That much more (or less, negative) is taken, in any case. -E2BIG: it is more than is allowed.
 * files may be NULL, whose memory is not counted. */
int files_take_memory(const struct files *files, int64_t bytes, struct error *err);
int files_too_much(const struct files *files, struct error *err); /* that refusal */
/* What indexes and marks of these shards are kept under: nobody may put any for another, and what
 * tells one state of a file from others is its owner's to choose. Returns text. */
#define FILES_SPACE_MAX 40
char *files_space(const struct files *files, const char *format, char text[FILES_SPACE_MAX]);

#endif
