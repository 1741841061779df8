/* The kinds of events that an operator may look for or be alerted by, each with its MESSAGE_ID in
 * the journal. An id never changes its meaning; a new kind gets a new one (journalctl --new-id128)
 * and an entry of systemd/dataloadd.catalog. */
#ifndef LOG_IDS_H
#define LOG_IDS_H

/* clang-format off */
#define LOG_IDS(X) \
    X(STARTED,        "e46875b1d77a4c078e80e39722ed25b5") \
    X(RESTORED,       "99c3b92be581439ca1233b87eca0bcc7") \
    X(STOPPING,       "54dfa9e697a5405397e5b4c14aef4c19") \
    X(FORCED_END,     "3b54f29ec32d4b668696ae318797e49d") \
    X(START_FAILED,   "2cb351a093b5465bbe26f57f7ac2f5c0") \
    X(RELOADED,       "2188e15e77414d9b948a17383fd12db6") \
    X(RELOAD_FAILED,  "ba5df3c91e2845b4ac4d6b0e6919656b") \
    X(SETTING,        "c5fdd8a4e7a747d08a991e1cd20425ab") \
    X(DRAIN,          "a9f0ed7138a94a78ae3b95d51023564f") \
    X(ATTACHED,       "bc9de6bbb4564f7daf9515c0129b9621") \
    X(DETACHED,       "1b174043a63e4669b524927c2402dad0") \
    X(REFUSED,        "ec695de131aa4d6c9b83224ccc137c0f") \
    X(BAD_PEER,       "5c9be9e0a5f0478ca9214eead6a5116a") \
    X(EVICTED,        "f685baeb4906420aae1a87c9406b03dc") \
    X(LAGGED,         "cdfca9f661ff49d3b33aeaa7cbfd44f4") \
    X(FEED_STOPPED,   "87aaf0c2d8a545068fd994dfee88b9c1") \
    X(BAD_SAMPLE,     "de651c032a30437da612af5184064c6b") \
    X(SHARD_DAMAGED,  "26db5b574ff04e6bbc311b6c3294f976") \
    X(STORAGE_ERROR,  "aef82b05422947709f9ce8cfca73add9") \
    X(CACHE_FAILED,   "ae0406384cd747b383669734d34ff4e2") \
    X(ORDER_POOR,     "0568293ed3da45cb8a0a4efe08bec285") \
    X(NO_DESCRIPTORS, "22849f85a7234dfaa163c80e4642f5aa") \
    X(MEMORY_SHORT,   "045c029c4cbf4f15b965c2e4306249d8") \
    X(WORKERS,        "9caec4ecaedb4201ac7a008f4e4a7019") \
    X(WORKER_STUCK,   "6be71af5e8ba41f58b10bfdf6f2ce6c4") \
    X(GPU_LOST,       "23685fd93900476c80ecd028734a0aec") \
    X(GPU_FALLBACK,   "40460664177041229893ca07678dae54") \
    X(HTTP_FAILED,    "92d49760f3004a628d614967fe46a46c")
/* clang-format on */

enum log_id {
    LOG_NO_ID,
#define X(name, id) LOG_##name,
    LOG_IDS(X)
#undef X
        LOG_IDS_COUNT
};

#endif
