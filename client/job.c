#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client_parts.h"

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* A name out of any text: what may not stand in one becomes '_'. */
static void sanitise(char name[DLP_NAME_MAX + 1])
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-";
    for (char *c = name; *(c += strspn(c, allowed));)
        *c = '_';
}

/* Start of a process in clock ticks after boot, field 22 of /proc/PID/stat; 0 when not known. The
 * second field is in brackets and may hold anything, so fields count from the last bracket. */
static unsigned long long start_time(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void of_process(const char *kind, pid_t pid, char name[DLP_NAME_MAX + 1])
{
    snprintf(name, DLP_NAME_MAX + 1, "%s-%d-%llu", kind, (int)pid, start_time(pid));
}

/* The trainers of a node are children of one launcher. */
static bool launched(void)
{
    return env("TORCHELASTIC_RUN_ID") || env("OMPI_COMM_WORLD_SIZE") || env("PMI_SIZE") ||
           env("PMIX_RANK");
}

void job_default(int64_t world, char name[DLP_NAME_MAX + 1])
{
    const char *slurm = env("SLURM_JOB_ID"), *step = env("SLURM_STEP_ID");
    const char *run = env("TORCHELASTIC_RUN_ID");
    if (slurm)
        snprintf(name, DLP_NAME_MAX + 1, "slurm-%s.%s", slurm, step ? step : "batch");
    else if (run && strcmp(run, "none") != 0)
        snprintf(name, DLP_NAME_MAX + 1, "torchrun-%s", run);
    else if (launched())
        of_process("launcher", getppid(), name);
    else if (world > 1)
        strcpy(name, "default");
    else
        of_process("process", getpid(), name);
    sanitise(name);
}
