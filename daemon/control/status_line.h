/* The daemon's state in one line, for the service manager ("systemctl status"): from the figures of
 * status. Loop thread. */
#ifndef STATUS_LINE_H
#define STATUS_LINE_H

#include "control/control.h"

#define STATUS_LINE_MAX 256

/* Returns text, of STATUS_LINE_MAX bytes. */
char *status_line(const struct control *control, char *text);

#endif
