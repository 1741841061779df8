#include "feed/tally.h"

void tally_trace(const struct tally *tally, uint64_t now)
{
    static const char *const names[] = {[FEED_WAITS_SLOT] = "wait for slot",
                                        [FEED_WAITS_STORAGE] = "storage",
                                        [FEED_WAITS_DESCRIPTOR] = "wait for descriptor",
                                        [FEED_WAITS_MEMORY] = "wait for memory",
                                        [FEED_WAITS_DECODE] = "wait for decoding",
                                        [FEED_WAITS_COPY] = "wait for copies",
                                        [FEED_ENDED] = NULL};
    const char *name = names[atomic_load(&tally->wait)];
    if (name)
        trace_span(name, tally->feed, atomic_load(&tally->wait_since_ns), now,
                   atomic_load(&tally->wait_what), 0);
}
