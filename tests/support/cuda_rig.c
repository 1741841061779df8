#include "cuda_rig.h"

#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEER = 3, PATIENCE_MS = 60000, LINES = 4000 };

struct dlp_cuda cu;
struct crig_more more;
dlp_cu_context crig_context;
dlp_cu_stream crig_stream;

static const struct crig_role *all;
static size_t nall;

void crig_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    _exit(2);
}

void crig_expect(const char *file, int line, const char *call, dlp_cu_result expected,
                 dlp_cu_result got)
{
    if (got == expected)
        return;
    fprintf(stderr, "%s:%d: %s gave %u, not %u\n", file, line, call, got, expected);
    _exit(2);
}

void crig_load(void)
{
    char why[300] = "";
    if (dlp_cuda_open(&cu, why, sizeof why) != 0)
        crig_fail(__FILE__, __LINE__, why);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
#define X(member, symbol, arguments) *(void **)(&more.member) = dlsym(library, #symbol);
    STANDIN_MORE_FUNCTIONS(X)
#undef X
    dlclose(library);
}

static int device;

void crig_start(int ordinal)
{
    crig_load();
    device = ordinal;
    CU(0, cu.context_retain(&crig_context, ordinal));
    CU(0, cu.context_push(crig_context));
    CU(0, cu.stream_create(&crig_stream, DLP_CU_STREAM_NON_BLOCKING, 0));
}

void crig_stop(void)
{
    CU(0, cu.stream_destroy(crig_stream));
    CU(0, cu.context_pop(&crig_context));
    CU(0, cu.context_release(device));
}

static sem_t gate;

static void hold(void *data)
{
    (void)data;
    sem_wait(&gate);
}

void crig_gate(dlp_cu_stream stream)
{
    CU(0, more.host_call(stream, hold, NULL));
}

void crig_open(void)
{
    sem_post(&gate);
}

void crig_sync(void)
{
    CU(0, cu.stream_synchronize(crig_stream));
}

/* The words of `settings` go into the environment. */
static void set_all(const char *settings)
{
    char *copy = strdup(settings ? settings : ""), *rest = copy, *word;
    while ((word = strsep(&rest, " ")))
        if (*word) {
            char *value = strchr(word, '=');
            *value = 0;
            setenv(word, value + 1, 1);
        }
    free(copy);
}

static pid_t start(const char *role, const char *settings, const char *report, int *peer)
{
    int ends[2];
    NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 0); /* else 1 s where a thread still runs */
        set_all(settings);
        if (report)
            setenv("STANDIN_REPORT", report, 1);
        if (ends[1] == PEER)
            fcntl(PEER, F_SETFD, 0);
        else
            dup2(ends[1], PEER);
        execl("/proc/self/exe", "test", role, (char *)NULL);
        _exit(127);
    }
    NEED(pid > 0);
    close(ends[1]);
    *peer = ends[0];
    return pid;
}

pid_t crig_spawn(const char *role, const char *settings, int *peer)
{
    return start(role, settings, NULL, peer);
}

int crig_wait(pid_t pid)
{
    int status;
    NEED(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void crig_send(int peer, const void *bytes, size_t size, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] __attribute__((aligned(8))) = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    NEED(sendmsg(peer, &message, MSG_NOSIGNAL) == (ssize_t)size);
}

int crig_receive(int peer, void *bytes, size_t size)
{
    int fd = -1;
    char control[CMSG_SPACE(sizeof fd)] __attribute__((aligned(8)));
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct pollfd ready = {.fd = peer, .events = POLLIN};
    NEED(poll(&ready, 1, PATIENCE_MS) == 1);
    NEED(recvmsg(peer, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) == (ssize_t)size);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head)
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

void crig_tell(int peer)
{
    crig_send(peer, "", 1, -1);
}

void crig_listen(int peer)
{
    char byte;
    crig_receive(peer, &byte, 1);
}

dlp_cu_allocation crig_allocation(int ordinal, dlp_cu_handle_type type)
{
    return (dlp_cu_allocation){.type = DLP_CU_ALLOCATION_PINNED,
                               .handle_types = type,
                               .location = {DLP_CU_LOCATION_DEVICE, ordinal}};
}

dlp_cu_pointer crig_map(dlp_cu_memory memory, size_t size, dlp_cu_access_flags flags)
{
    dlp_cu_pointer at;
    const dlp_cu_access access = {{DLP_CU_LOCATION_DEVICE, device}, flags};
    CU(0, cu.address_reserve(&at, size, 0, 0, 0));
    CU(0, cu.memory_map(at, size, 0, memory, 0));
    CU(0, cu.memory_access(at, size, &access, 1));
    return at;
}

void crig_unmap(dlp_cu_pointer at, size_t size)
{
    CU(0, cu.memory_unmap(at, size));
    CU(0, cu.address_free(at, size));
}

void crig_put(dlp_cu_pointer to, const void *from, size_t size)
{
    CU(0, cu.copy_to_device(to, from, size, crig_stream));
    crig_sync();
}

void crig_get(void *to, dlp_cu_pointer from, size_t size)
{
    CU(0, cu.copy_to_host(to, from, size, crig_stream));
    crig_sync();
}

static char *slurp(const char *path)
{
    char *text = calloc(1, LINES);
    FILE *file = fopen(path, "re");
    if (file) {
        text[fread(text, 1, LINES - 1, file)] = 0;
        fclose(file);
    }
    return text;
}

START_TEST(role)
{
    const struct crig_role *one = &all[_i];
    char report[] = "/tmp/cuda-report-XXXXXX", domain[300];
    if (one->is_peer)
        return;
    int peer, fd = mkstemp(report);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(domain, sizeof domain, "STANDIN_DOMAIN=%d %s", getpid(),
             one->settings ? one->settings : "");
    int status = crig_wait(start(one->name, domain, report, &peer));
    close(peer);
    char *said = slurp(report);
    unlink(report);
    ck_assert_msg(status == one->status, "%s ended with %d, not %d\n%s", one->name, status,
                  one->status, said);
    ck_assert_msg(one->report ? strstr(said, one->report) != NULL : !*said, "%s reported: %s",
                  one->name, said);
    free(said);
}
END_TEST

static int run_role(const char *name)
{
    for (size_t i = 0; i < nall; i++)
        if (strcmp(all[i].name, name) == 0) {
            all[i].run(PEER);
            return 0;
        }
    return 127;
}

int crig_main(int argc, char **argv, const char *suite_name, const struct crig_role *roles,
              size_t nroles)
{
    all = roles;
    nall = nroles;
    if (argc > 1)
        return run_role(argv[1]);
    Suite *suite = suite_create(suite_name);
    TCase *tcase = tcase_create("roles");
    tcase_add_loop_test(tcase, role, 0, (int)nroles);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
