/* Memory of control structures: allocation that cannot fail (it ends the process with a line in
 * the log), and cleanup attributes. What input can size (records, images, arenas) is not allocated
 * here but with malloc, under base/budget.h, and may fail. */
#ifndef MEM_H
#define MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define CACHE_LINE 64 /* bytes that CPUs pass on as one */

void *mem_new(size_t size);                 /* zeroed */
void *mem_array(size_t count, size_t size); /* zeroed; overflow ends the process too */
void *mem_lines(size_t size);               /* zeroed, from the begin of a cache line on */
void *mem_grow(void *old, size_t count, size_t size);
char *mem_string(const char *text); /* NULL stays NULL */
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A memfd that may be sealed, close-on-exec and never executed; or -1 with errno. */
int mem_file(const char *name);
void mem_trim(void); /* gives free memory back to the system; any thread */
/* Blocks up to `bytes` at the end of each heap stay when they are freed: memory that the system has
 * to give anew costs ten times what is copied into it. Before threads are started. */
void mem_keep(uint64_t bytes);

static inline void mem_free_at(void *at)
{
    free(*(void **)at);
}
static inline void mem_close_at(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
#define cleanup_free __attribute__((cleanup(mem_free_at)))
#define cleanup_close __attribute__((cleanup(mem_close_at)))

#endif
