/* Where what a session says goes: a connection, or a test. Loop thread. */
#ifndef SESSION_SINK_H
#define SESSION_SINK_H

#include <stddef.h>

#include "dataload.pb-c.h"
#include "store/files.h"

struct session_sink {
    void (*send)(void *context, const Dlp__Envelope *env, const int *fds, size_t nfds);
    void *context;
    void (*more)(void *context); /* fetches by inquiry_continue and others; NULL: all at once */
    void (*close)(void *context, const char *why); /* soon; NULL: it does not */
    /* Descriptors come from now on; those that are not taken are the owner's to close. May be NULL.
     */
    void (*take_fds)(void *context, struct files_owner *owner);
};

#endif
