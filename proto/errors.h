/* Every error that crosses the socket: one table gives wire code, name, default text, errno. Codes
 * are never reused: 16 and 17 were given away once. */
#ifndef DLP_ERRORS_H
#define DLP_ERRORS_H

#include <errno.h>

/* clang-format off */
#define DLP_ERRORS(X) \
    X(1,  MALFORMED,     EPROTO,       "the message could not be understood") \
    X(2,  VERSION,       EPROTONOSUPPORT, "no protocol version in common") \
    X(3,  UNSUPPORTED,   EOPNOTSUPP,   "the daemon does not know this request") \
    X(4,  NO_SUCH_FEED,  ENOENT,       "no such feed") \
    X(5,  NOT_PERMITTED, EACCES,       "not permitted") \
    X(6,  RANK_TAKEN,    EADDRINUSE,   "this rank is taken") \
    X(7,  MISMATCH,      EINVAL,       "the value differs from the job's") \
    X(8,  BAD_REQUEST,   EINVAL,       "the request has a wrong value") \
    X(9,  NO_MEMORY,     ENOMEM,       "the memory limit does not allow it") \
    X(10, DATASET,       EIO,          "the data set cannot be opened") \
    X(11, TOO_MANY,      EUSERS,       "too many clients") \
    X(12, BAD_SAMPLE,    EBADMSG,      "a sample is bad") \
    X(13, BAD_LIMIT,     ECANCELED,    "too many bad samples") \
    X(14, NOT_ATTACHED,  ENOTCONN,     "the client is not attached") \
    X(15, BAD_RELEASE,   EINVAL,       "the slot is not held by this client") \
    X(18, RESUME,        EINVAL,       "the position does not fit") \
    X(19, INTERNAL,      EIO,          "internal error") \
    X(20, SHARED,        EBUSY,        "other trainers read the same batches") \
    X(21, LAGGED,        ESTALE,       "the other members of the group go on without it") \
    X(22, GPU,           ENODEV,       "batches cannot be put on this GPU") \
    X(23, REPLAY,        EBUSY,        "batches cannot be served again") \
    X(30, DETACHED,      ECONNABORTED, "the job was ended from outside") \
    X(31, NO_SUCH_JOB,   ENOENT,       "no such job") \
    X(32, DRAINING,      ESHUTDOWN,    "no new job is let in") \
    X(33, CONFIG,        EINVAL,       "the configuration is wrong")
/* clang-format on */

enum dlp_error {
#define X(code, name, err, text) DLP_ERROR_##name = (code),
    DLP_ERRORS(X)
#undef X
        DLP_ERROR_CODES /* one more than the highest */
};

/* Default text and positive errno of a code; an unknown code gives "unknown error" and EPROTO. */
const char *dlp_error_text(unsigned code);
int dlp_error_errno(unsigned code);

#endif
