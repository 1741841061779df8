/* A feed of the caller's own: recipe and shards, which the daemon is given before each attach.
 *
 * Owned by the handle, by whose thread all is called. The shards are opened as many at a time as
 * one message takes, and closed once that is sent; when the daemon has been restarted they are
 * opened again, and have to be what they were. */
#ifndef DLC_GIVE_H
#define DLC_GIVE_H

#include "client/client.h"

#define GIVE_NAMELESS "the feed given" /* until the daemon has named it */

/* Checks what is given, and copies it to handle->giving; NULL where it is a feed of the daemon. */
int give_keep(struct dataload *handle, const char *feed, const dataload_options *options);
void give_free(struct giving *giving); /* NULL is fine */

/* From HelloReply to Attach, which goes out with the reply to the last shards. */
void give_begin(struct dataload *handle, uint32_t version);
void give_named(struct dataload *handle, const Dlp__GiveFeedReply *reply);
void give_taken(struct dataload *handle, const Dlp__GiveFilesReply *reply);

#endif
