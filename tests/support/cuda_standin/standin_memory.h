/* The stand-in's memory: stores (bytes), ranges (addresses that lead to them), reservations.
 *
 * A store is a memfd with a trailer page; its bytes are read and written through a private alias,
 * never at the device address, which no CPU may touch. Everything under si_lock. */
#ifndef STANDIN_MEMORY_H
#define STANDIN_MEMORY_H

#include "standin.h"

/* Last page of a store's memfd: seen by every process that has it. */
struct si_trailer {
    char magic[16];
    uint64_t size;
    char uuid[16];
    uint32_t exportable;
    uint32_t freed; /* atomic: the exporter has freed it while others had it open */
};

struct si_store {
    struct si_store *next;
    int refs;
    int fd;
    unsigned long inode;
    size_t size; /* without the trailer */
    unsigned char *alias;
    struct si_trailer *trailer;
    struct si_context *context; /* of the GPU where it lies */
    int peer;                   /* pidfd of the exporter of a legacy import, -1 = ours or VMM */
    size_t filled;              /* of a block of small allocations */
};

enum si_kind { SI_ALLOCATED, SI_MAPPED, SI_IMPORTED };

struct si_range {
    struct si_range *next;
    dlp_cu_pointer base;
    size_t size;
    enum si_kind kind;
    struct si_store *store;
    size_t offset;                    /* of base in the store */
    struct si_context *context;       /* that made it; NULL for VMM */
    unsigned char access[SI_DEVICES]; /* by visible GPU */
    int opens;                        /* of a legacy import */
};
extern struct si_range *si_ranges;

#define SI_MAGIC "standin memory\0"
/* New memory on the context's GPU, one reference; NULL when it is full. */
struct si_store *si_store_new(struct si_context *context, size_t size, bool exportable);
/* Memory behind a descriptor of any process (not taken over), NULL when it is no store or its GPU
 * is not visible here: *code says which. */
struct si_store *si_store_of_fd(int fd, dlp_cu_result *code);
void si_store_drop(struct si_store *store); /* one reference */
/* Bytes of a GPU in use by all processes of the domain: found by looking, so that no death of a
 * process can falsify it. */
uint64_t si_used(const struct si_context *context);
bool si_peer_alive(const struct si_store *store);

/* Addresses that no CPU may touch, a multiple of align (a power of two). 0 = none left. */
dlp_cu_pointer si_address_take(size_t size, size_t align);
void si_address_give(dlp_cu_pointer at, size_t size);

struct si_range *si_range_add(dlp_cu_pointer base, size_t size, enum si_kind kind,
                              struct si_store *store, size_t offset, struct si_context *context);
void si_range_remove(struct si_range *range);    /* drops its store; not the addresses */
struct si_range *si_range_at(dlp_cu_pointer at); /* the one that holds the address, or NULL */
struct si_range *si_range_of(dlp_cu_pointer base, enum si_kind kind); /* that begins there */

/* Do [at, at + size) lie in one range that a context may name? What a call checks. */
bool si_in_bounds(dlp_cu_pointer at, size_t size, const struct si_context *context);
/* Where the bytes are for an operation that runs now: NULL when the GPU may not read (or write)
 * there; an operation that gets NULL ends in DLP_CU_ILLEGAL_ADDRESS. */
unsigned char *si_bytes(dlp_cu_pointer at, size_t size, bool write,
                        const struct si_context *context);

bool si_is_pinned(const void *at, size_t size); /* wholly inside one registered range */
void si_leaks_host(const struct si_context *context);
void si_leaks_vmm(void);
void si_leaks_fds(void);
/* A descriptor went out of (or came into) the library; the program has to close it. */
void si_fd_watch(int fd, const char *what);

#endif
