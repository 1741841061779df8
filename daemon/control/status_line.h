/* The daemon's state in one line, for the service manager ("systemctl status"), from what status
 * says. Pure. */
#ifndef STATUS_LINE_H
#define STATUS_LINE_H

#include "dataload.pb-c.h"

#define STATUS_LINE_MAX 256

/* Of a whole reply. Returns text, of STATUS_LINE_MAX bytes. */
char *status_line(const Dlp__StatusReply *reply, char *text);

#endif
