/* A feed of the client's own: its shards, in a folder of the test's that is its working directory,
 * and what a fake daemon hears when it is given them. One at a time. */
#ifndef GIVE_RIG_H
#define GIVE_RIG_H

#include "client/dataload.h"
#include "fake_daemon.h"

#define GIVE_RECIPE "{name: own, batch: 4}"

void give_start(void); /* makes the folder */
void give_end(void);
const char *give_folder(void);
uint32_t give_count(void);
/* Makes so many shards, named by relative paths: FOLDER0.tar and so on, each with its number in it.
 */
void give_shards(uint32_t count, const char *folder, dataload_options *options);

/* In the script's thread. */
void give_hear_feed(struct fake *fake);      /* accept, Hello, its reply, GiveFeed */
void give_hear_beginning(struct fake *fake); /* the same with its reply, after some time */
/* The next message has these shards: files open for reading, named by their paths or, where those
 * are long, by the ends. Returns how many. */
uint32_t give_hear_portion(struct fake *fake, uint32_t first);
/* All, as many at a time at most, each portion answered so late; and Attach, with its reply. */
void give_hear_all(struct fake *fake, uint32_t most, useconds_t late);
void give_hear_attach(struct fake *fake);

#endif
