/* Limits that both ends of the control protocol agree on. */
#ifndef DLP_LIMITS_H
#define DLP_LIMITS_H

#define DLP_VERSION_MIN 1U /* lowest and highest protocol version spoken */
#define DLP_VERSION_MAX 2U /* 2: GiveFeed, GiveFiles */

#define DLP_FRAME_TO_DAEMON_MAX (16U * 1024U) /* bytes of one Envelope */
#define DLP_FRAME_TO_CLIENT_MAX (1024U * 1024U)
#define DLP_UNPACK_TO_DAEMON_MAX (256U * 1024U) /* bytes allocated to unpack one of them */
#define DLP_UNPACK_TO_CLIENT_MAX (16U * 1024U * 1024U)
#define DLP_UNSENT_MAX (256U * 1024U) /* a peer with more unsent is not read from */

#define DLP_PARTS_MAX 8192U /* frames of one answer */

#define DLP_NAME_MAX 128U   /* feed, job, field names: [A-Za-z0-9._:/-]{1,128} */
#define DLP_OWN_FEED '~'    /* begins the name of a user's own feed: ~UID/NAME */
#define DLP_TEXT_MAX 1000U  /* one-line texts */
#define DLP_TOKEN_MAX 1024U /* resume token, with its NUL */
#define DLP_TENSORS_MAX 64U
#define DLP_DIMS_MAX 8U
#define DLP_SLOTS_MIN 2U
#define DLP_SLOTS_MAX 64U
#define DLP_WORLD_MAX 65536U
#define DLP_BATCH_MAX 65536U
#define DLP_CLIENTS_MAX 1024U
#define DLP_EPOCH_MAX ((1U << 24) - 1) /* what the random numbers' counter has room for */
#define DLP_FDS_MAX 32U                /* descriptors on one frame */
#define DLP_FILES_MAX 65536U           /* of one feed of a client's own */
#define DLP_RECIPE_MAX 12288U          /* bytes of its recipe */
#define DLP_SOCKET_PATH_MAX 107U       /* sun_path less its NUL */
#define DLP_SLOT_ALIGN 4096U           /* slots start on a page */
#define DLP_TENSOR_ALIGN 256U

/* Upper bounds, in ns, of the classes that waits for a batch are counted in (wait_counts); one more
 * class has what is longer. X(bound) for each. */
#define DLP_WAIT_BOUNDS(X)                                                                         \
    X(100000ULL)                                                                                   \
    X(300000ULL)                                                                                   \
    X(1000000ULL)                                                                                  \
    X(3000000ULL)                                                                                  \
    X(10000000ULL)                                                                                 \
    X(30000000ULL)                                                                                 \
    X(100000000ULL)                                                                                \
    X(300000000ULL)                                                                                \
    X(1000000000ULL)                                                                               \
    X(3000000000ULL)                                                                               \
    X(10000000000ULL)                                                                              \
    X(60000000000ULL)
#define DLP_WAIT_CLASSES 13U

#endif
