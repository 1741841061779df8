/* The bad samples and bad shards found so far: each once, with a count; bounded; kept over a
 * restart in a text file of the cache directory, but for those of feeds of a user's own
 * (~UID/NAME), which have half of the room at most. All texts are escaped (dlp_escape) on the way
 * in. Loop thread, except badlist_write. */
#ifndef BADLIST_H
#define BADLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bad.h"
#include "base/error.h"

#define BADLIST_MAX 10000 /* entries; what comes later is only counted */

struct badlist;

struct badlist_entry {
    enum bad_class cls;
    uint64_t offset;
    uint64_t count;
    char *feed, *shard, *key, *reason;
};

struct badlist *badlist_new(uint32_t max);
void badlist_free(struct badlist *list);

/* Counts one more; an entry is known by feed, class, shard, key and offset. */
void badlist_add(struct badlist *list, const char *feed, const struct bad_report *report);
/* The same for a fault of structure, which is found again at every opening: counts once. */
void badlist_add_once(struct badlist *list, const char *feed, const struct bad_report *report);

/* Those of a feed are forgotten. */
void badlist_forget(struct badlist *list, const char *feed);
uint32_t badlist_count(const struct badlist *list);
const struct badlist_entry *badlist_at(const struct badlist *list, uint32_t number);
uint64_t badlist_unlisted(const struct badlist *list); /* reports that found no room */

/* The file: a first line, then "count offset class feed shard key reason", tabs between. */
bool badlist_dirty(const struct badlist *list);         /* changed since the last text */
char *badlist_text(struct badlist *list, size_t *size); /* free() it; not dirty any more */
int badlist_write(const char *path, const char *text, size_t size,
                  struct error *err); /* blocks; any thread; temporary file and rename */
/* Reads it back; lines that are not understood are left out. -ENOENT when there is none. Blocks. */
int badlist_read(struct badlist *list, const char *path, struct error *err);
/* The same from memory; number of lines left out. */
uint32_t badlist_parse(struct badlist *list, char *text);

#endif
