/* What goes on with the clock while the daemon serves: the service manager's watchdog is answered,
 * its status line kept, and the log says what it has counted. Loop thread. */
#ifndef WATCH_H
#define WATCH_H

#include <uv.h>

#include "control/control.h"

struct watch;

/* After READY; the first status line goes out at once. */
struct watch *watch_new(uv_loop_t *loop, struct control *control);
/* Before the control's end; the loop must run once more. NULL is fine. */
void watch_free(struct watch *watch);

#endif
