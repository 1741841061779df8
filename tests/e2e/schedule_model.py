"""The oracle of test_schedules.py: what each trainer must get, what a daemon must know of its jobs, what became of every
sample.

docs/order.md in another form than the daemon's own: places are (epoch, step) of a job or (epoch, position) of an order.
Where a kill leaves open what the daemon has still heard, there is a set of the places that are right.
"""
import dataclasses
import itertools
import typing

from harness import SLOTS_MIN, jpeg, write_tar
from plan_oracle import Order, Plan

INVALID, RANK_TAKEN = -22, -98


class Feed:
    """A feed of the configuration, and its order."""

    def __init__(self, name, sizes, rng, tail):
        records = sum(map(len, sizes))
        self.name, self.batch, self.seed, self.slots = name, rng.randrange(1, 6), rng.randrange(2), rng.randrange(SLOTS_MIN, 5)
        shuffle = rng.choice([0, 5, rng.randrange(1, 40), records, 1000])
        lanes = rng.choice([1, 2, 3, 5, 8, 64])
        self.settings = shuffle, lanes, tail
        self.order = Order(sizes, shuffle, lanes, tail)

    def __repr__(self):
        return self.name

    def config(self, **source):
        shuffle, lanes, tail = self.settings
        return {"name": self.name, "batch": self.batch, "seed": self.seed, "slots": self.slots, "shuffle": shuffle, "lanes": lanes,
                "tail": tail, **source}


class Data:
    """Records that are known by their number: a label and some bytes, or in a few schedules a picture."""

    def __init__(self, folder, rng):
        rows = rng.randrange(1, 5) * rng.randrange(1, 6)
        self.records = rng.choice([rng.randrange(1, 4), rows * rng.randrange(1, 8) + rng.choice([0, 1, 1]), rng.randrange(4, 70),
                                   rng.randrange(20, 70)])
        self.pictures = [jpeg(40, 30, rng.randrange(1000)) for _ in range(4)] if rng.random() < 0.1 else None
        self.bytes = [rng.randbytes(rng.choice([1, 3, 20, 40])) for _ in range(self.records)]
        self.labels = [rng.randrange(1000) for _ in range(self.records)]
        self.seen = {}  # of pictures: a hash, by seed, epoch and number
        cuts = [0, *sorted(rng.randrange(self.records + 1) for _ in range(rng.randrange(4))), self.records]
        folder.mkdir()
        self.sizes = [self.write_shard(folder / f"{shard}.tar", range(*ends)) for shard, ends in enumerate(zip(cuts, cuts[1:]))]
        self.source = {"source": str(folder / "*.tar")}
        if self.pictures:
            self.source["transform"] = [{"random_resized_crop": {"size": 16}}, {"flip": 0.5}]
        else:
            self.source["fields"] = [{"name": "raw", "from": ["bin"], "kind": "bytes"}, {"name": "label", "from": ["cls"], "kind": "int"}]

    def write_shard(self, path, numbers):
        members, sizes = [], []
        for number in numbers:
            label = str(self.labels[number]).encode()
            kind, data = ("jpg", self.pictures[number % 4]) if self.pictures else ("bin", self.bytes[number])
            members += [(f"{number:06d}.{kind}", data), (f"{number:06d}.cls", label)]
            sizes.append(len(data) + len(label))
        write_tar(path, members)
        return sizes

    def compare(self, line, seed):
        """Is what the rows of a batch hold that of their ids?"""
        assert line["label"] == [self.labels[number] for number in line["index"]], f"wrong labels: {line}"
        if not self.pictures:
            assert line["raw"] == [self.bytes[number].hex() for number in line["index"]], f"wrong bytes: {line}"
            return
        for number, image in zip(line["index"], line["image"]):
            assert self.seen.setdefault((seed, line["epoch"], number), image) == image, f"picture {number} has changed: {line}"


class Refused(Exception):
    """An attach that the daemon must refuse, with this code."""

    def __init__(self, rc):
        super().__init__(rc)
        self.rc = rc


@dataclasses.dataclass(frozen=True)
class Token:
    text: str
    run: "Run"
    place: tuple  # (epoch, position)

    def __repr__(self):
        return f"token of {self.run.feed}, seed {self.run.plan.seed}, {self.place}"


class Attach(typing.NamedTuple):
    """What an attach asks for; None = not said."""
    feed: Feed
    job: str
    rank: int
    world: int = None
    batch: int = None
    seed: int = None
    epoch: int = None
    token: Token = None
    last: bool = False


class Run:
    """One start of a job: its plan, and the ids that each of its batches has brought."""

    def __init__(self, feed, plan, before=((), ())):
        self.feed, self.plan = feed, plan
        self.before = before  # of the epoch in which it starts: ids that had been seen, ids that nobody had
        self.got = {}  # by (epoch, step, rank)

    @classmethod
    def asked(cls, want):
        """Of the first attach of a job."""
        token = want.token
        start = token.place if token else (want.epoch or 0, 0)
        seed = token.run.plan.seed if token else want.feed.seed if want.seed is None else want.seed
        plan = Plan(want.feed.order, want.world or 1, want.batch or want.feed.batch, seed, start)
        return cls(want.feed, plan, token.run.history(*plan.start) if token else ((), ()))

    def following(self, start):
        """All ranks have gone; the job goes on from there."""
        old = self.plan
        return Run(self.feed, Plan(old.order, old.world, old.batch, old.seed, start), self.history(*start))

    def same_as(self, other):
        a, b = self.plan, other.plan
        return (a.world, a.batch, a.seed, a.start) == (b.world, b.batch, b.seed, b.start)

    def bring(self, rank, epoch, step, ids):
        """A batch has come: once more is what a resume does, and then it is the same."""
        if self.got.setdefault((epoch, step, rank), ids) != ids:
            raise AssertionError(f"rank {rank}, epoch {epoch}, step {step}: {ids}, before it was {self.got[epoch, step, rank]}")

    def until(self, epoch, steps):
        """(ids seen, ids that nobody has got) of an epoch up to a step."""
        seen, lost = map(list, self.before if epoch == self.plan.start[0] else ((), ()))
        for step, rank in itertools.product(range(steps), range(self.plan.world)):
            ids = self.got.get((epoch, step, rank))
            if ids is None:
                lost += [number for number, valid in self.plan.rows(rank, epoch, step) if valid]
            else:
                seen += ids
        return seen, lost

    def history(self, epoch, position):
        """The same up to a position that lies on a step."""
        if not position:
            return (), ()
        return self.until(epoch, (position - self.plan.origin(epoch)) // self.plan.rows_a_step)

    def end_of_epoch(self, epoch):
        """Before and after together are one unbroken pass. Was it whole, and did it begin in the middle?"""
        seen, lost = self.until(epoch, self.plan.total(epoch))
        records = self.plan.order.records
        want = records
        if self.plan.order.tail == "drop":
            origin = self.plan.origin(epoch)
            want = origin + (records - origin) // self.plan.rows_a_step * self.plan.rows_a_step
        every = seen + lost
        if len(every) != want or len(set(every)) != want or not all(0 <= number < records for number in every):
            repeated = sorted(number for number in set(every) if every.count(number) > 1)
            raise AssertionError(f"epoch {epoch} has {len(every)} of {want} samples; repeated {repeated}, left out "
                                 f"{sorted(set(range(records)) - set(every))}")
        return not lost, self.plan.origin(epoch) > 0


class Grant(typing.NamedTuple):
    """An attach that the daemon must accept."""
    job: "Job"
    fresh: bool  # it begins the job
    follows: bool  # it goes on with a job that all ranks have left
    starts: set  # (epoch, position) at which the job may start
    places: set  # (epoch, step) at which the rank may; None = at the job's start
    words: str  # how the daemon says so


class Job:
    """A job as the daemon knows it."""

    def __init__(self, run, rebuilt=False):
        self.run, self.rebuilt = run, rebuilt
        self.follows = False
        self.claimed = set()
        self.stood = {}  # of ranks that were served: the places at which each may have been left
        self.detached = {}  # of these: has it said so? None = that cannot be known

    def compare(self, want):
        plan = self.run.plan
        seed = want.token.run.plan.seed if want.token else want.seed
        pairs = [(want.world, plan.world), (want.batch, plan.batch), (seed, plan.seed)]
        if not want.token and not want.last:
            pairs.append((want.epoch, plan.start[0]))
        if any(given is not None and given != own for given, own in pairs) or want.rank >= plan.world:
            raise Refused(INVALID)
        if want.rank in self.claimed:
            raise Refused(RANK_TAKEN)
        if want.token and want.token.run.feed.settings != self.run.feed.settings:
            raise Refused(INVALID)

    def starts_after_all(self):
        """Where it may go on when no rank is left: after the smallest prefix that was released. A rank that never has a row
        holds nobody back."""
        plan = self.run.plan
        if len(self.stood) < plan.world:
            return {plan.start}
        choices = [places for rank, places in self.stood.items() if plan.steps(rank, plan.start[0] + 1)]
        return {plan.position(*min(places)) for places in itertools.product(*choices)}

    def token_step(self, want):
        """A token of the job's start, or of one of its steps for a rank that was there."""
        plan = self.run.plan
        epoch, position = Plan(plan.order, plan.world, plan.batch, plan.seed, want.token.place).start
        if (epoch, position) == plan.start:
            return epoch, 0
        step, rest = divmod(position - plan.origin(epoch), plan.rows_a_step)
        if not (self.rebuilt or want.rank in self.stood) or step < 0 or rest:
            raise Refused(INVALID)
        return (epoch, step) if step < plan.total(epoch) else (epoch + 1, 0)

    def grant(self, want, fresh):
        stood, start = self.stood.get(want.rank), {self.run.plan.start}
        if want.last and not fresh and not self.claimed:
            return Grant(self, False, True, self.starts_after_all(), None, "after the job's last released")
        if want.token:
            return Grant(self, fresh, False, start, {self.token_step(want)}, "resumed from token: ")
        if want.last and stood:
            return Grant(self, fresh, False, start, stood, "after its last released: ")
        words = "after the job's last released" if want.last and self.follows else "again from the start" if stood else "from the start"
        return Grant(self, fresh, False, start, None, words)


class Knowledge:
    """All jobs of a daemon, from its start to its end."""

    def __init__(self):
        self.jobs = {}

    def job(self, seat):
        return self.jobs.get((seat.run.feed.name, seat.job))

    def attach(self, want):
        """A Grant, or Refused."""
        key = want.feed.name, want.job
        job = self.jobs.get(key)
        if job and not job.claimed and not want.last:
            job = self.jobs.pop(key) and None  # it is started anew
        fresh = not job
        job = job or Job(Run.asked(want))
        job.compare(want)
        if not Plan(job.run.plan.order, job.run.plan.world, job.run.plan.batch, 0).total(0):
            raise Refused(INVALID)
        return job.grant(want, fresh)

    def begin(self, want, grant, start, seats):
        """The rank is taken; start is the one at which the job has been seen to start. Trainers that have not found this daemon
        yet may be of the very run that is begun again."""
        job = self.jobs[want.feed.name, want.job] = grant.job
        if grant.follows:
            job.run, job.follows, job.stood = job.run.following(start), True, {}
        if grant.fresh:
            job.run = next((seat.run for seat in seats if seat.run.same_as(job.run)), job.run)
        job.claimed.add(want.rank)

    def reconnect(self, seat):
        """A client finds another daemon than before. False: it must be refused."""
        job = self.jobs.setdefault((seat.run.feed.name, seat.job), Job(seat.run, rebuilt=True))
        if not job.run.same_as(seat.run):
            return False
        seat.run = job.run
        job.claimed.add(seat.rank)
        return True

    def leave(self, seat, places, detached):
        """A rank is given back, and may be left at each of these places."""
        job = self.job(seat)
        job.claimed.discard(seat.rank)
        job.stood[seat.rank], job.detached[seat.rank] = places, detached

    def vacant(self):
        """Of each rank of which others run on: the plan, the places at which it may have been left, has it said so."""
        return {(*key, rank): (job.run.plan, places, job.detached[rank]) for key, job in self.jobs.items() if job.claimed
                for rank, places in job.stood.items() if rank not in job.claimed}


class Held(typing.NamedTuple):
    place: tuple
    line: dict
    link: int


class Seat:
    """A trainer that has a rank: what it must get next, what it holds, what the daemon has heard of it."""

    def __init__(self, trainer, job, run, rank, slots, link):
        self.trainer, self.job, self.run, self.rank, self.slots = trainer, job, run, rank, slots
        self.place = None  # (epoch, step), also past the last step: then the end of the epoch comes first
        self.told = None  # what follows the last batch that the daemon knows to be handed out
        self.begun = self.stopped = False
        self.held = {}  # by handle, the oldest first
        self.counted = set()  # handles of those that were handed out in this pass by this daemon
        self.link = link  # number of the daemon that serves it
        self.reconnects = 0
        self.looked = 0  # calls since then that may have seen that its daemon has gone, and have not waited for another
        self.call = None  # that has no answer yet: (verb, options, number of the daemon when it was sent)

    def __str__(self):
        return f"{self.job}/{self.rank} pid {self.trainer.pid}"

    @property
    def plan(self):
        return self.run.plan

    def begins(self, places, shown):
        """At one of these places, by what the trainer was told."""
        for self.place in places:
            if self.next_place() == shown:
                self.told = self.place
                return
        raise AssertionError(f"{self} begins at {shown} instead of {places}")

    def info(self):
        """What the trainer is told of its attachment."""
        plan, epoch = self.plan, self.next_place()[0]
        return {"job": self.job, "rank": self.rank, "world": plan.world, "batch": plan.batch, "seed": plan.seed, "slots": self.slots,
                "records": plan.order.records, "first_steps": plan.steps(self.rank, epoch), "steps": plan.steps(self.rank, epoch + 1)}

    def steps(self):
        return self.plan.steps(self.rank, self.place[0])

    def due(self):
        """Is the end of the epoch the next that it gets?"""
        return self.place[1] >= self.steps()

    def rowless(self):
        """Has it no row in any whole epoch?"""
        return not self.plan.steps(self.rank, self.plan.start[0] + 1)

    def next_place(self):
        return (self.place[0] + 1, 0) if self.due() and self.place[1] else self.place

    def full(self):
        return sum(1 for held in self.held.values() if held.link == self.link) == self.slots

    def released(self):
        """The place after the contiguous prefix that it has released."""
        return self.plan.after(self.rank, *min([self.told, *(self.held[handle].place for handle in self.counted)]))

    def advance(self):
        self.place = self.told = (self.place[0], self.place[1] + 1)
        self.begun = True

    def hold(self, line):
        self.held[line["handle"]] = Held(self.place, line, self.link)
        self.counted.add(line["handle"])
        self.advance()

    def release(self, handle):
        del self.held[handle]
        self.counted.discard(handle)

    def seek(self, epoch):
        if self.place[0] == epoch and (self.place[1] == 0 or not self.begun):
            return  # it is there
        nothing = self.rowless() and not self.plan.steps(self.rank, self.plan.start[0])  # to be told
        if self.next_place() != (epoch, 0) and not nothing:
            self.counted.clear()
            self.told = (epoch, 0)
        self.place, self.begun = (epoch, 0), True

    def relinked(self, link):
        self.link, self.looked, self.told = link, 0, self.next_place()
        self.reconnects += 1
        self.counted.clear()
