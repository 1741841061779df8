/* The JPEG files of an image folder and their classes, in memory. One thread. */
#ifndef PACK_LIST_H
#define PACK_LIST_H

#include <stdint.h>

#include "base/error.h"

struct pack_image {
    char *path; /* below the folder */
    uint64_t size;
    uint32_t cls; /* place in classes */
};

struct pack_list {
    char *dir;                 /* absolute */
    struct pack_image *images; /* sorted bytewise by path */
    uint32_t count;
    char **classes; /* names of the directories in dir, sorted bytewise */
    uint32_t nclasses;
    uint64_t others; /* files that are no .jpg or .jpeg in a class's directory */
    uint64_t report; /* time of the next line of progress */
};

/* Symbolic links are followed. An unreadable directory is an error; so is a folder without JPEGs.
 * To be dropped also when it fails. */
int pack_list_read(struct pack_list *list, const char *dir, struct error *err);
void pack_list_drop(struct pack_list *list);

#endif
