/* The configuration read again while the daemon runs, on a helper thread: at a signal, or for
 * dataloadctl reload. A wrong one changes nothing, and status says why. Loop thread. */
#ifndef RELOAD_H
#define RELOAD_H

#include <stdbool.h>
#include <uv.h>

#include "config.h"
#include "control/control.h"

struct reload;

/* first: the configuration with which the daemon has started; it outlives the reload. */
struct reload *reload_new(uv_loop_t *loop, const struct config *first);
void reload_start(struct reload *reload, struct control *control);
/* Of a struct reload: reads the file once more; what is asked meanwhile has it read again after
 * that. Nothing before reload_start and after reload_stop. */
void reload_request(void *reload);
/* Changes nothing from here on. True: the file is still being read. */
bool reload_stop(struct reload *reload);
void reload_free(struct reload *reload); /* nothing is being read; NULL is fine */

#endif
