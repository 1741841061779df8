#include "group_rig.h"

#include <check.h>

struct rig_peer *peers[8];

void group_rig_setup(void)
{
    rig_setup();
    rig_small.share = SHARE_MIRROR;
}

void join_all(int count)
{
    for (int i = 0; i < count; i++)
        peers[i] = rig_attached(100 + i, rig_attach("small"));
}

void leave_all(int count)
{
    for (int i = 0; i < count; i++)
        rig_peer_free(peers[i]);
    rig_wait_until_free();
}

/* Takes the next batch, which must be of this step. */
const Dlp__BatchReady *take(struct rig_peer *peer, uint64_t step)
{
    const Dlp__BatchReady *ready = rig_next_ready(peer);
    ck_assert_uint_eq(ready->epoch * STEPS + ready->step, step);
    rig_take(peer, ready, 0);
    return ready;
}

void give(struct rig_peer *peer, const Dlp__BatchReady *ready)
{
    rig_release(peer, ready->slot, ready->generation, 0);
}

void read_on(struct rig_peer *peer, uint64_t step)
{
    give(peer, take(peer, step));
}

bool has_news(const struct rig_peer *peer)
{
    return peer->seen < peer->count;
}

/* Long enough for a batch to be made, if one could be. */
void settle(void)
{
    for (int i = 0; i < 300; i++)
        rig_turn();
}

const struct group *group_of(const struct rig_peer *peer)
{
    return peer->session->group;
}

void refused(Dlp__Attach message, enum dlp_error code, const char *first, const char *second)
{
    struct rig_peer *peer = rig_greeted(900);
    SAY(peer, 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 5, code), first, second);
    rig_peer_free(peer);
}
