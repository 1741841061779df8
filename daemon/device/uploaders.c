#include "device/uploaders.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/plural.h"

struct entry {
    struct entry *next;
    uint8_t uuid[UPLOADERS_UUID];
    struct uploaders_gpu gpu;
};

struct uploaders {
    struct uploader_times times;
    pthread_mutex_t mutex; /* of who opens the driver or makes an entry: may take long */
    bool open;
    struct dlp_cuda cuda;
    pthread_mutex_t list; /* of the entries */
    struct entry *entries;
};

struct uploaders *uploaders_new(const struct uploader_times *times)
{
    struct uploaders *uploaders = mem_new(sizeof *uploaders);
    uploaders->times = *times;
    pthread_mutex_init(&uploaders->mutex, NULL);
    pthread_mutex_init(&uploaders->list, NULL);
    return uploaders;
}

bool uploaders_free(struct uploaders *uploaders, uint64_t until)
{
    struct entry *entry;
    while ((entry = uploaders->entries)) {
        if (!uploader_free(entry->gpu.uploader, until))
            return false;
        uploaders->entries = entry->next;
        free(entry);
    }
    pthread_mutex_destroy(&uploaders->mutex);
    pthread_mutex_destroy(&uploaders->list);
    free(uploaders);
    return true;
}

char *uploaders_uuid_text(const uint8_t uuid[UPLOADERS_UUID], char text[UPLOADER_NAME_MAX])
{
    size_t used = (size_t)snprintf(text, UPLOADER_NAME_MAX, "GPU-");
    for (size_t i = 0; i < UPLOADERS_UUID; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(text + used, UPLOADER_NAME_MAX - used, "%s%02x", dash ? "-" : "",
                                 uuid[i]);
    }
    return text;
}

static int open_driver(struct uploaders *uploaders, struct error *err)
{
    char why[ERROR_TEXT_MAX / 2];
    if (!uploaders->open && dlp_cuda_open(&uploaders->cuda, why, sizeof why) != 0)
        return error_set(err, -ENODEV, "%s", why);
    uploaders->open = true;
    return 0;
}

static int no_gpu(const struct uploader_device *device, int count, struct error *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return error_set(err, -ENODEV,
                     "%s: the daemon does not see this GPU; it sees %d GPU%s%s%s: start it without "
                     "CUDA_VISIBLE_DEVICES, and on the trainer's node",
                     device->name, count, plural((uint64_t)count),
                     visible ? ", and its CUDA_VISIBLE_DEVICES is " : "", visible ? visible : "");
}

static int find_device(const struct dlp_cuda *cuda, const uint8_t uuid[UPLOADERS_UUID],
                       struct uploader_device *device, struct error *err)
{
    dlp_cu_uuid its;
    int count = 0;
    if (cuda->device_count(&count) != 0)
        count = 0;
    for (int ordinal = 0; ordinal < count; ordinal++)
        if (cuda->device_get(&device->device, ordinal) == 0 &&
            cuda->device_uuid(&its, device->device) == 0 &&
            memcmp(its.bytes, uuid, UPLOADERS_UUID) == 0)
            return 0;
    return no_gpu(device, count, err);
}

static int attribute(const struct uploader_device *device, dlp_cu_device_attribute which,
                     int fallback)
{
    int value;
    return device->cuda->device_attribute(&value, which, device->device) == 0 ? value : fallback;
}

static int check_mode(const struct uploader_device *device, struct error *err)
{
    int mode = attribute(device, DLP_CU_DEVICE_COMPUTE_MODE, 0);
    if (mode == DLP_CU_MODE_PROHIBITED)
        return error_set(err, -ENODEV, "%s: its compute mode PROHIBITED allows no process at all",
                         device->name);
    if (mode == DLP_CU_MODE_EXCLUSIVE)
        return error_set(err, -ENODEV,
                         "%s: its compute mode EXCLUSIVE_PROCESS allows one process only, and that "
                         "is to be the trainer: nvidia-smi -c DEFAULT changes it",
                         device->name);
    return 0;
}

/* Under the mutex. */
static int make_entry(struct uploaders *uploaders, const uint8_t uuid[UPLOADERS_UUID],
                      struct entry **out, struct error *err)
{
    struct uploader_device device = {.cuda = &uploaders->cuda};
    uploaders_uuid_text(uuid, device.name);
    int code = find_device(&uploaders->cuda, uuid, &device, err);
    if (code == 0)
        code = check_mode(&device, err);
    if (code < 0)
        return code;
    struct entry *entry = mem_new(sizeof *entry);
    memcpy(entry->uuid, uuid, sizeof entry->uuid);
    entry->gpu.vmm =
        attribute(&device, DLP_CU_DEVICE_VMM, 0) && attribute(&device, DLP_CU_DEVICE_POSIX_FD, 0);
    device.numa_node = attribute(&device, DLP_CU_DEVICE_NUMA_NODE, -1);
    code = uploader_new(&device, &uploaders->times, &entry->gpu.uploader, err);
    if (code < 0) {
        free(entry);
        return code;
    }
    pthread_mutex_lock(&uploaders->list);
    entry->next = uploaders->entries;
    uploaders->entries = *out = entry;
    pthread_mutex_unlock(&uploaders->list);
    return 0;
}

/* Under the mutex. */
static int find(struct uploaders *uploaders, const uint8_t uuid[UPLOADERS_UUID], struct entry **out,
                struct error *err)
{
    int code = open_driver(uploaders, err);
    if (code < 0)
        return code;
    for (*out = uploaders->entries; *out; *out = (*out)->next)
        if (memcmp((*out)->uuid, uuid, UPLOADERS_UUID) == 0)
            return 0;
    return make_entry(uploaders, uuid, out, err);
}

int uploaders_find(struct uploaders *uploaders, const uint8_t uuid[UPLOADERS_UUID],
                   struct uploaders_gpu *out, struct error *err)
{
    struct entry *entry = NULL;
    pthread_mutex_lock(&uploaders->mutex);
    int code = find(uploaders, uuid, &entry, err);
    if (code == 0)
        *out = entry->gpu;
    pthread_mutex_unlock(&uploaders->mutex);
    return code;
}

static struct uploader *named(struct uploaders *uploaders, const char *name)
{
    pthread_mutex_lock(&uploaders->list);
    const struct entry *entry = uploaders->entries;
    while (entry && strcmp(uploader_name(entry->gpu.uploader), name) != 0)
        entry = entry->next;
    pthread_mutex_unlock(&uploaders->list);
    return entry ? entry->gpu.uploader : NULL;
}

bool uploaders_state(struct uploaders *uploaders, const char *name, struct uploader_state *out)
{
    struct uploader *uploader = named(uploaders, name);
    if (uploader)
        uploader_state(uploader, out);
    return uploader;
}

void uploaders_watch(struct uploaders *uploaders)
{
    pthread_mutex_lock(&uploaders->list);
    struct entry *entry = uploaders->entries;
    pthread_mutex_unlock(&uploaders->list);
    for (; entry; entry = entry->next) /* they stay, and new ones come first */
        uploader_watch(entry->gpu.uploader);
}

uint32_t uploaders_let_go(struct uploaders *uploaders, const char *name)
{
    struct uploader *uploader = named(uploaders, name);
    return uploader ? uploader_let_go(uploader) : 0;
}
