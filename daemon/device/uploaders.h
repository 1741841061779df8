/* The GPUs of this node by UUID, each with its uploader, made when somebody asks for it. One for
 * the daemon. */
#ifndef UPLOADERS_H
#define UPLOADERS_H

#include "device/uploader.h"
#include "proto/slot.h"

#define UPLOADERS_UUID 16

struct uploaders;

/* What of a GPU decides how its memory can be passed on. */
struct uploaders_gpu {
    struct uploader *uploader;
    bool vmm; /* memory apart from its address, passed on as a descriptor */
};

struct uploaders *uploaders_new(const struct uploader_times *times);
/* Nobody holds any. False: the driver hangs until then (clock_ns), or clients still map what must
 * not be freed: the process has to end by _exit. */
bool uploaders_free(struct uploaders *uploaders, uint64_t until);

/* Loads the driver where that was not done; takes no memory of the GPU. Helper thread. -ENODEV with
 * the reason: no driver, no such GPU here, its compute mode. */
int uploaders_find(struct uploaders *uploaders, const uint8_t uuid[UPLOADERS_UUID],
                   struct uploaders_gpu *out, struct error *err);
/* What is known of the GPU of this name; false: nobody has asked for it yet. Any thread, does not
 * block. */
bool uploaders_state(struct uploaders *uploaders, const char *name, struct uploader_state *out);
/* The daemon's context on the GPU of this name goes now, if there is one; the number of feeds that
 * use it where it cannot. Any thread, does not block. */
uint32_t uploaders_let_go(struct uploaders *uploaders, const char *name);
/* uploader_watch of all. Any thread, does not block. */
void uploaders_watch(struct uploaders *uploaders);
/* "GPU-01234567-89ab-cdef-0123-456789abcdef" */
char *uploaders_uuid_text(const uint8_t uuid[UPLOADERS_UUID], char text[UPLOADER_NAME_MAX]);

#endif
