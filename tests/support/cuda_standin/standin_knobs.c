/* Settings and faults from the environment. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct si_knobs si_knobs = {.strict = true};

static unsigned number(const char *name, unsigned fallback)
{
    const char *text = getenv(name);
    if (!text)
        return fallback;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || end == text)
        si_abort("%s=%s is not a number", name, text);
    return (unsigned)value;
}

void si_knobs_read(void)
{
    const char *death = getenv("STANDIN_PEER_DEATH"), *domain = getenv("STANDIN_DOMAIN");
    si_knobs.report = getenv("STANDIN_REPORT");
    si_knobs.devices = number("STANDIN_DEVICES", 1);
    si_knobs.memory = (uint64_t)number("STANDIN_MEMORY_MB", 1024) << 20;
    si_knobs.mode = (int)number("STANDIN_COMPUTE_MODE", DLP_CU_MODE_DEFAULT);
    si_knobs.vmm = number("STANDIN_VMM", 1);
    si_knobs.fd = number("STANDIN_POSIX_FD", 1);
    si_knobs.ipc = number("STANDIN_IPC", 1);
    si_knobs.init = number("STANDIN_INIT", 0);
    si_knobs.mb_per_s = number("STANDIN_MB_PER_S", 0);
    si_knobs.op_us = number("STANDIN_OP_US", 0);
    si_knobs.init_s = number("STANDIN_INIT_S", 0);
    si_knobs.jitter = number("STANDIN_JITTER", 0);
    si_knobs.hang_s = number("STANDIN_HANG_S", 30);
    si_knobs.dirty = number("STANDIN_DIRTY", 0);
    si_knobs.strict = number("STANDIN_STRICT", 1);
    si_knobs.keep = death && strcmp(death, "keep") == 0;
    snprintf(si_knobs.domain, sizeof si_knobs.domain, "%s", domain ? domain : "0");
    si_knobs.uuids = getenv("STANDIN_UUIDS");
    si_knobs.visible = getenv("CUDA_VISIBLE_DEVICES");
    if (si_knobs.devices > SI_DEVICES)
        si_abort("STANDIN_DEVICES=%u is more than %d", si_knobs.devices, SI_DEVICES);
    if (getenv("STANDIN_FAULTS"))
        si_faults_read(getenv("STANDIN_FAULTS"));
}

static struct fault {
    char function[64];
    unsigned nth; /* 0 = each */
    unsigned code;
    unsigned calls;
} faults[16];
static unsigned nfaults;

static unsigned code_of(const char *text)
{
    unsigned kind = 0;
    if (strcmp(text, "hang") == 0)
        return SI_FAULT_HANG;
    if (strcmp(text, "stay") == 0)
        return SI_FAULT_STAY;
    if (*text == '!')
        kind = SI_FAULT_STICKY;
    else if (*text == '@')
        kind = SI_FAULT_LATER;
    unsigned code = (unsigned)atoi(text + (kind != 0));
    if (!code)
        si_abort("STANDIN_FAULTS: %s is no code", text);
    return kind | code;
}

void si_faults_read(const char *text)
{
    char copy[1000], *rest = copy, *item;
    snprintf(copy, sizeof copy, "%s", text);
    while ((item = strsep(&rest, ","))) {
        char *name = strsep(&item, ":"), *nth = strsep(&item, ":"), *code = item;
        if (!nth || !code || nfaults == sizeof faults / sizeof *faults)
            si_abort("STANDIN_FAULTS=%s: function:nth:code expected, at most 16", text);
        struct fault *fault = &faults[nfaults++];
        snprintf(fault->function, sizeof fault->function, "%s", name);
        fault->nth = strcmp(nth, "*") == 0 ? 0 : (unsigned)atoi(nth);
        fault->code = code_of(code);
    }
}

unsigned si_fault(const char *function)
{
    unsigned code = 0;
    for (unsigned i = 0; i < nfaults; i++)
        if (strcmp(faults[i].function, function) == 0) {
            faults[i].calls++;
            if (faults[i].nth == 0 || faults[i].nth == faults[i].calls)
                code = faults[i].code;
        }
    return code;
}
