#include "device/borrower.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"

struct borrower {
    atomic_uint refs;
    atomic_bool done;
    int life; /* pidfd; -1 = none */
};

struct borrower *borrower_new(int pidfd)
{
    struct borrower *borrower = mem_new(sizeof *borrower);
    atomic_init(&borrower->refs, 1);
    borrower->life = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
    return borrower;
}

struct borrower *borrower_ref(struct borrower *borrower)
{
    atomic_fetch_add(&borrower->refs, 1);
    return borrower;
}

void borrower_unref(struct borrower *borrower)
{
    if (!borrower || atomic_fetch_sub(&borrower->refs, 1) > 1)
        return;
    if (borrower->life >= 0)
        close(borrower->life);
    free(borrower);
}

void borrower_done(struct borrower *borrower)
{
    atomic_store(&borrower->done, true);
}

bool borrower_over(const struct borrower *borrower)
{
    struct pollfd end = {.fd = borrower->life, .events = POLLIN};
    return atomic_load(&borrower->done) || poll(&end, 1, 0) == 1;
}
