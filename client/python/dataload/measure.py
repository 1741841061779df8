"""What limits a run: the rates of the trainer alone, of the input alone, and of both together.

All three are measured by a Loader of a job of its own beside the given one, whose place in its epoch stays. Where several
ranks train, all of them measure at the same time.
"""
import contextlib
import dataclasses
import itertools
import math
import os
import sys
import time
from typing import Optional

from . import explain

numbers = itertools.count()


@contextlib.contextmanager
def beside(loader):
    """A Loader of the same feed and shape, alone in its job."""
    name = f"measure-{os.getpid()}-{next(numbers)}"
    feed = loader._arguments["feed"] if loader._given else loader._feed
    own = {"feed": feed, "socket": loader._socket, "spawn": False, "config": None, "batch_size": loader.info["batch"], "rank": 0,
           "world": 1, "job": name, "epoch": 0, "resume": None, "group": name if loader.info["shared"] else None}
    with type(loader)(**{**loader._arguments, **own}) as other:
        yield other


def endless(loader):
    """Its batches, epoch after epoch."""
    return itertools.chain.from_iterable(itertools.repeat(loader))


def samples_of(loader):
    """Asks how many it has handed out."""
    return lambda: loader.stats()["samples"]


def settle():
    """Waits for what a GPU still does."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def replay(loader):
    with beside(loader) as other:
        batch = next(iter(other))
    while True:
        yield batch


def time_of_steps(batches, step_fn, steps):
    settle()
    start = time.monotonic()
    for batch in itertools.islice(batches, steps):
        step_fn(batch)
    settle()
    return time.monotonic() - start


def rate_of_input(loader, batches, seconds):
    """Without the batches that were ready; at least one is measured."""
    taken = samples_of(loader)
    for _ in range(loader.info["slots"]):
        next(batches)
    start, before = time.monotonic(), taken()
    while taken() == before or time.monotonic() - start < seconds:
        next(batches)
    return (taken() - before) / (time.monotonic() - start)


def input_only(loader, seconds):
    with beside(loader) as other:
        return rate_of_input(other, endless(other), seconds)


@dataclasses.dataclass
class Measurement:
    """Rates in samples a second of this rank. str() is the report."""

    compute: float          # the trainer alone, on one batch again and again
    input: float            # the input alone
    real: float             # both
    stage: str              # what limits the input: storage, decode, copy; trainer: the conversion in this process; unknown
    workers: int            # of the daemon's decode pool, shared by all ranks of the node
    per_worker: float       # pictures that each of them decodes a second; 0: not known
    storage: float          # what reading could give this rank; 0: not known
    ranks: int = 1          # of this job that the daemon serves
    cores: int = dataclasses.field(default_factory=lambda: len(os.sched_getaffinity(0)))

    @property
    def limit(self):
        """trainer, storage, decode, copy, conversion or unknown."""
        if self.compute <= self.input:
            return "trainer"
        return "conversion" if self.stage == "trainer" else self.stage

    @property
    def wanted(self):
        """What more workers could bring a rank to."""
        return min(self.compute, max(self.storage, self.input) if self.storage > 0 else math.inf)

    @property
    def elsewhere(self):
        """Samples a second that the workers decode for other jobs, where decoding limits."""
        every = self.workers * self.per_worker
        rest = every - self.input * self.ranks
        return rest if self.stage == "decode" and rest > 0.15 * every else 0

    @property
    def enough(self) -> Optional[int]:
        """Workers beyond which more buy nothing; None: not known."""
        return math.ceil((self.wanted * self.ranks + self.elsewhere) / self.per_worker) if self.per_worker > 0 else None

    def advice(self):
        if self.limit == "conversion":
            return "making tensors in this process takes the time: dtype, mean and std as output: in the feed are made by the workers"
        if self.limit == "copy":
            return "a larger batch would help, more workers would not"
        if self.enough is None:
            return "no figures of the workers: is anything decoded?"
        whose = "storage gives" if self.wanted < self.compute else "the trainer takes"
        ranks = f" on each of {self.ranks} ranks" if self.ranks > 1 else ""
        ranks += " beside what other jobs have now" if self.elsewhere else ""
        text = (f"{self.enough} worker{'s' * (self.enough != 1)} would be enough for the {self.wanted:.0f}/s that {whose}{ranks} "
                f"(there {'are' if self.workers != 1 else 'is'} {self.workers}), and more would buy nothing")
        if self.enough > max(self.workers, self.cores):
            text += f"; this process sees {self.cores} cores: smaller pictures or pixels: fast make each worker faster"
        return text

    def __str__(self):
        workers = f"{self.workers} worker{'s' * (self.workers != 1)}" + (f" at {self.per_worker:.0f}/s each" if self.per_worker > 0 else "")
        workers += f", {self.elsewhere:.0f}/s of it for other jobs" if self.elsewhere else ""
        lines = [f"compute only {self.compute:10.0f} samples/s  (one batch again and again)",
                 f"input only   {self.input:10.0f} samples/s  ({workers})",
                 f"real loop    {self.real:10.0f} samples/s",
                 f"{'the input' if self.limit == 'unknown' else self.limit} limits: {self.advice()}"]
        if self.real < 0.8 * min(self.compute, self.input):
            lines.append("together they are slower than either: trainer and workers want the same cores or the same memory bandwidth")
        return "\n".join(lines)


def measure(loader, step_fn, steps=50, seconds=5.0, file=None):
    """Runs step_fn(batch) `steps` times on one batch, the input alone for `seconds`, and both for `steps`; prints what limits,
    and how many workers would be enough. Before each count it takes as many steps as there are slots: what was ready
    beforehand does not count. The steps are real ones: a model trains by them. Returns the Measurement.
    """
    if steps < 1:
        raise ValueError(f"steps={steps}: at least 1 is to be measured")
    with beside(loader) as other:
        batches, taken, warm = endless(other), samples_of(other), other.info["slots"]
        again = itertools.repeat(next(batches))
        rows = taken()
        time_of_steps(again, step_fn, warm)
        compute = steps * rows / time_of_steps(again, step_fn, steps)
        del again
        alone = rate_of_input(other, batches, seconds)
        status = explain.ask_status(loader._socket) or {}
        time_of_steps(batches, step_fn, warm)
        before = taken()
        took = time_of_steps(batches, step_fn, steps)
        real = (taken() - before) / took
        client = explain.client_of(status, other.info) or {}
    ranks = sum(one.get("job") == loader.info["job"] for one in status.get("clients", ()))
    found = Measurement(compute, alone, real, client.get("limiting_stage") or "unknown", status.get("workers", 0), client.get("decode_per_worker", 0),
                        client.get("read_limit", 0), max(ranks, 1))
    print(found, file=file)
    return found
