/* The CUDA driver found, missing, unusable: one line of reason each, and nothing else happens. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_rig.h"

/* Opening fails with `code`, and the reason holds `words` on one line. */
static void refused(int code, const char *words)
{
    char why[300] = "";
    struct dlp_cuda driver;
    int r = dlp_cuda_open(&driver, why, sizeof why);
    if (r != code || !strstr(why, words) || strchr(why, '\n')) {
        fprintf(stderr, "%d: %s\n", r, why);
        exit(2);
    }
    NEED(!driver.init && !driver.launch && !driver.version);
}

static void usable(int peer)
{
    (void)peer;
    int count;
    crig_load();
    NEED(cu.version == 13000);
    CU(0, cu.device_count(&count));
    NEED(count == 1);
}

static void opened_twice(int peer)
{
    (void)peer;
    usable(peer);
    usable(peer);
}

static void twelve(int peer)
{
    (void)peer;
    crig_load();
    NEED(cu.version == 12000);
}

static void too_old(int peer)
{
    (void)peer;
    refused(-EOPNOTSUPP, "the NVIDIA driver is for CUDA 11.8, and 12.0 or newer is needed");
}

static void stub(int peer)
{
    (void)peer;
    refused(-ENODEV, "cuInit: CUDA_ERROR_STUB_LIBRARY (34): the toolkit's stub");
}

static void no_device(int peer)
{
    (void)peer;
    refused(-ENODEV, "CUDA_ERROR_NO_DEVICE (100): no NVIDIA GPU is visible");
}

static void not_ready(int peer)
{
    (void)peer;
    refused(-ENODEV, "CUDA_ERROR_SYSTEM_NOT_READY (802)");
}

static void mismatch(int peer)
{
    (void)peer;
    refused(-ENODEV, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): the kernel module and libcuda");
}

static void unknown_code(int peer)
{
    (void)peer;
    refused(-EIO, "cuInit: unknown CUDA result (4711)");
}

static void version_fails(int peer)
{
    (void)peer;
    refused(-EIO, "cuDriverGetVersion: CUDA_ERROR_UNKNOWN (999)");
}

/* A library of that name that is something else comes before the real one: this program is started
 * again with its folder in the search path. */
static void elsewhere(const char *role, const char *target, const char *bytes)
{
    char folder[] = "/tmp/cuda-driver-XXXXXX", path[100];
    NEED(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    if (target)
        NEED(symlink(target, path) == 0);
    FILE *file = bytes ? fopen(path, "we") : NULL;
    NEED(!bytes || (file && fputs(bytes, file) >= 0 && fclose(file) == 0));
    int peer, status;
    char settings[200];
    snprintf(settings, sizeof settings, "LD_LIBRARY_PATH=%s", folder);
    status = crig_wait(crig_spawn(role, settings, &peer));
    unlink(path);
    rmdir(folder);
    NEED(status == 0);
}

static void broken_inside(int peer)
{
    (void)peer;
    refused(-ENOENT, "the NVIDIA driver cannot be loaded: ");
}

static void broken(int peer)
{
    (void)peer;
    elsewhere("broken_inside", NULL, "this is no library\n");
}

static void another_inside(int peer)
{
    (void)peer;
    refused(-EOPNOTSUPP, "the NVIDIA driver has no cuInit: libcuda.so.1 is too old or another");
}

static void another(int peer)
{
    (void)peer;
    elsewhere("another_inside", OTHER_LIBRARY, NULL);
}

static void missing_inside(int peer)
{
    (void)peer;
    if (access("/proc/driver/nvidia", F_OK) != 0) /* else there is a driver */
        refused(-ENOENT, "no NVIDIA driver is installed here (libcuda.so.1 is not found)");
}

static void missing(int peer)
{
    (void)peer;
    elsewhere("missing_inside", NULL, NULL);
}

#ifdef CUDA_TOOLKIT_STUB
static void real_stub(int peer)
{
    (void)peer;
    elsewhere("stub", CUDA_TOOLKIT_STUB, NULL);
}
#endif

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"usable", usable},
        {"opened_twice", opened_twice},
        {"twelve", twelve, "STANDIN_VERSION=12000"},
        {"too_old", too_old, "STANDIN_VERSION=11080"},
        {"stub", stub, "STANDIN_INIT=34"},
        {"no_device", no_device, "STANDIN_DEVICES=0"},
        {"nothing_visible", no_device, "CUDA_VISIBLE_DEVICES="},
        {"not_ready", not_ready, "STANDIN_INIT=802"},
        {"mismatch", mismatch, "STANDIN_INIT=803"},
        {"unknown_code", unknown_code, "STANDIN_INIT=4711"},
        {"version_fails", version_fails, "STANDIN_FAULTS=cuDriverGetVersion:1:999"},
        {"broken", broken},
        {"broken_inside", broken_inside, .is_peer = true},
        {"another", another},
        {"another_inside", another_inside, .is_peer = true},
        {"missing", missing},
        {"missing_inside", missing_inside, .is_peer = true},
#ifdef CUDA_TOOLKIT_STUB
        {"real_stub", real_stub},
#endif
    };
    return crig_main(argc, argv, "cuda_driver", roles, sizeof roles / sizeof *roles);
}
