"""Loader: one trainer's attachment to a feed, as an iterable of dicts of tensors."""
import gc
import logging
import os
import sys
import time
import warnings

from . import explain as explain_
from . import measure
from ._dataload import Handle
from .arguments import count, milliseconds
from .convert import KINDS, Converter, Scale, need
from .errors import AllSlotsHeld, Error, ResumeRefused, Timeout, for_code
from .target import find_target

HOST, GPU, AUTO = 0, 1, 2  # dataload_options.device
HELD_S = 5.0  # how long a full set of slots may be held before it is an error: another thread may be about to let go
RESTART_S = 60.0
OTHERS_STAND = ("running job", "all ranks start from one token")  # in the daemon's refusals of a place
STATE_SCHEMA = 1
log = logging.getLogger("dataload")


def place_of(device, as_):
    """What the C library is asked for, and the number of the GPU, -1 = the current one."""
    kind, _, number = str(device).partition(":")
    if kind == "auto" and not number:
        return auto_place(as_)
    if kind == "cpu":
        return HOST, -1
    if kind not in ("cuda", "gpu") or (number and not number.isdigit()):
        raise ValueError(f'device {device!r} is none of "auto", "cpu", "cuda", "cuda:N"')
    if as_ == "numpy":
        raise ValueError('NumPy cannot read memory of a GPU: device="cpu", or another as_')
    return GPU, int(number) if number else current_gpu()


def auto_place(as_):
    """A GPU where the consumer uses one."""
    if as_ == "torch":
        import torch
        return (AUTO, torch.cuda.current_device()) if torch.cuda.is_available() else (HOST, -1)
    if as_ == "jax":
        import jax
        return (AUTO, -1) if jax.default_backend() == "gpu" else (HOST, -1)
    return (AUTO, -1) if as_ == "dlpack" else (HOST, -1)


def current_gpu():
    """PyTorch's choice where PyTorch is in use: the driver hears of it later."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch and torch.cuda.is_available() else -1


def token_of(state):
    """The text of a resume token: of state_dict()'s dict, the text itself, or "last"."""
    if state is None or isinstance(state, str):
        return state
    if isinstance(state, dict) and state.get("schema") == STATE_SCHEMA and isinstance(state.get("token"), str):
        return state["token"]
    raise ValueError(f"not a state of a Loader: {state!r:.200}; give what state_dict() has returned, or \"last\"")


class Loader:
    """One trainer's batches of a feed of dataloadd: an iterable of dicts of tensors. One pass is one epoch.

    feed        name of the feed in the daemon's configuration; or a dataload.Feed of one's own, which the daemon that runs is given
                (its shards are opened here), or with spawn=True one's own daemon
    batch_size  rows of a batch, for each trainer; None: as the feed says
    rank, world this trainer's place among all; None: from torchrun, Slurm, MPI; else the lowest free rank, the job's world
    job         name of the job that the ranks make up; None: from Slurm, torchrun or mpirun, else this process alone
    device      where batches lie: "auto" (on a GPU where `as_` uses one), "cpu", "cuda", "cuda:1"
    seed, epoch of the shuffle (None: as the feed says); the first epoch
    resume      where to go on: what state_dict() gave, or "last": after what the job that has just ended had released
    as_         "torch", "numpy", "jax", or "dlpack" for the bare fields
    dtype       "float32", "float16", "bfloat16": pictures as (x / 255 - mean) / std by channel; None: as they are
    names       {"image": "pixel_values"} renames, {"valid": None} leaves out, {"index": "index"} adds the samples' ids
    timeout     seconds until waiting for the daemon is an error; None: for ever; can be set later, too
    copy        True: private tensors, and the slot is free at once
    group       of a feed with share: mirror: who reads the same batches
    slots       batches in memory; socket: the daemon's, None: as dataloadctl finds it
    allow_replay True: `dataloadctl replay` may have the loop get batches again, to measure it (see replaying)
    spawn       True: a daemon of one's own for each job, started by its first trainer, gone 5 s after its last
    config      of that daemon: a file, or a list of dataload.Feed; None: the feed given, else the user's configuration

    A tensor is memory of the daemon, without a copy. Its slot is filled again when the loop has moved on and no tensor of
    the batch is alive any more, so what is kept for long should be a copy (tensor.clone()).
    """

    def __init__(self, feed, batch_size=None, *, rank=None, world=None, job=None, device="auto", seed=None, epoch=0, resume=None,
                 as_="torch", dtype=None, mean=None, std=None, names=None, spawn=False, config=None, timeout=60.0, copy=False, group=None,
                 slots=None, socket=None, allow_replay=False):
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        self._handle = None
        if as_ not in KINDS:
            raise ValueError(f"as_={as_!r} is none of {', '.join(KINDS)}")
        need(as_)
        scale = Scale(dtype, mean, std)
        place, gpu = place_of(device, as_)
        feed, socket, ranks, self._given = find_target(feed, rank, world, job, spawn, config, socket, timeout)
        numbers = {"rank": ranks.rank, "world": ranks.world, "batch": count("batch_size", batch_size), "seed": count("seed", seed),
                   "epoch": count("epoch", epoch) or None, "slots": count("slots", slots)}
        self._feed, self._socket = feed, socket and os.fspath(socket)
        self.timeout = timeout
        self._options = {"socket": self._socket, "job": job, "group": group, "timeout_ms": milliseconds(timeout), "device": place, "gpu": gpu,
                         "allow_replay": bool(allow_replay),
                         "program": os.path.basename(sys.argv[0] or "python3") or "python3",
                         **{name: value for name, value in numbers.items() if value is not None}, **self._given}
        self._attach(token_of(resume))
        try:
            self._convert = Converter(as_, scale, copy, self.info["shared"], names)
        except BaseException:
            self.close()  # the exception's traceback keeps the Loader
            raise
        for note in self._handle.notes():
            log.warning("feed %s: %s", feed, note)

    def _attach(self, token):
        self._handle = Handle(None if self._given else self._feed, resume=token, **self._options)
        self._token = None     # the last one, once closed
        self._live = False     # a pass has begun and not ended
        self._pass = 0         # its number: an older iterator is over
        self._epoch = self._handle.info()["epoch"]
        self._chosen = None    # epoch of the next pass, chosen during one
        self._warned = False
        self._batch = None     # the loop's
        self._before = None    # the token before a batch that the loop has not got: what made tensors of it was interrupted

    def _open(self):
        if self._handle is None:
            raise Error("this Loader is closed: make another, with resume=state_dict() of this one to go on where it was")
        return self._handle

    # Passes.

    def __iter__(self):
        self._open()
        if self._live:
            self._skip_rest()
        self._live, self._batch, self._before = False, None, None
        self._pass += 1
        return _Pass(self, self._pass)

    def _skip_rest(self):
        """A pass was left before its end: the new one is of the next epoch, or of the one chosen."""
        epoch, self._chosen = self._chosen, None
        try:
            self._handle.set_epoch(self._epoch + 1 if epoch is None else epoch)
        except Error:
            if epoch is not None or not self.info["shared"]:
                raise  # else the group's epochs follow each other: the pass goes on where the group is

    def _next(self):
        """The next batch, or None at the end of the epoch."""
        self._batch = None
        try:
            batch = self._open().next(milliseconds(self.timeout))
        except AllSlotsHeld as held:
            batch = self._next_when_free(held)
        except Timeout as timeout:
            raise self._overdue(timeout) from None
        if batch is None:
            self._end_pass()
            return None
        self._live, self._batch = True, batch
        if not batch.replay:
            self._epoch = batch.epoch
        return batch

    def _end_pass(self):
        self._live = False
        self._epoch = self._handle.info()["epoch"]
        if self._chosen is not None:
            epoch, self._chosen = self._chosen, None
            self.set_epoch(epoch)

    def _next_when_free(self, held):
        """All slots are held: by garbage, by another thread that lets go soon, or for good."""
        end = time.monotonic() + min(HELD_S, HELD_S if self.timeout is None else self.timeout)
        gc.collect()
        try:
            while time.monotonic() < end:
                try:
                    return self._handle.next(milliseconds(self.timeout))
                except AllSlotsHeld as again:
                    held = again
                if not self._warned:
                    self._warned = True
                    warnings.warn(str(held), RuntimeWarning, stacklevel=4)
                time.sleep(0.01)
            raise held from None
        finally:
            held = None  # the exception has this frame, and so the batch of the frame before

    def _overdue(self, timeout):
        why = str(timeout).partition("; ")[2] or self.explain()  # the library says it where the daemon has gone
        return for_code(timeout.errno, f"no batch of feed {self._feed} within {self.timeout:g} s: {why}")

    def __len__(self):
        """Batches of this trainer in the pass under way, else in the next one."""
        return self._open().steps(self._epoch)

    def set_epoch(self, epoch):
        """The next pass is this epoch, as with DistributedSampler. Without it each pass is the next epoch."""
        epoch = count("epoch", epoch)
        if self._live:
            self._chosen = epoch
            return
        self._open().set_epoch(epoch)
        self._epoch, self._before = epoch, None

    @property
    def replaying(self):
        """The loop's batch is one that it has had before (allow_replay): no step of the epoch, and not counted by len()."""
        return self._batch is not None and self._batch.replay

    @property
    def epoch(self):
        """Of the pass under way, else of the next one."""
        return self._epoch

    # State, in the manner of torchdata's Stateful.

    def state_dict(self):
        """Where a run goes on after the last batch that the loop has got; small, and fit for JSON."""
        return {"schema": STATE_SCHEMA, "token": self._token or self._before or self._open().token()}

    def load_state_dict(self, state):
        """Goes on from there, with any world and batch size; each rank of the job has to do the same. A failure closes the Loader."""
        token = token_of(state)
        if token == self._open().token() and not self._live:
            return
        self._batch = None
        self._handle.close()
        end = time.monotonic() + (self.timeout or RESTART_S)
        while True:
            try:
                return self._attach(token)
            except ResumeRefused as error:
                # Ranks that still stand at the old place are about to be asked to leave it, too.
                if not any(words in str(error) for words in OTHERS_STAND) or time.monotonic() > end:
                    raise
            time.sleep(0.05)

    # What is going on.

    @property
    def info(self):
        """The attachment: job, rank, world, batch, slots, seed, records, plan_id, transform, memory and more."""
        return self._open().info()

    def stats(self):
        """Counters of this trainer, in seconds and bytes; any thread may ask."""
        return self._open().stats()

    def explain(self):
        """What limits this trainer, in one sentence with its numbers."""
        return explain_.explain(self.stats(), self.info, self._socket)

    def replay(self):
        """The same batch again and again, without end: the trainer's pure rate. This Loader's place stays."""
        return measure.replay(self)

    def input_only(self, seconds=5.0):
        """Samples a second that the input alone reaches. This Loader's place stays."""
        return measure.input_only(self, seconds)

    # The end.

    def close(self):
        """Gives everything back. Tensors that are still alive stay valid: what they lie in becomes this process's own memory."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        self._batch = None
        try:
            self._token = self._before or handle.token()
        except Error:  # of a forked child
            pass
        handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getitem__(self, number):
        raise TypeError("a Loader is iterated over and has no item by number, which a DataLoader asks of it: for batch in loader, or "
                        "DataLoader(dataload.torch.IterableDataset(loader), batch_size=None, num_workers=0)")

    def __reduce__(self):
        raise TypeError("a Loader cannot be pickled or copied: it is a connection of this process to the daemon. A process that trains makes "
                        "its own (Loader(feed, rank=..., world=...)); a DataLoader around it needs num_workers=0; save state_dict() instead")

    def __repr__(self):
        if self._handle is None:
            return f"<dataload.Loader {self._feed}, closed>"
        info = self.info
        return f"<dataload.Loader {self._feed}: rank {info['rank']} of {info['world']}, batch {info['batch']}, epoch {self._epoch}>"


class _Pass:
    """An iterator over one epoch."""

    def __init__(self, loader, number):
        self._loader, self._number = loader, number

    def __iter__(self):
        return self

    def __next__(self):
        loader = self._loader
        if loader is None:
            raise StopIteration
        if loader._pass != self._number:
            raise Error("another pass over this Loader has begun: one iterator at a time")
        before = loader._open().token()
        try:
            batch = loader._next()
            made = batch and loader._convert(batch)
        except Error:
            raise
        except BaseException:
            loader._before = before
            raise
        if batch is None:
            self._loader = None
            raise StopIteration
        loader._before = None
        return made

    def __del__(self):
        loader = self._loader
        if loader is not None and loader._pass == self._number:
            loader._batch = None  # left by break or an exception
