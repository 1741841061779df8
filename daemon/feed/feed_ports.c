#include "feed/feed_ports.h"

#include "feed/feed_parts.h"
#include "feed/ferry.h"

void feed_announce_port(struct feed *feed)
{
    ferry_announce(feed->ferry);
}

void feed_withdraw_port(struct feed *feed)
{
    ferry_withdraw(feed->ferry);
}

int feed_add_port(struct feed *feed, struct uploader *uploader, uint32_t *port, struct error *err)
{
    return ferry_add(feed->ferry, uploader, port, err);
}

void feed_expect_port(struct feed *feed, uint32_t port)
{
    if (feed->open & 1U << port)
        return;
    feed->open |= 1U << port;
    feed->ports[port].from = belt_set_ports(feed->belt, feed->open);
}

struct feed_place feed_enter_port(struct feed *feed, uint32_t port)
{
    feed_expect_port(feed, port);
    feed->ports[port].clients++;
    return feed->ports[port].from;
}

void feed_leave_port(struct feed *feed, uint32_t port)
{
    feed->ports[port].clients--;
}

/* Without any client they stay open: who comes next may find there what nobody has taken. */
void feed_close_ports(struct feed *feed)
{
    uint32_t used = 0;
    for (uint32_t port = 0; port < FERRY_PORTS_MAX; port++)
        if (feed->ports[port].clients)
            used |= feed->open & 1U << port;
    if (!used || used == feed->open)
        return;
    feed->open = used;
    belt_set_ports(feed->belt, used);
}

bool feed_has_lost(const struct feed *feed, uint32_t port, struct error *err)
{
    return ferry_has_lost(feed->ferry, port, err);
}
