"""Random schedules of what trainers and daemons do and suffer, with an oracle that tracks every sample (schedule_model.py).

A schedule is a seed: a data set, two feeds, two jobs, and some hundred operations, each chosen by what has come of those
before. DATALOADD_SEED=N runs that one alone, again as far as time lets it. All schedules of a run together must have
exercised every kind of KINDS.
"""
import collections
import concurrent.futures
import contextlib
import errno
import multiprocessing
import socket
import traceback

from harness import *
from schedule_model import INVALID, RANK_TAKEN, Attach, Data, Feed, Knowledge, Refused, Seat, Token

SEED = os.environ.get("DATALOADD_SEED")
LEAST = (100 if SANITIZE else 1000) if LONG else (20 if SANITIZE else 60)
SECONDS = 0 if LONG else 20  # and as many as fit
PROCESSES = 2
PATIENCE = 60 if not SANITIZE else 240
END, DEADLOCK, TIMED_OUT = 1, -35, -110
KINDS = (
    "attach", "attach with a token", "attach with a token at another world or batch", "attach with a token to a running job",
    "attach refused", "rank taken", "last of a rank", "last of a job", "last of nothing", "job started anew",
    "next", "poll", "run", "release", "release out of order", "view", "all slots held", "token saved", "set_epoch", "detach",
    "kill trainer", "kill trainer in next", "kill trainer in run", "kill trainer in attach", "kill all trainers", "stop trainer",
    "stop daemon", "kill daemon", "SIGTERM daemon", "reconnect", "reconnect refused", "status",
    "end of epoch", "whole epoch", "whole epoch from its middle on")


class Schedule(Case):
    """One schedule."""

    def __init__(self, seed):
        super().__init__()
        self.seed, self.rng = seed, random.Random(seed)
        self.counts, self.events = collections.Counter(), []
        self.knowledge, self.link = Knowledge(), 0  # link: number of the daemon
        self.seats = {"a": {}, "b": {}}  # by job and rank
        self.idle, self.tokens = [], []

    def perform(self):
        """What was done, counted; a failure tells the whole story."""
        try:
            self.setUp()
            self.prepare()
            for turn in range(self.rng.randrange(60, 160)):
                self.rng.seed(f"{self.seed} {turn}")  # what time makes of one turn leaves the choices of the others as they are
                self.turn()
            self.finish()
            return self.counts
        except Exception:
            story = [*self.events, self.log() if self.daemon else "", traceback.format_exc(), f"DATALOADD_SEED={self.seed}"]
            raise AssertionError("\n".join(story)) from None
        finally:
            self.doCleanups()

    def note(self, *words):
        self.events.append(" ".join(map(str, words)))

    def count(self, kind, *words):
        assert kind in KINDS, kind
        self.counts[kind] += 1
        self.note(kind, *words)

    def all_seats(self):
        return [seat for ranks in self.seats.values() for seat in ranks.values()]

    def shuffled(self, items):
        return self.rng.sample(list(items), len(items))

    # The daemon.

    def prepare(self):
        self.data = Data(self.folder / "data", self.rng)
        tails = self.rng.sample(["wrap", "drop", "partial"], 2)
        if self.data.records < 4 and "partial" not in tails:
            tails[0] = "partial"  # where ranks have no row
        self.feeds = [Feed(f"feed-{tail}", self.data.sizes, self.rng, tail) for tail in tails]
        self.note(f"{self.data.records} records in shards of {[len(sizes) for sizes in self.data.sizes]}")
        for feed in self.feeds:
            self.note(feed.config())
        self.config([feed.config(**self.data.source) for feed in self.feeds], workers=self.rng.randrange(1, 4), memory=64 << 20)
        self.launch()

    def answers(self):
        if self.daemon.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.daemon.returncode}")
        with socket.socket(socket.AF_UNIX) as peer, contextlib.suppress(OSError):
            peer.connect(str(self.socket))
            return True

    def launch(self):
        self.link += 1
        delay = self.rng.choice([None, None, 100, 300, 1000])
        self.note(f"daemon {self.link} starts, delays of {delay} us")
        self.start_daemon(wait=False, env={"DATALOADD_TEST_DELAY": f"{self.rng.randrange(1000)}:{delay}"} if delay else {})
        wait_for("the daemon", self.answers, PATIENCE, every=0.002)

    def linked(self, seat):
        return seat.link == self.link

    def strike(self):
        """The daemon ends, in the middle of calls or not, and comes back after a while."""
        for seat in self.all_seats():
            if seat.call and (not self.linked(seat) or self.rng.random() < 0.3):
                self.collect(seat)
        number = self.rng.choice([signal.SIGKILL, signal.SIGTERM])
        self.count("kill daemon" if number == signal.SIGKILL else "SIGTERM daemon")
        self.stop_daemon(number, PATIENCE)
        self.knowledge = Knowledge()
        self.link += 1  # nobody's
        for seat in self.all_seats():
            seat.looked = 0
            self.while_down(seat)
        self.launch()
        self.collect_all(self.all_seats())
        jobs = [job for job, ranks in self.seats.items() if ranks and not any(map(self.linked, ranks.values()))]
        if jobs and self.rng.random() < 0.4:
            self.usurp(self.rng.choice(jobs))

    def while_down(self, seat):
        chance = self.rng.random()
        if chance < 0.1:
            self.kill(seat)
        elif seat.call or seat.stopped:
            return
        elif chance < 0.4:
            self.ask(seat)
        elif chance < 0.5:
            self.give_back(seat)
        elif chance < 0.6:
            self.seek(seat)

    def pause(self):
        """The daemon stops for a moment; meanwhile some trainers ask, some die, others take their ranks."""
        self.count("stop daemon")
        self.settle(self.all_seats())
        self.daemon.send_signal(signal.SIGSTOP)
        dead = []
        for seat in self.all_seats():
            chance = self.rng.random()
            if chance < 0.3 and self.linked(seat):
                self.kill(seat)
                dead.append(seat)
            elif chance < 0.7 and self.may_ask(seat) and self.linked(seat) and not seat.call and not seat.stopped:
                self.ask(seat)
        heirs = [self.send_attach(Attach(seat.run.feed, seat.job, seat.rank, last=True)) for seat in dead
                 if self.knowledge.job(seat).claimed and self.rng.random() < 0.7]
        self.daemon.send_signal(signal.SIGCONT)
        self.receive_all(heirs)

    # Attaches.

    def send_attach(self, want):
        """What receive_attach needs to await the answer: (trainer, want, slots, Grant or Refused)."""
        try:
            grant = self.knowledge.attach(want)
        except Refused as refused:
            grant = refused
        trainer = self.idle.pop() if self.idle else self.trainer()
        slots = self.rng.choice([None, SLOTS_MIN, 3, 5])
        resume = "last" if want.last else want.token.text if want.token else None
        self.note(f"pid {trainer.pid} attaches:", want, f"slots {slots}")
        trainer.send("attach", feed=want.feed.name, job=want.job, rank=want.rank, world=want.world, batch=want.batch, seed=want.seed,
                     epoch=want.epoch, slots=slots, resume=resume, timeout=PATIENCE * 1000, reconnect=PATIENCE * 1000)
        return trainer, want, slots or want.feed.slots, grant

    def receive_attach(self, trainer, want, slots, grant):
        """The new seat, or None where the trainer had to be refused."""
        reply = trainer.receive(PATIENCE)
        self.note(f"pid {trainer.pid} is answered:", reply)
        if isinstance(grant, Refused):
            assert reply["rc"] == grant.rc, f"must be refused with {grant.rc}: {reply}"
            self.count("rank taken" if grant.rc == RANK_TAKEN else "attach refused")
            self.idle.append(trainer)
            return None
        assert reply["rc"] == 0, f"refused: {reply}"
        token = json.loads(self.call(trainer, "token")["token"])
        begins = token["epoch"], token["next"]
        start = begins if grant.follows else min(grant.starts)
        assert start in grant.starts, f"the job starts at {start} instead of {grant.starts}"
        self.knowledge.begin(want, grant, start, self.seats[want.job].values())
        run = grant.job.run
        seat = Seat(trainer, want.job, run, want.rank, slots, self.link)
        seat.begins(grant.places or {(run.plan.start[0], 0)}, (reply["epoch"], reply["step"]))
        assert begins == run.plan.position(*seat.next_place()), f"{token} at {seat.place}"
        assert reply["started"].startswith(grant.words), f"{reply['started']} instead of {grant.words}"
        assert seat.info().items() <= reply.items(), f"attached as {reply} instead of {seat.info()}"
        self.seats[want.job][want.rank] = seat
        self.count_attach(want, grant)
        return seat

    def count_attach(self, want, grant):
        self.count("attach")
        if want.token:
            old, new = want.token.run.plan, grant.job.run.plan
            self.count("attach with a token")
            if not grant.fresh:
                self.count("attach with a token to a running job")
            elif (old.world, old.batch) != (new.world, new.batch):
                self.count("attach with a token at another world or batch")
        elif want.last:
            self.count("last of a rank" if grant.places else "last of a job" if grant.job.follows else "last of nothing")

    def attach(self, want):
        return self.receive_attach(*self.send_attach(want))

    def receive_all(self, sent):
        for one in self.shuffled(sent):
            self.receive_attach(*one)

    def begin(self, job):
        """A job starts: with values of its own, from a token, or after what its ranks had released."""
        rng = self.rng
        left = [feed for feed in self.feeds if (feed.name, job) in self.knowledge.jobs]
        feed = rng.choice([*left, *left, *self.feeds])
        lingering = self.knowledge.jobs.get((feed.name, job))
        want = {"world": rng.randrange(1, 5), "batch": rng.choice([None, *range(1, 6)]), "seed": rng.choice([None, 0, 1, 2**40 + 7]),
                "epoch": rng.choice([None, 0, 1, 2])}
        tokens = [token for token in self.tokens[-12:] if token.run.feed is feed or rng.random() < 0.05]
        how = rng.random()
        if how < 0.4 and tokens:
            want["token"] = rng.choice(tokens)
            plan = want["token"].run.plan
            if rng.random() < 0.4:
                want.update(world=plan.world, batch=plan.batch)
        elif how < (0.75 if lingering else 0.45):
            want["last"] = True
            if lingering and rng.random() < 0.9:
                want.update(world=lingering.run.plan.world, batch=None, seed=None)
        elif lingering:
            self.count("job started anew", feed.name, job)
        ranks = self.shuffled(range(want["world"]))
        if self.attach(Attach(feed, job, ranks[0], **want)):
            want.update({key: None for key in ("world", "batch", "seed", "epoch") if rng.random() < 0.3})
            self.receive_all([self.send_attach(Attach(feed, job, rank, **want)) for rank in ranks[1:] if rng.random() < 0.93])
            if rng.random() < 0.3:
                self.finish_epoch(job)

    def join(self):
        """A rank that nobody has is taken by a new process, or not: then it is refused."""
        rng = self.rng
        jobs = [job for job, ranks in self.seats.items() if ranks and len(ranks) < next(iter(ranks.values())).plan.world]
        if not jobs:
            return
        name = rng.choice(jobs)
        seats = self.seats[name].values()
        self.settle(seats)
        if not any(map(self.linked, seats)) and rng.random() < 0.3:
            return
        want = self.claim(name, next(iter(seats)).run)
        job = self.knowledge.jobs.get((want.feed.name, name))
        if job and job.claimed and want.rank in job.stood and rng.random() < 0.2:
            self.die_in_attach(want)
        elif self.attach(want):
            self.turn_out_others(name)

    def claim(self, name, run):
        """An attach to a rank of a run that has not been claimed."""
        rng, plan = self.rng, run.plan
        want = {"world": rng.choice([None, plan.world]), "batch": rng.choice([None, plan.batch]), "seed": rng.choice([None, plan.seed])}
        own = [token for token in self.tokens if token.run is run]
        first = [token for token in own if token.place[0] == plan.start[0]]
        others = [token for token in self.tokens if token.run.feed is run.feed and token.run.plan.seed == plan.seed]
        tokens = rng.choice([own, first, others, self.tokens])
        how = rng.random()
        if how < 0.4:
            want["last"] = True
        elif how < 0.85 and tokens:
            want["token"] = rng.choice(tokens)
        else:
            want["epoch"] = rng.choice([None, plan.start[0], 7])
        if rng.random() < 0.1:
            want[rng.choice(["world", "batch"])] = rng.randrange(5, 9)
        return Attach(run.feed, name, rng.choice([rank for rank in range(plan.world) if rank not in self.seats[name]]), **want)

    def die_in_attach(self, want):
        """Whether the rank was served before the kill cannot be known."""
        trainer, _, _, grant = self.send_attach(want)
        time.sleep(self.rng.random() * 0.003)
        trainer.kill()
        self.count("kill trainer in attach", want.job, want.rank)
        if not isinstance(grant, Refused):
            plan = grant.job.run.plan
            places = grant.places or {(plan.start[0], 0)}
            grant.job.stood[want.rank] |= {plan.after(want.rank, *place) for place in places}
            grant.job.detached[want.rank] = None

    def turn_out_others(self, job):
        """Trainers that have not found this daemon yet, where a job of their name has started elsewhere."""
        for seat in list(self.seats[job].values()):
            if seat.run.same_as(self.knowledge.job(seat).run):
                continue
            if seat.stopped:
                self.go_on(seat)
            if not seat.due():
                reply = self.call(seat.trainer, "next", timeout=PATIENCE * 1000)
                assert reply["rc"] == INVALID and "has come back" in reply["error"], f"{seat} must be refused: {reply}"
                self.count("reconnect refused", seat, reply)
            self.kill(seat)

    def usurp(self, job):
        """A job whose trainers have not found this daemon yet is begun by another, elsewhere."""
        seat = next(iter(self.seats[job].values()))
        self.kill(seat)
        if self.attach(Attach(seat.run.feed, job, seat.rank, world=seat.plan.world, epoch=seat.plan.start[0] + 1)):
            self.turn_out_others(job)

    def intrude(self):
        """Another trainer wants a rank that is taken."""
        seats = [seat for seat in self.all_seats() if self.linked(seat)]
        if seats:
            seat = self.rng.choice(seats)
            self.attach(Attach(seat.run.feed, seat.job, seat.rank, batch=self.rng.choice([None, seat.plan.batch, 9]), last=True))

    # What trainers do.

    def call(self, trainer, verb, **options):
        trainer.send(verb, **options)
        return trainer.receive(PATIENCE)

    def may_ask(self, seat):
        """A trainer whose daemon has gone looks for it in its calls. Where a call ends before it has found one, what a daemon has
        heard of it cannot be known: the end of an epoch, a second time."""
        return self.linked(seat) or not seat.due() or not seat.looked

    def ask(self, seat, verb="next", **options):
        """Sends what collect receives."""
        if self.may_ask(seat):
            self.note(f"{seat}: {verb} {options} at {seat.place}")
            seat.call = verb, options, self.link
            seat.trainer.send(verb, timeout=PATIENCE * 1000, **{"token": 1, **options})

    def collect(self, seat):
        if seat.stopped:
            self.go_on(seat)
        verb, options, link = seat.call
        seat.call = None
        if verb == "next":
            self.after_next(seat, seat.trainer.receive(PATIENCE), link)
        else:
            self.after_run(seat, options.get("epochs", 0))

    def collect_all(self, seats):
        for seat in self.shuffled([seat for seat in seats if seat.call]):
            self.collect(seat)

    def settle(self, seats):
        """Nobody is on the way to a new daemon."""
        self.collect_all([seat for seat in seats if not self.linked(seat)])

    def see_reconnect(self, seat):
        """A trainer whose daemon had gone may have found this one."""
        if self.linked(seat) or self.call(seat.trainer, "stats")["reconnects"] == seat.reconnects:
            return
        assert self.knowledge.reconnect(seat), f"{seat} must be refused"
        seat.relinked(self.link)
        self.count("reconnect", seat)

    def after_next(self, seat, line, link):
        self.note(f"{seat}: {line}")
        if line["rc"] == END:
            self.end_epoch(seat)
        elif line["rc"] == DEADLOCK:
            assert not seat.due() and seat.full() and seat.link == link, f"{seat} holds {len(seat.held)}: {line}"
            self.count("all slots held")
        else:
            assert line["rc"] == 0 and not seat.due(), f"{seat} at {seat.place} of {seat.steps()} steps: {line}"
            self.see_reconnect(seat)
            assert not seat.full(), f"{seat} got more than its slots"
            self.count("next")
            self.compare(seat, line)
            seat.hold(line)
            if self.rng.random() < 0.4:
                self.release(seat, line["handle"])

    def end_epoch(self, seat):
        assert seat.due(), f"{seat}: the end of an epoch at {seat.place} of {seat.steps()} steps"
        epoch = seat.place[0]
        seat.place, seat.begun = (epoch + 1, 0), True
        seat.looked += 1
        whole, resumed = seat.run.end_of_epoch(epoch)
        self.count("end of epoch", seat, epoch)
        if whole:
            self.count("whole epoch from its middle on" if resumed else "whole epoch")

    def compare(self, seat, line):
        """All that a batch says, with what it must say."""
        (epoch, step), plan = seat.place, seat.plan
        rows = plan.rows(seat.rank, epoch, step)
        ids, flags = [number for number, _ in rows], [int(valid) for _, valid in rows]
        got = line["epoch"], line["step"], line["rows"], line["valid"], line["index"], line["flags"]
        want = epoch, step, len(rows), sum(flags), ids, flags
        assert got == want, f"{seat} got {got} instead of {want}"
        self.data.compare(line, plan.seed)
        place = plan.position(*plan.after(seat.rank, epoch, step + 1))
        self.check_token(seat, line["token"], place)
        seat.run.bring(seat.rank, epoch, step, [number for number, valid in zip(line["index"], line["flags"]) if valid])
        if self.rng.random() < 0.1:
            self.save(seat, line["token"], place)

    def check_token(self, seat, token, place):
        fields = json.loads(token)
        got = [fields[key] for key in ("epoch", "next", "seed", "shuffle", "lanes", "tail")]
        want = [*place, seat.plan.seed, *seat.run.feed.settings]
        assert got == want, f"{seat} has token {got} instead of {want}"

    def save(self, seat, token, place):
        self.count("token saved", seat, place)
        self.tokens.append(Token(token, seat.run, place))

    def take_token(self, seat):
        place = seat.plan.position(*seat.next_place())
        token = self.call(seat.trainer, "token")["token"]
        self.check_token(seat, token, place)
        self.save(seat, token, place)

    def next(self, seat):
        if seat.held and self.rng.random() < (0.7 if seat.full() else 0.15):
            self.give_back(seat)
            return
        self.ask(seat)
        if seat.call and self.rng.random() < 0.6:
            self.collect(seat)

    def poll(self, seat):
        if not self.linked(seat):
            return
        self.count("poll", seat)
        line = self.call(seat.trainer, "next", timeout=0, token=1)
        if line["rc"] != TIMED_OUT:
            self.after_next(seat, line, self.link)
        else:
            assert not seat.due() and not seat.full(), f"{seat}: {line}"

    def release(self, seat, handle):
        self.count("release" if handle == next(iter(seat.held)) else "release out of order", seat, seat.held[handle].place)
        reply = self.call(seat.trainer, "release", handle=handle)
        assert reply["rc"] == 0, f"{seat}: {reply}"
        seat.release(handle)

    def give_back(self, seat, share=0.7):
        """Batches that it holds, in any order."""
        for handle in self.shuffled(seat.held):
            if self.rng.random() < share:
                self.release(seat, handle)

    def view(self, seat):
        for handle, held in seat.held.items():
            line = self.call(seat.trainer, "view", handle=handle)
            self.count("view", seat, held.place)
            if not HELD_STAYS and line["rc"] == -errno.EOWNERDEAD:
                continue
            assert line.items() <= held.line.items(), f"{seat}: a held batch has changed: {line}, was {held.line}"

    def run_on(self, seat, epochs=0):
        """Batches released at once, some of them or to the end of epochs."""
        if seat.rowless() and not self.linked(seat):
            return
        self.give_back(seat, share=1)
        self.count("run", seat)
        if not epochs and (seat.rowless() or self.rng.random() < 0.3):
            epochs = 1
        if epochs:
            self.ask(seat, "run", epochs=epochs, print=3)
        else:
            self.ask(seat, "run", batches=self.rng.randrange(1, 9), sleep_us=self.rng.choice([0, 0, 300]), print=3)

    def take_lines(self, seat, lines):
        for line in lines:
            while seat.due():
                self.end_epoch(seat)
            self.compare(seat, line)
            seat.advance()

    def after_run(self, seat, epochs):
        first, lines = seat.place[0], []
        while not lines or "done" not in lines[-1]:
            lines.append(seat.trainer.receive(PATIENCE))
        self.note(f"{seat}: {len(lines) - 1} batches, {lines[-1]}")
        assert lines[-1]["rc"] == 0, f"{seat}: {lines[-1]}"
        self.take_lines(seat, lines[:-1])
        while seat.place[0] < first + epochs:
            self.end_epoch(seat)
        self.see_reconnect(seat)

    def seek(self, seat):
        """The next pass is another epoch."""
        if not self.linked(seat) and (seat.looked or seat.rowless()):
            return
        epoch = self.rng.choice([seat.place[0], seat.place[0] + 1, max(0, seat.place[0] - 1), self.rng.randrange(5)])
        self.count("set_epoch", seat, epoch)
        reply = self.call(seat.trainer, "seek", epoch=epoch)
        assert reply["rc"] == 0, f"{seat}: {reply}"
        seat.looked += 1
        seat.seek(epoch)
        if self.rng.random() < 0.3:
            self.replace(seat)

    # How they go.

    def gone(self, seat, places, detached=False):
        """places: where the daemon may see the rank left."""
        del self.seats[seat.job][seat.rank]
        if self.linked(seat):
            self.knowledge.leave(seat, places, detached)

    def detach(self, seat):
        self.count("detach", seat, seat.released())
        assert self.call(seat.trainer, "detach")["rc"] == 0
        self.gone(seat, {seat.released()}, detached=True)
        self.idle.append(seat.trainer)

    def kill(self, seat):
        """kill -9, also in a call."""
        verb = seat.call and seat.call[0]
        self.count(f"kill trainer in {verb}" if verb else "kill trainer", seat, seat.released())
        seat.trainer.kill()
        places = {seat.released()}
        if verb == "run":
            places = self.take_last_words(seat)
        self.note(f"{seat} is left at {places}")
        self.gone(seat, places)

    def take_last_words(self, seat):
        """What a run has printed before it was killed; whether the last batch was released cannot be known."""
        text = seat.trainer.buffer + seat.trainer.process.stdout.buffer.read()
        places = {seat.released()}
        for line in map(json.loads, text.split(b"\n")[:-1]):
            if "done" in line:
                return {seat.released()}
            places = {seat.released()}
            self.take_lines(seat, [line])
            places.add(seat.released())
        return places

    def kill_in_call(self, seat):
        if not self.linked(seat):
            return
        if self.rng.random() < 0.5:
            self.ask(seat)
        else:
            self.run_on(seat)
        time.sleep(self.rng.random() ** 2 * 0.01)
        self.kill(seat)

    def replace(self, seat):
        """The next one takes its rank at once, after what it had released."""
        if self.linked(seat):
            self.settle(self.seats[seat.job].values())
            self.kill(seat)
            self.attach(Attach(seat.run.feed, seat.job, seat.rank, last=True))

    def end_job(self):
        """All ranks of a job go at once."""
        jobs = [list(ranks.values()) for ranks in self.seats.values() if ranks]
        if not jobs:
            return
        seats = self.rng.choice(jobs)
        self.settle(seats)
        if self.rng.random() < 0.7:
            self.count("kill all trainers")
            for seat in seats:
                self.kill(seat)
            return
        self.collect_all(seats)
        for seat in seats:
            if seat.stopped:
                self.go_on(seat)
            self.detach(seat)

    def stop(self, seat):
        self.count("stop trainer", seat)
        seat.trainer.kill(signal.SIGSTOP)
        seat.stopped = True

    def go_on(self, seat):
        self.note(f"{seat}: SIGCONT")
        seat.trainer.kill(signal.SIGCONT)
        seat.stopped = False

    def attend(self, seat):
        """To one that is busy or stopped."""
        if self.rng.random() < 0.1 and self.linked(seat):
            self.kill(seat)
        elif seat.call:
            self.collect(seat)
        else:
            self.go_on(seat)

    def finish_epoch(self, job):
        """All ranks of a job go to the end of the epoch that the furthest is in."""
        seats = list(self.seats[job].values())
        self.collect_all(seats)
        last = max((seat.place[0] for seat in seats if not seat.rowless()), default=0)
        for seat in seats:
            if seat.stopped:
                self.go_on(seat)
            if last - 4 < seat.place[0] <= last:
                self.run_on(seat, epochs=last + 1 - seat.place[0])

    def look(self):
        """Status: who is there, and which ranks nobody has."""
        self.settle(self.all_seats())
        self.count("status")
        status = self.status()
        pids = sorted(client["pid"] for client in status["clients"] if client["state"] != "closing")
        want = sorted(seat.trainer.pid for seat in self.all_seats() if self.linked(seat))
        assert pids == want, f"clients {pids} instead of {want}"
        vacant = {(rank["feed"], rank["job"], rank["rank"]): rank for rank in status["vacant"]}
        want = self.knowledge.vacant()
        assert vacant.keys() <= want.keys(), f"vacant are {vacant} instead of {want}"
        for key, left in want.items():
            self.check_vacant(key, vacant.get(key), *left)

    def check_vacant(self, key, vacant, plan, places, detached):
        """A rank that nobody has is shown where it was left, with what it lacks to be where the furthest is; one that has detached
        only if it lacks something."""
        _, job, rank = key
        others = [seat for seat in self.seats[job].values() if self.linked(seat)]
        if vacant:
            assert (vacant["epoch"], vacant["step"]) in places, f"{vacant} instead of {places}"
            places = {(vacant["epoch"], vacant["step"])}
        assert vacant or detached is not False, f"{key} is not shown, it was left at {places}"
        if any(seat.call for seat in others):
            return
        furthest = max(seat.told for seat in others)
        lacks = [plan.between(rank, place, furthest) for place in places]
        if vacant:
            (samples, rows), = lacks
            assert samples <= vacant["lost"] <= rows and (rows or not detached), f"{vacant} instead of {samples} samples of {furthest}"
        else:
            assert not detached or not all(rows for _, rows in lacks), f"{key} is not shown, it was left at {places} of {furthest}"

    # The schedule.

    def turn(self):
        seats = [seat for seat in self.all_seats() if not seat.call and not seat.stopped]
        busy = [seat for seat in self.all_seats() if seat.call or seat.stopped]
        empty = [job for job, ranks in self.seats.items() if not ranks]
        full = [job for job, ranks in self.seats.items() if ranks]
        of_all = [(3, self.join), (1, self.strike), (0.7, self.pause), (1, self.intrude), (1.5, self.end_job), (0.7, self.look)]
        of_one = [(30, self.next, seats), (4, self.poll, seats), (6, self.run_on, seats), (1.5, self.seek, seats), (2, self.view, seats),
                  (2, self.take_token, seats), (1, self.detach, seats), (1.5, self.kill, seats), (2, self.kill_in_call, seats),
                  (2, self.replace, seats), (1.5, self.stop, seats), (15, self.attend, busy), (12, self.begin, empty), (3, self.finish_epoch, full)]
        actions = [(weight, act, None) for weight, act in of_all] + [action for action in of_one if action[2]]
        _, act, choice = self.rng.choices(actions, [weight for weight, *_ in actions])[0]
        act(*[] if choice is None else [self.rng.choice(choice)])

    def finish(self):
        """Everybody goes to the end of an epoch, and then home."""
        for job in self.seats:
            self.finish_epoch(job)
        self.collect_all(self.all_seats())
        for seat in self.all_seats():
            self.view(seat)
            self.detach(seat)
        self.stop_daemon(seconds=PATIENCE)


def perform(seed):
    return Schedule(seed).perform()


class Schedules(unittest.TestCase):
    def test_schedules(self):
        if SEED:
            self.summarize([Schedule(int(SEED)).perform()])
            return
        seed, begun, done, counts = random.SystemRandom().randrange(1 << 31) if LONG else 1, time.monotonic(), [], collections.Counter()
        print(f"seeds from {seed} on", flush=True)
        with concurrent.futures.ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("fork")) as pool:
            under_way = set()
            # All kinds come within the least number but for bad luck, which has room for five times as many.
            while len(done) < LEAST or time.monotonic() < begun + SECONDS or (len(counts) < len(KINDS) and len(done) < 5 * LEAST):
                while len(under_way) < 2 * PROCESSES:
                    under_way.add(pool.submit(perform, seed))
                    seed += 1
                ended, under_way = concurrent.futures.wait(under_way, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in ended:
                    done.append(future.result())
                    counts += done[-1]
        self.summarize(done)
        self.assertEqual([kind for kind in KINDS if not counts[kind]], [])

    @staticmethod
    def summarize(done):
        counts = sum(done, collections.Counter())
        print(f"{len(done)} schedules, {sum(counts.values())} operations:", ", ".join(f"{kind} {counts[kind]}" for kind in KINDS))


main()
