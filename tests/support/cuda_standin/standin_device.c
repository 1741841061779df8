/* GPUs and their primary contexts. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct si_context si_contexts[SI_DEVICES];
unsigned si_visible;

enum { STACK = 16 };
static _Thread_local struct si_context *stack[STACK];
static _Thread_local unsigned depth;

static void uuid_of(unsigned physical, dlp_cu_uuid *uuid)
{
    unsigned char *bytes = (unsigned char *)uuid->bytes;
    const unsigned char plain[16] = {0x5C, 0xA1, 0xAB, 0x1E, 0, 0, 0x40, 0, 0x80};
    memcpy(bytes, plain, sizeof plain);
    bytes[15] = (unsigned char)physical;
    const char *text = si_knobs.uuids;
    for (unsigned i = 0; text && i < physical; i++)
        text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL;
    for (int i = 0; text && i < 16; i++)
        if (sscanf(text + 2 * i, "%2hhx", &bytes[i]) != 1)
            si_abort("STANDIN_UUIDS=%s: 32 hex digits for each GPU expected", si_knobs.uuids);
}

static void add(unsigned physical)
{
    for (unsigned i = 0; i < si_visible; i++)
        if (si_contexts[i].physical == physical)
            si_abort("CUDA_VISIBLE_DEVICES=%s names a GPU twice", si_knobs.visible);
    struct si_context *context = &si_contexts[si_visible];
    *context = (struct si_context){si_visible, physical, {{0}}, 0, -1, 0};
    uuid_of(physical, &context->uuid);
    si_visible++;
}

/* GPU-01234567-...: any beginning that is one GPU's alone; or its number. -1: none. */
static int physical_of(const char *name)
{
    char *end;
    long ordinal = strtol(name, &end, 10);
    if (!*end && end != name)
        return ordinal >= 0 && ordinal < (long)si_knobs.devices ? (int)ordinal : -1;
    for (unsigned i = 0; i < si_knobs.devices && strncmp(name, "GPU-", 4) == 0; i++) {
        dlp_cu_uuid uuid;
        char text[48];
        int n = snprintf(text, sizeof text, "GPU-");
        uuid_of(i, &uuid);
        for (int b = 0; b < 16; b++)
            n += snprintf(text + n, sizeof text - n, "%s%02x",
                          b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "",
                          (unsigned char)uuid.bytes[b]);
        if (strncmp(text, name, strlen(name)) == 0)
            return (int)i;
    }
    return -1;
}

void si_devices_init(void)
{
    if (!si_knobs.visible) {
        for (unsigned i = 0; i < si_knobs.devices; i++)
            add(i);
        return;
    }
    char copy[1000], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", si_knobs.visible);
    while ((name = strsep(&rest, ","))) {
        int physical = physical_of(name);
        if (physical < 0)
            return; /* what is after the first wrong one is not seen either */
        add((unsigned)physical);
    }
}

struct si_context *si_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

struct si_context *si_context_of_uuid(const char uuid[16])
{
    for (unsigned i = 0; i < si_visible; i++)
        if (memcmp(si_contexts[i].uuid.bytes, uuid, 16) == 0)
            return &si_contexts[i];
    return NULL;
}

static struct si_context *of(dlp_cu_device device)
{
    return device >= 0 && device < (int)si_visible ? &si_contexts[device] : NULL;
}

dlp_cu_result cuDeviceGetCount(int *count)
{
    SI_ENTER(SI_INITIALISED);
    *count = (int)si_visible;
    return 0;
}

dlp_cu_result cuDeviceGet(dlp_cu_device *device, int ordinal)
{
    SI_ENTER(SI_INITIALISED);
    if (!of(ordinal))
        return DLP_CU_INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

dlp_cu_result cuDeviceGetName(char *name, int size, dlp_cu_device device)
{
    SI_ENTER(SI_INITIALISED);
    if (!of(device))
        return DLP_CU_INVALID_DEVICE;
    snprintf(name, size, "Stand-in GPU %u", of(device)->physical);
    return 0;
}

dlp_cu_result cuDeviceGetUuid_v2(dlp_cu_uuid *uuid, dlp_cu_device device)
{
    SI_ENTER(SI_INITIALISED);
    if (!of(device))
        return DLP_CU_INVALID_DEVICE;
    *uuid = of(device)->uuid;
    return 0;
}

dlp_cu_result cuDeviceTotalMem_v2(size_t *bytes, dlp_cu_device device)
{
    SI_ENTER(SI_INITIALISED);
    if (!of(device))
        return DLP_CU_INVALID_DEVICE;
    *bytes = si_knobs.memory;
    return 0;
}

dlp_cu_result cuDeviceGetPCIBusId(char *text, int size, dlp_cu_device device)
{
    SI_ENTER(SI_INITIALISED);
    if (!of(device))
        return DLP_CU_INVALID_DEVICE;
    snprintf(text, size, "0000:%02X:00.0", 0x10 + of(device)->physical);
    return 0;
}

dlp_cu_result cuDeviceGetAttribute(int *value, dlp_cu_device_attribute attribute,
                                   dlp_cu_device device)
{
    SI_ENTER(SI_INITIALISED);
    if (!of(device))
        return DLP_CU_INVALID_DEVICE;
    switch (attribute) {
    case DLP_CU_DEVICE_COMPUTE_MODE:
        *value = si_knobs.mode;
        return 0;
    case DLP_CU_DEVICE_MAJOR:
        *value = 9;
        return 0;
    case DLP_CU_DEVICE_MINOR:
    case DLP_CU_DEVICE_NUMA_NODE:
        *value = 0;
        return 0;
    case DLP_CU_DEVICE_VMM:
        *value = si_knobs.vmm;
        return 0;
    case DLP_CU_DEVICE_POSIX_FD:
        *value = si_knobs.fd;
        return 0;
    default:
        return DLP_CU_INVALID_VALUE;
    }
}

/* The name of a socket is freed by the kernel when its process ends, however it ends. */
static bool claim(struct si_context *context)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "standin-%s-%u", si_knobs.domain,
             context->physical);
    context->exclusive = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(context->exclusive, (struct sockaddr *)&name, sizeof name) == 0)
        return true;
    close(context->exclusive);
    context->exclusive = -1;
    return false;
}

dlp_cu_result cuDevicePrimaryCtxRetain(dlp_cu_context *result, dlp_cu_device device)
{
    SI_ENTER(SI_INITIALISED);
    struct si_context *context = of(device);
    if (!context)
        return DLP_CU_INVALID_DEVICE;
    if (context->sticky)
        return context->sticky;
    if (si_knobs.mode == DLP_CU_MODE_PROHIBITED ||
        (si_knobs.mode == DLP_CU_MODE_EXCLUSIVE && !context->retained && !claim(context)))
        return DLP_CU_DEVICE_UNAVAILABLE;
    context->retained++;
    *result = (dlp_cu_context)context;
    return 0;
}

dlp_cu_result cuDevicePrimaryCtxRelease_v2(dlp_cu_device device)
{
    SI_ENTER(SI_EVEN_LOST);
    struct si_context *context = of(device);
    if (!context)
        return DLP_CU_INVALID_DEVICE;
    if (!context->retained)
        return DLP_CU_INVALID_CONTEXT;
    if (--context->retained)
        return 0;
    if (context->exclusive >= 0)
        close(context->exclusive);
    context->exclusive = -1;
    if (!context->sticky) {
        si_leaks_memory(context);
        si_leaks_streams(context);
        si_leaks_modules(context);
    }
    return context->sticky;
}

dlp_cu_result cuDevicePrimaryCtxGetState(dlp_cu_device device, unsigned *flags, int *active)
{
    SI_ENTER(SI_INITIALISED);
    if (!of(device))
        return DLP_CU_INVALID_DEVICE;
    *flags = 0;
    *active = of(device)->retained > 0;
    return 0;
}

dlp_cu_result cuCtxGetCurrent(dlp_cu_context *context)
{
    SI_ENTER(SI_INITIALISED);
    *context = (dlp_cu_context)si_current();
    return 0;
}

dlp_cu_result cuCtxGetDevice(dlp_cu_device *device)
{
    SI_ENTER(SI_IN_CONTEXT);
    *device = (int)si_current()->device;
    return 0;
}

dlp_cu_result cuCtxPushCurrent_v2(dlp_cu_context pushed)
{
    SI_ENTER(SI_INITIALISED);
    struct si_context *context = (struct si_context *)pushed;
    if (context < si_contexts || context >= si_contexts + si_visible || !context->retained ||
        depth == STACK)
        return DLP_CU_INVALID_CONTEXT;
    stack[depth++] = context;
    return 0;
}

dlp_cu_result cuCtxPopCurrent_v2(dlp_cu_context *context)
{
    SI_ENTER(SI_EVEN_LOST);
    if (!depth)
        return DLP_CU_INVALID_CONTEXT;
    *context = (dlp_cu_context)stack[--depth];
    return 0;
}
