#include "feed/tally.h"

void tally_trace(const struct tally *tally)
{
    static const char *const names[] = {[FEED_WAITS_SLOT] = "wait for slot",
                                        [FEED_WAITS_STORAGE] = "storage",
                                        [FEED_WAITS_DESCRIPTOR] = "wait for descriptor",
                                        [FEED_WAITS_MEMORY] = "wait for memory",
                                        [FEED_WAITS_DECODE] = "wait for decoding",
                                        [FEED_WAITS_COPY] = "wait for copies",
                                        [FEED_ENDED] = NULL};
    const struct phases *reader = &tally->reader;
    const char *name = names[atomic_load(&reader->at)];
    if (name)
        trace_span(name, tally->feed, atomic_load(&reader->since), clock_ns(),
                   atomic_load(&reader->what), 0);
}
