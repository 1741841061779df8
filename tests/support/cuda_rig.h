/* Tests on the stand-in for the CUDA driver: each runs in a process of its own, which may start
 * others. A role is what one process does; it ends by returning, or by a NEED that is not met. */
#ifndef CUDA_RIG_H
#define CUDA_RIG_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "cuda_standin/standin_more.h"
#include "proto/cuda.h"

struct crig_role {
    const char *name;
    void (*run)(int peer); /* peer: socket to who started it */
    const char *settings;  /* NAME=VALUE by blanks, put into the environment */
    int status;            /* how a test has to end: exit status, or 128 + signal */
    const char *report;    /* words of the stand-in's report; NULL = there is none */
    bool is_peer;          /* started by other roles only */
};

/* main() of a test program: runs each role that is a test, or the one that is named. */
int crig_main(int argc, char **argv, const char *suite, const struct crig_role *roles,
              size_t nroles);

#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            crig_fail(__FILE__, __LINE__, #condition);                                             \
    } while (0)
#define CU(expected, call) crig_expect(__FILE__, __LINE__, #call, expected, call)
void crig_fail(const char *file, int line, const char *what) __attribute__((noreturn));
void crig_expect(const char *file, int line, const char *call, dlp_cu_result expected,
                 dlp_cu_result got);

struct crig_more {
#define X(member, symbol, arguments) dlp_cu_result(*member) arguments;
    STANDIN_MORE_FUNCTIONS(X)
#undef X
};
extern struct dlp_cuda cu;
extern struct crig_more more;
extern dlp_cu_context crig_context; /* current after crig_start */
extern dlp_cu_stream crig_stream;

void crig_load(void);         /* the driver alone */
void crig_start(int ordinal); /* and a context and a stream of that GPU */
void crig_stop(void);         /* gives context and stream back */
/* What is queued on the stream behind a gate runs once crig_open has been called for it. */
void crig_gate(dlp_cu_stream stream);
void crig_open(void);
void crig_sync(void); /* waits for the stream */

/* Starts a role of this program with settings as above; *peer is our end of the socket. */
pid_t crig_spawn(const char *role, const char *settings, int *peer);
int crig_wait(pid_t pid); /* exit status, or 128 + signal */
/* Bytes, with a descriptor (-1 = none) or without. Receiving gives up after 20 s. */
void crig_send(int peer, const void *bytes, size_t size, int fd);
int crig_receive(int peer, void *bytes, size_t size); /* the descriptor, or -1 */
void crig_tell(int peer);                             /* one byte */
void crig_listen(int peer);                           /* waits for it */

/* Memory that is mapped and usable by GPU 0; *memory is the handle, still to be released. */
dlp_cu_pointer crig_map(dlp_cu_memory memory, size_t size, dlp_cu_access_flags flags);
void crig_unmap(dlp_cu_pointer at, size_t size);
dlp_cu_allocation crig_allocation(int ordinal, dlp_cu_handle_type type);
/* Copies and waits; pageable or pinned alike. */
void crig_put(dlp_cu_pointer to, const void *from, size_t size);
void crig_get(void *to, dlp_cu_pointer from, size_t size);

#endif
