#include "control/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/frames.h"

#define MAGIC 0x72656764656c4c44ULL
#define VERSION 1U /* of all that is below */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define STEP_BITS 39 /* the rest is the epoch's: one more than DLP_EPOCH_MAX has to fit */
#define STEP_MAX ((1ULL << STEP_BITS) - 1)

struct cell_job {
    _Atomic uint64_t number;      /* of all jobs ever; stored last, 0 = free */
    _Atomic uint64_t empty_since; /* ns; 0 = it has clients */
    uint64_t sum;                 /* of the number and what follows */
    struct ledger_job job;
};

struct cell_rank {
    _Atomic uint64_t number; /* its job's; stored last, 0 = free */
    _Atomic uint64_t vacant;
    _Atomic uint64_t place; /* epoch and step */
    uint32_t rank;
    uint16_t job; /* its entry */
    bool rowless, left;
};

struct page {
    uint64_t magic;
    uint32_t version, bytes; /* of all of it */
    struct cell_job jobs[LEDGER_JOBS];
    struct cell_rank ranks[LEDGER_RANKS];
};

struct ledger {
    int fd;
    struct page *page;
    uint64_t number;              /* of the last job */
    uint32_t next_job, next_rank; /* where to look for a free one */
};

/* The end may come between any two stores, but they are made in this order. */
static void publish(_Atomic uint64_t *at, uint64_t value)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(at, value, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

static uint64_t sum_of(const struct ledger_job *job, uint64_t number)
{
    return XXH3_64bits_withSeed(job, sizeof *job, number);
}

static struct ledger *map(int fd, struct error *err)
{
    void *memory = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        error_set(err, -errno, "the %zu bytes that keep jobs over a restart cannot be mapped: %s",
                  sizeof(struct page), strerror(errno));
        close(fd);
        return NULL;
    }
    struct ledger *ledger = mem_new(sizeof *ledger);
    ledger->fd = fd;
    ledger->page = memory;
    return ledger;
}

struct ledger *ledger_new(struct error *err)
{
    int fd = mem_file("dataloadd-jobs");
    if (fd < 0 || fallocate(fd, 0, 0, sizeof(struct page)) < 0 ||
        fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        error_set(err, -errno, "no memory of %zu bytes to keep jobs over a restart: %s",
                  sizeof(struct page), strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct ledger *ledger = map(fd, err);
    if (ledger) {
        ledger->page->version = VERSION;
        ledger->page->bytes = sizeof *ledger->page;
        ledger->page->magic = MAGIC;
    }
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    if (!ledger)
        return;
    munmap(ledger->page, sizeof *ledger->page);
    close(ledger->fd);
    free(ledger);
}

int ledger_fd(const struct ledger *ledger)
{
    return ledger->fd;
}

/* A size that nobody can change any more: mapped, it is all there. */
static int check_file(int fd, struct error *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
        st.st_size != (off_t)sizeof(struct page))
        return error_set(err, -EPROTO,
                         "what the service manager has kept is not the memory of this version's "
                         "jobs: sealed, and %zu bytes long",
                         sizeof(struct page));
    return 0;
}

static int check_head(const struct page *page, struct error *err)
{
    if (page->magic == MAGIC && page->version == VERSION && page->bytes == sizeof *page)
        return 0;
    return error_set(err, -EPROTO,
                     "the jobs that the service manager has kept are of version %u, this daemon's "
                     "is %u",
                     page->version, VERSION);
}

static bool is_plan(const char *text)
{
    return strnlen(text, 17) == 16 && strspn(text, "0123456789abcdef") == 16;
}

static bool is_name(const char text[DLP_NAME_MAX + 1])
{
    return memchr(text, '\0', DLP_NAME_MAX + 1) && dlp_name_valid(text);
}

/* Read as bytes: a bool that is neither 0 nor 1 is none. */
static bool is_bool(const bool *at)
{
    uint8_t byte;
    memcpy(&byte, at, 1);
    return byte <= 1;
}

static bool check_job(const struct cell_job *cell)
{
    const struct ledger_job *job = &cell->job;
    return cell->sum == sum_of(job, cell->number) && is_bool(&job->shared) &&
           is_bool(&job->follows) && is_bool(&job->rebuilt) && job->world >= 1 &&
           job->world <= DLP_WORLD_MAX && job->batch >= 1 && job->batch <= DLP_BATCH_MAX &&
           job->start_epoch <= DLP_EPOCH_MAX && is_plan(job->plan_id) && is_name(job->feed) &&
           is_name(job->name);
}

static uint64_t step_of(uint64_t place)
{
    return place & STEP_MAX;
}

static uint64_t epoch_of(uint64_t place)
{
    return place >> STEP_BITS;
}

static bool check_rank(const struct page *page, const struct cell_rank *cell)
{
    if (cell->job < 1 || cell->job > LEDGER_JOBS)
        return false;
    const struct cell_job *of = &page->jobs[cell->job - 1];
    const struct ledger_job *job = &of->job;
    uint64_t rows, end;
    return of->number == cell->number && cell->rank < job->world && is_bool(&cell->rowless) &&
           is_bool(&cell->left) && epoch_of(cell->place) <= DLP_EPOCH_MAX + 1 &&
           !__builtin_mul_overflow(step_of(cell->place), (uint64_t)job->world * job->batch,
                                   &rows) &&
           !__builtin_add_overflow(rows, job->start_position, &end);
}

static bool same_job(const struct ledger_job *a, const struct ledger_job *b)
{
    return a->shared == b->shared && (a->shared || a->uid == b->uid) &&
           strcmp(a->name, b->name) == 0 && strcmp(a->feed, b->feed) == 0;
}

/* A job that was to begin anew may be there twice: the later one counts. */
static bool has_later(const struct page *page, const struct cell_job *cell)
{
    for (const struct cell_job *other = page->jobs; other < page->jobs + LEDGER_JOBS; other++)
        if (other->number > cell->number && same_job(&other->job, &cell->job))
            return true;
    return false;
}

static bool is_double(const struct page *page, const struct cell_rank *cell)
{
    for (const struct cell_rank *other = page->ranks; other < cell; other++)
        if (other->number == cell->number && other->rank == cell->rank)
            return true;
    return false;
}

static void check_entries(struct ledger *ledger)
{
    struct page *page = ledger->page;
    for (struct cell_job *cell = page->jobs; cell < page->jobs + LEDGER_JOBS; cell++)
        if (cell->number && !check_job(cell))
            publish(&cell->number, 0);
    for (struct cell_job *cell = page->jobs; cell < page->jobs + LEDGER_JOBS; cell++) {
        if (cell->number && has_later(page, cell))
            publish(&cell->number, 0);
        if (cell->number > ledger->number)
            ledger->number = cell->number;
    }
    for (struct cell_rank *cell = page->ranks; cell < page->ranks + LEDGER_RANKS; cell++)
        if (cell->number && (!check_rank(page, cell) || is_double(page, cell)))
            publish(&cell->number, 0);
}

struct ledger *ledger_adopt(int fd, struct error *err)
{
    if (check_file(fd, err)) {
        close(fd);
        return NULL;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    struct ledger *ledger = map(fd, err);
    if (!ledger)
        return NULL;
    if (check_head(ledger->page, err)) {
        ledger_free(ledger);
        return NULL;
    }
    check_entries(ledger);
    return ledger;
}

static struct cell_job *free_job(struct ledger *ledger)
{
    for (uint32_t i = 0; i < LEDGER_JOBS; i++) {
        struct cell_job *cell = &ledger->page->jobs[ledger->next_job++ % LEDGER_JOBS];
        if (!cell->number)
            return cell;
    }
    return NULL;
}

static struct cell_rank *free_rank(struct ledger *ledger)
{
    for (uint32_t i = 0; i < LEDGER_RANKS; i++) {
        struct cell_rank *cell = &ledger->page->ranks[ledger->next_rank++ % LEDGER_RANKS];
        if (!cell->number)
            return cell;
    }
    return NULL;
}

uint32_t ledger_add_job(struct ledger *ledger, const struct ledger_job *job)
{
    struct cell_job *cell = ledger ? free_job(ledger) : NULL;
    if (!cell) {
        if (ledger)
            log_warning("job %s of feed %s is not kept over a restart: %u are", job->name,
                        job->feed, LEDGER_JOBS);
        return 0;
    }
    cell->empty_since = 0;
    memcpy(&cell->job, job, sizeof *job);
    cell->sum = sum_of(&cell->job, ++ledger->number);
    publish(&cell->number, ledger->number);
    return (uint32_t)(cell - ledger->page->jobs) + 1;
}

void ledger_remove_job(struct ledger *ledger, uint32_t job)
{
    if (!ledger || !job)
        return;
    struct page *page = ledger->page;
    uint64_t number = page->jobs[job - 1].number;
    publish(&page->jobs[job - 1].number, 0);
    for (uint32_t i = 0; i < LEDGER_RANKS; i++)
        if (page->ranks[i].number == number)
            publish(&page->ranks[i].number, 0);
}

void ledger_set_empty(struct ledger *ledger, uint32_t job, uint64_t since)
{
    if (ledger && job)
        publish(&ledger->page->jobs[job - 1].empty_since, since);
}

static uint64_t pack(uint64_t epoch, uint64_t step)
{
    return epoch << STEP_BITS | (step < STEP_MAX ? step : STEP_MAX);
}

uint32_t ledger_add_rank(struct ledger *ledger, const struct ledger_rank *rank)
{
    struct cell_rank *cell = ledger && rank->job ? free_rank(ledger) : NULL;
    if (!cell) {
        if (ledger && rank->job)
            log_warning("rank %u of a job is not kept over a restart: %u are", rank->rank,
                        LEDGER_RANKS);
        return 0;
    }
    cell->vacant = rank->vacant;
    cell->place = pack(rank->epoch, rank->step);
    cell->rank = rank->rank;
    cell->job = (uint16_t)rank->job;
    cell->rowless = rank->rowless;
    cell->left = rank->left;
    publish(&cell->number, ledger->page->jobs[rank->job - 1].number);
    return (uint32_t)(cell - ledger->page->ranks) + 1;
}

void ledger_set_vacant(struct ledger *ledger, uint32_t rank, uint64_t since, bool left)
{
    if (!ledger || !rank)
        return;
    ledger->page->ranks[rank - 1].left = left;
    publish(&ledger->page->ranks[rank - 1].vacant, since);
}

void ledger_set_place(struct ledger *ledger, uint32_t rank, uint64_t epoch, uint64_t step)
{
    if (ledger && rank)
        publish(&ledger->page->ranks[rank - 1].place, pack(epoch, step));
}

bool ledger_get_job(const struct ledger *ledger, uint32_t entry, struct ledger_job *job,
                    uint64_t *since)
{
    const struct cell_job *cell = &ledger->page->jobs[entry - 1];
    if (!cell->number)
        return false;
    *job = cell->job;
    *since = cell->empty_since;
    return true;
}

bool ledger_get_rank(const struct ledger *ledger, uint32_t entry, struct ledger_rank *rank)
{
    const struct cell_rank *cell = &ledger->page->ranks[entry - 1];
    if (!cell->number)
        return false;
    *rank = (struct ledger_rank){.job = cell->job,
                                 .rank = cell->rank,
                                 .vacant = cell->vacant,
                                 .epoch = epoch_of(cell->place),
                                 .step = step_of(cell->place),
                                 .rowless = cell->rowless,
                                 .left = cell->left};
    return true;
}
