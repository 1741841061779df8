"""What can go wrong, by type. Each text is one line: what failed, why, and what to do."""
import errno


class Error(Exception):
    """Of this package. `errno` is the C library's code."""

    errno = 0


class NoSuchFeed(Error):
    """The daemon has no feed of this name."""


class RankTaken(Error):
    """Another trainer of the job has this rank."""


class ResumeRefused(Error):
    """The run cannot go on from this state here."""


class DaemonGone(Error):
    """No daemon is running, or it went away and did not come back."""


class LeftBehind(Error):
    """The group has gone on without this trainer, which kept a batch for too long (lag: detach)."""


class BadSample(Error):
    """A sample is bad, and the feed says that this is an error. The next batch can still be asked for."""


class NotPermitted(Error, PermissionError):
    """The feed is not for this user."""


class Timeout(Error, TimeoutError):
    """Nothing has come for `timeout` seconds."""


class AllSlotsHeld(Error):
    """Tensors of earlier batches are alive in every slot, so that no batch can be filled."""


class Forked(Error):
    """The Loader was opened by another process, from which this one was forked."""


FORKED = ("a Loader cannot be used in a process forked from the one that opened it ({text}), such as a worker of a DataLoader: "
          "the daemon already decodes in parallel, so iterate over the Loader itself, or give num_workers=0; "
          "a process that trains makes a Loader of its own")
HELD = ("{text}; in Python a slot is held as long as any tensor of its batch is alive: drop old batches (also those in lists, and losses "
        "with their graph: keep loss.item()), keep a copy instead (tensor.clone(), or Loader(..., copy=True)), or have more slots "
        "(Loader(..., slots=N))")
TAKEN = ("{text}; a Loader of this process keeps its rank until it is closed or has gone, on a GPU until its last tensor has gone too: "
         "close() it, or choose another rank or job")
NONE_RUNS = "{text}; dataloadd --user --config FILE starts one, and Loader(..., spawn=True) does so by itself"

OLD = "{text}, or start a daemon of your own: Loader(..., spawn=True)"

CODES = {
    errno.ENOENT: (NoSuchFeed, "{text}"),
    errno.EADDRINUSE: (RankTaken, TAKEN),
    errno.ECONNREFUSED: (DaemonGone, NONE_RUNS),
    errno.EOPNOTSUPP: (Error, OLD),
    errno.ECONNRESET: (DaemonGone, "{text}"),
    errno.EOWNERDEAD: (DaemonGone, "{text}"),
    errno.EBADMSG: (BadSample, "{text}"),
    errno.ECANCELED: (BadSample, "{text}"),
    errno.EACCES: (NotPermitted, "{text}"),
    errno.ETIMEDOUT: (Timeout, "{text}"),
    errno.EDEADLK: (AllSlotsHeld, HELD),
    errno.ENOLCK: (Forked, FORKED),
    errno.ESTALE: (ResumeRefused, "{text}"),
}


def for_code(code, text, resume=False):
    """The exception for a positive errno; `resume`: a state was given to the attach."""
    kind, words = CODES.get(code, (Error, "{text}"))
    if resume and code == errno.EINVAL and ("token" in text or "resume" in text):
        kind = ResumeRefused
    if code == errno.ESTALE and "lag: detach" in text:
        kind = LeftBehind
    error = kind(words.format(text=text))
    error.errno = code
    return error
