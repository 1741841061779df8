"""Random schedules: trainers that come, go, wait, hold, stop and die under a daemon that stops, dies and comes back.

After every batch an oracle compares what came with what had to come (chaos_model.py). Every wait has an end: a hang
is a failure that prints the last events, the daemon's status and its log. DATALOADD_SEED replays a schedule, as far as
time lets it; DATALOADD_CHAOS_SECONDS sets its length.
"""
import collections
import contextlib
import errno
import os
import select

from chaos_model import BATCH_FAILED, EPOCHS, HEAVY_BYTES, Data, Reference, choose, content
from harness import *

SECONDS = float(os.environ.get("DATALOADD_CHAOS_SECONDS", 900 if LONG else 20 if SANITIZE else 40))
SEED = int(os.environ.get("DATALOADD_SEED", random.SystemRandom().randrange(1 << 31) if LONG else 1))
TEAMS = 2 if SANITIZE else 3
MEMORY = 64 << 20
GREEDY = 5  # trainers of the fat feed: more than memory has room for
PATIENCE = 60 if not SANITIZE else 240  # seconds after which whatever is waited for hangs
STOP_SECONDS = 5.5 if not SANITIZE else 20
TIMED_OUT, DEADLOCK, RESET, NO_MEMORY, RANK_TAKEN = -110, -35, -104, -12, -98


class Player:
    """One rank: its process, what it has been told to do, what it must get next."""

    def __init__(self, chaos, name, rng):
        self.chaos, self.name, self.rng = chaos, name, rng
        self.process = self.call = self.cont_at = None
        self.attached = False
        self.held = {}

    def bytes(self):
        """Of slots and records, roughly."""
        return 0

    def __str__(self):
        return f"{self.name} pid {self.process.pid if self.process else 0}"

    # What it is told.

    def send(self, verb, patience=0.0, **options):
        if verb == "attach" and not self.process:
            self.process = Trainer(self.chaos.socket, {"TMPDIR": str(self.chaos.scratch)})
            self.chaos.trainers.append(self.process)
        self.chaos.note(f"{self}: {verb} {options}")
        self.call = (verb, options, self.chaos.mark(), time.monotonic() + patience + PATIENCE)
        self.process.send(verb, **options)

    def act(self):
        if self.cont_at:
            return
        chance = self.rng.random()
        if self.process and chance < (0.01 if self.call else 0.002):
            self.kill()
        elif self.process and chance < (0.02 if self.call else 0.006):
            self.stop()
        elif not self.call and self.attached:
            self.choose()
        elif not self.call:
            self.come()
        if self.call and self.rng.random() < 0.005:  # the moments right after a request
            time.sleep(self.rng.random() * 0.004)
            self.kill()

    def kill(self):
        self.chaos.note(f"{self}: kill -9 during {self.call and self.call[0]}, holding {len(self.held)}")
        self.chaos.counts["kill -9", self.call and self.call[0]] += 1
        self.process.kill()
        self.process.close()
        self.chaos.trainers.remove(self.process)
        self.process = self.call = self.cont_at = None
        self.gone()

    def gone(self):
        self.attached = False
        self.held = {}

    def stop(self):
        self.chaos.note(f"{self}: SIGSTOP during {self.call and self.call[0]}")
        self.process.kill(signal.SIGSTOP)
        self.cont_at = time.monotonic() + self.rng.random() ** 3 * 2

    def go_on(self, now=float("inf")):
        if self.cont_at and now > self.cont_at:
            self.cont_at = None
            self.process.kill(signal.SIGCONT)

    # What it answers.

    def answer(self, reply):
        verb, options, mark, _ = self.call
        self.call = None
        quiet = mark is not None and mark == self.chaos.mark()
        line = {key: value for key, value in reply.items() if key in ("rc", "error", "epoch", "step", "handle", "steps")}
        self.chaos.note(f"{self}: {verb} -> {line}{'' if quiet else ' (disturbed)'}")
        self.chaos.counts[verb, reply["rc"]] += 1
        getattr(self, "after_" + verb)(reply, options, quiet)

    def check(self, holds, *what):
        if not holds:
            raise AssertionError(f"{self}: " + " ".join(map(str, what)))

    def ended(self, reply, quiet):
        """An attachment that does not reconnect for long and whose daemon has gone."""
        if reply["rc"] != RESET or self.reconnect > 1000 or (quiet and self.served == self.chaos.marks):
            return False
        self.check("dataloadd" in reply["error"], reply)
        self.send("detach")
        return True

    def overdue(self):
        return self.call and not self.cont_at and time.monotonic() > self.call[3]


class Rank(Player):
    """A rank of a team, that is a job."""

    def __init__(self, team, rank, rng):
        super().__init__(team.chaos, f"{team.name}/{rank}", rng)
        self.team, self.rank = team, rank

    def bytes(self):
        return (self.team.choice.batch * (self.slots + 2) + 16) * HEAVY_BYTES if self.team.choice.feed == "heavy" else 0

    def come(self):
        if self.rank >= self.team.choice.world or self.rng.random() < (0.5 if self.chaos.mark() else 0.95):
            return
        choice = self.team.choice
        self.slots = self.rng.randrange(SLOTS_MIN, 6)
        self.reconnect = self.rng.choice([PATIENCE * 1000, PATIENCE * 1000, 200, 0])
        self.timeout = self.rng.choice([PATIENCE * 1000] * 6 + [5, 20, 100])  # of the attach and of set_epoch
        who = {"rank": self.rank, "world": choice.world} if choice.world > 1 or self.rng.random() < 0.5 else {}
        self.send("attach", feed=choice.feed, job=self.team.name, batch=choice.batch, seed=choice.seed, epoch=self.team.epoch,
                  slots=self.slots, reconnect=self.reconnect, timeout=self.timeout, **who)

    def after_attach(self, reply, options, quiet):
        rc = reply["rc"]
        if rc:
            expected = (rc == NO_MEMORY and self.chaos.crowded() or rc == RANK_TAKEN and self.team.intruded() or
                        rc == TIMED_OUT and self.timeout < 1000)
            self.check(not quiet or expected, "attach refused:", reply)
            return
        choice, reference = self.team.choice, self.team.reference
        got = tuple(reply[key] for key in ("job", "rank", "world", "batch", "seed", "slots", "steps"))
        want = (self.team.name, self.rank, choice.world, choice.batch, choice.seed, self.slots, reference.steps[self.rank])
        self.check(got == want, "attached as", got, "instead of", want)
        self.attached, self.served = True, self.chaos.marks if quiet else None
        self.steps = reply["steps"]
        self.turns = reference.turns[self.rank]
        self.place, self.end_due = (self.team.epoch, 0), False

    def choose(self):
        rng, mine = self.rng, self.holds(self.chaos.marks)
        if self.place[0] >= EPOCHS:
            self.send(*rng.choice([("detach",), ("seek",)]), epoch=rng.randrange(EPOCHS))
        elif rng.random() < 0.01:
            self.send("detach")
        elif rng.random() < 0.02:
            self.send("seek", epoch=rng.randrange(EPOCHS))
        elif self.held and rng.random() < 0.15:
            self.send("view", handle=rng.choice(list(self.held)))
        elif self.held and (len(self.held) > 12 or rng.random() < (0.97 if mine >= self.slots else 0.45)):
            self.send("release", handle=rng.choice(list(self.held)))
        else:
            self.next()

    def next(self):
        timeout = self.rng.choice([0, 5, 50, PATIENCE * 1000])
        self.send("next", timeout=timeout, patience=timeout / 1000)

    def holds(self, *marks):
        """How many batches it holds of those that it took from this daemon (None: from this or from one before)."""
        return sum(1 for _, taken in self.held.values() if taken in marks)

    def is_served(self):
        """It has the rank for sure: this daemon has served it, and it has not been told to go."""
        return self.attached and self.served == self.chaos.mark() and not (self.call and self.call[0] == "detach")

    def advance(self):
        epoch, step = self.place
        self.end_due = step + 1 == self.steps
        self.place = (epoch + 1, 0) if self.end_due else (epoch, step + 1)

    def after_next(self, reply, options, quiet):
        rc = reply["rc"]
        if self.ended(reply, quiet):
            return
        self.check(rc in (0, 1, BATCH_FAILED, DEADLOCK, TIMED_OUT), "next:", reply)
        if rc == 1:
            self.check(self.end_due or not self.steps, "an epoch ended early, before", self.place)
            self.end_due = False
            return
        self.check(not self.end_due and self.steps, "the end of an epoch was left out", self.place, reply)
        if rc == TIMED_OUT:
            self.check(options["timeout"] < 1000, "no batch came:", reply)
        elif rc == DEADLOCK:
            self.check(not quiet or self.holds(self.chaos.marks, None) >= self.slots, "deadlock, holding", self.held)
        elif rc == BATCH_FAILED:
            self.check(self.turns[self.place] is None, "failed:", self.place, reply)
            self.advance()
        else:
            self.check(not quiet or self.holds(self.chaos.marks) < self.slots, "more than all slots", self.held)
            self.check(content(reply) == self.turns[self.place], "at", self.place, "came", reply, "instead of", self.turns[self.place])
            mark = self.chaos.marks if quiet else None
            self.served = mark or self.served
            self.held[reply["handle"]] = (content(reply), mark)
            self.advance()

    def after_view(self, reply, options, _quiet):
        if not HELD_STAYS and reply["rc"] == -errno.EOWNERDEAD:
            return
        self.check(content(reply) == self.held[options["handle"]][0], "a held batch changed:", reply, self.held[options["handle"]])

    def after_release(self, reply, options, _quiet):
        self.check(reply["rc"] == 0, "release:", reply)
        del self.held[options["handle"]]

    def after_seek(self, reply, options, quiet):
        if self.ended(reply, quiet):
            return
        self.check(reply["rc"] == 0 or reply["rc"] == TIMED_OUT and self.timeout < 1000, "seek:", reply)
        self.place, self.end_due = (options["epoch"], 0), False

    def after_detach(self, reply, _options, _quiet):
        self.check(reply["rc"] == 0, "detach:", reply)
        self.gone()
        self.check(len(os.listdir(f"/proc/{self.process.pid}/fd")) == 3, "descriptors left after detach")
        maps = pathlib.Path(f"/proc/{self.process.pid}/maps").read_text(encoding="utf-8")
        self.check("memfd:" not in maps, "memory left mapped after detach")


class Greedy(Player):
    """Takes much memory for a short while, or is refused it."""
    reconnect = 0

    def bytes(self):
        return MEMORY / 4

    def come(self):
        if self.rng.random() < 0.05:
            self.send("attach", feed="fat", job=self.name, reconnect=0, timeout=PATIENCE * 1000)

    def after_attach(self, reply, _options, quiet):
        self.check(reply["rc"] in (0, NO_MEMORY) or not quiet, "attach:", reply)
        self.attached, self.served = reply["rc"] == 0, self.chaos.marks if quiet else None
        self.until = time.monotonic() + self.rng.random() * 1.5

    def choose(self):
        if time.monotonic() > self.until:
            self.send("detach")
        elif self.rng.random() < 0.2 and len(self.held) < 3:
            self.send("next", timeout=PATIENCE * 1000, patience=PATIENCE)

    def after_next(self, reply, _options, quiet):
        if self.ended(reply, quiet):
            return
        self.check(reply["rc"] in (0, 1), "next:", reply)
        if reply["rc"] == 0:
            self.held[reply["handle"]] = None

    def after_detach(self, _reply, _options, _quiet):
        self.gone()


class Intruder(Player):
    """Claims a rank that another has."""
    reconnect = 0

    def come(self):
        owner = self.rng.choice([rank for team in self.chaos.teams for rank in team.ranks])
        if not owner.is_served() or self.rng.random() < 0.9:
            return
        self.team, self.owner, self.pid = owner.team, owner, owner.process.pid
        self.team.intruder = self
        choice = self.team.choice
        self.send("attach", feed=choice.feed, job=self.team.name, rank=owner.rank, world=choice.world, batch=choice.batch, seed=choice.seed,
                  epoch=self.team.epoch, reconnect=0, timeout=PATIENCE * 1000)

    def after_attach(self, reply, _options, quiet):
        if quiet and self.owner.is_served() and self.owner.process.pid == self.pid:
            self.check(reply["rc"] == RANK_TAKEN and f"pid {self.pid}" in reply["error"], "attach:", reply)
        elif reply["rc"] == 0:  # the owner left in the meantime
            self.kill()


class Team:
    """The ranks of one job; with all of them gone it starts anew with another choice."""

    def __init__(self, chaos, name, rng):
        self.chaos, self.name, self.rng = chaos, name, rng
        self.ranks = [Rank(self, rank, random.Random(rng.random())) for rank in range(4)]
        self.choice = self.intruder = None
        self.intruded_at = 0
        self.renew()

    def intruded(self):
        """Has another the rank, or had it a moment ago?"""
        if self.intruder and self.intruder.call:
            self.intruded_at = time.monotonic()
        return time.monotonic() - self.intruded_at < 2

    def renew(self):
        if not self.intruded() and not any(rank.attached or rank.call for rank in self.ranks):
            self.choice, self.reference = self.rng.choice(list(self.chaos.references.items()))
            self.epoch = self.rng.randrange(2)
            self.chaos.note(f"{self.name}: {self.choice} from epoch {self.epoch}")


class Tools:
    """dataloadctl at work."""

    def __init__(self, chaos, rng):
        self.chaos, self.rng = chaos, rng
        self.running = None

    def act(self):
        if not self.running:
            if self.rng.random() < 0.1:
                self.start()
        elif self.running.poll() is not None:
            self.ended()
        elif self.rng.random() < 0.002:
            self.chaos.note(f"tool {self.running.args[3]}: kill -9")
            self.running.kill()
            self.running.communicate()
            self.running = None
        elif time.monotonic() > self.deadline:
            raise AssertionError(f"dataloadctl hangs: {self.running.args}")

    def start(self):
        feed = self.rng.choice(["train", "eval", "folder"])
        verb = self.rng.choice([["status", "--json"], ["status"], ["feeds", "--json"], ["slices", feed, "--world", "3"], ["bad"],
                                ["bench", feed, "--world", "2", "--seconds", "1"], ["bench", "ragged", "--epochs", "1"],
                                ["show", feed, "--out", str(self.chaos.folder / "sheet.png")]])
        self.mark, self.deadline = self.chaos.mark(), time.monotonic() + PATIENCE
        self.running = subprocess.Popen([str(CTL), "--socket", str(self.chaos.socket), *verb], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def ended(self):
        tool, self.running = self.running, None
        out, err = tool.communicate()
        quiet = self.mark is not None and self.mark == self.chaos.mark()
        self.chaos.note(f"tool {tool.args[3:]}: {tool.returncode} {err}")
        self.chaos.counts[tool.args[3], tool.returncode] += 1
        refused = tool.args[3] in ("bench", "show") and "memory" in err and self.chaos.crowded()
        if tool.returncode < 0 or (quiet and tool.returncode and not refused):
            raise AssertionError(f"{tool.args} ended with {tool.returncode}: {err}")
        if quiet and tool.args[3:5] == ["status", "--json"]:
            self.check_status(json.loads(out))

    def check_status(self, status):
        ranks = [(c["feed"], c["job"], c["rank"], c["probe"]) for c in status["clients"] if c["state"] != "closing"]
        wrong = [c for c in status["clients"] if c["ready"] + c["held"] > c["slots"] or c["rank"] >= c["world"]]
        if len(set(ranks)) != len(ranks) or wrong or status["memory_used"] > status["memory_limit"]:
            raise AssertionError(f"status makes no sense: {status}")


class Chaos(Case):
    def setUp(self):
        super().setUp()
        print(f"DATALOADD_SEED={SEED}", flush=True)
        self.rng = random.Random(SEED)
        self.events = collections.deque(maxlen=250)
        self.counts = collections.Counter()
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir()
        self.state, self.marks, self.at, self.stopped = "down", 0, 0, None
        self.calm = self.rng.random() < 0.25  # one daemon for all: what it loses adds up

    # The daemon.

    def mark(self):
        """Changes with each disturbance; None while there is one."""
        return self.marks if self.state == "up" else None

    def note(self, text):
        self.events.append(f"{time.monotonic() - self.begun:8.3f} {text}")

    def launch(self):
        if self.rng.random() < 0.3:
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
        slow = [{}, {"DATALOADD_TEST_DELAY": f"{self.rng.randrange(1000)}:{self.rng.choice([500, 3000, 20000])}"}]
        if not SANITIZE:  # a preloaded library and a sanitizer do not get along
            slow.append({"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_MS": self.rng.choice("128")})
        self.start_daemon(wait=False, env={"TMPDIR": str(self.scratch), **self.rng.choice(slow)})
        self.state, self.at = "starting", time.monotonic() + PATIENCE
        self.note(f"daemon {self.daemon.pid} starts")

    def strike(self):
        """Ends the daemon, or stops it for a moment."""
        number = self.rng.choice([signal.SIGSTOP] if self.calm else [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
        self.note(f"daemon: {number.name}")
        self.counts["daemon", number.name] += 1
        if number == signal.SIGSTOP:
            self.stopped = time.monotonic() + self.rng.random()
        else:
            self.state, self.marks = number.name, self.marks + 1
            self.at = time.monotonic() + STOP_SECONDS
        self.daemon.send_signal(number)

    def guard(self):
        """Whatever the daemon's state leads to."""
        now = time.monotonic()
        if self.stopped and now > self.stopped:
            self.daemon.send_signal(signal.SIGCONT)
            self.stopped = None
        if self.state in ("SIGTERM", "SIGKILL") and self.daemon.poll() is not None:
            if self.state == "SIGTERM" and self.daemon.returncode:
                raise AssertionError(f"the daemon ended with {self.daemon.returncode}")
            self.note(f"daemon ended after {now - self.at + STOP_SECONDS:.3f} s")
            self.state, self.at = "down", now + self.rng.random() ** 3 * 1.5
        elif self.state == "down" and now > self.at:
            self.launch()
        elif self.state == "starting" and self.answers():
            self.state = "up"
            self.note("daemon is up")
        elif self.state == "up" and self.daemon.poll() is not None:
            raise AssertionError(f"the daemon died: {self.daemon.returncode}")
        elif self.state != "up" and now > self.at + (0 if self.state != "down" else 1e9):
            raise AssertionError(f"the daemon hangs: {self.state}")

    def crowded(self):
        """Is memory short, or was it a moment ago?"""
        now = time.monotonic()
        if sum(player.bytes() for player in self.players if player.attached or player.call) >= MEMORY / 4:
            self.crowd = now
        return now - self.crowd < 5

    # The schedule.

    def prepare(self):
        data = Data(self.folder / "data", self.rng)
        self.feeds = feeds = data.feeds()
        self.config([{"slots": 4, "batch": 4, **feed} for feed in feeds.values()], memory=MEMORY, workers=2, job_linger=2)
        self.begun = self.crowd = time.monotonic()
        self.launch()
        wait_for("the daemon", lambda: self.guard() or self.state == "up", PATIENCE)
        trainer = self.trainer()
        self.references = {}
        while len(self.references) < TEAMS * 3:
            choice = choose(self.rng, feeds)
            if choice not in self.references:
                self.references[choice] = Reference(choice, trainer, data.plan(feeds[choice.feed], choice))
        self.usual, self.usual_memory = self.idle_figures(feeds), self.daemon_memory()
        self.teams = [Team(self, f"team-{number}", random.Random(self.rng.random())) for number in range(TEAMS)]
        self.greedy = [Greedy(self, f"greedy-{number}", random.Random(self.rng.random())) for number in range(GREEDY)]
        intruder = Intruder(self, "intruder", random.Random(self.rng.random()))
        self.players = [rank for team in self.teams for rank in team.ranks] + self.greedy + [intruder]
        self.tools = Tools(self, random.Random(self.rng.random()))

    def idle_figures(self, feeds):
        """What the daemon holds when every feed has been used and nobody is attached."""
        trainer = self.trainer()
        for feed in feeds:
            trainer.attach(feed=feed, job="idle")
            trainer.next(timeout=PATIENCE * 1000)
            trainer.call("detach")
        trainer.close()
        wait_for("nobody attached", lambda: not self.status()["clients"], PATIENCE)
        readings = []
        for _ in range(5):  # the lowest: a connection may be on its way out
            status = self.status()
            readings.append({"descriptors": self.daemon_fds(), "threads": self.daemon_threads(),
                             "memory_used": status["memory_used"]})
            time.sleep(0.1)
        return {key: min(reading[key] for reading in readings) for key in readings[0]}

    def receive(self, seconds):
        by_file = {player.process.process.stdout: player for player in self.players if player.call and not player.cont_at}
        for file in select.select(list(by_file), [], [], seconds)[0]:
            reply = by_file[file].process.take()
            if reply:
                by_file[file].answer(reply)
        for player in self.players:
            if player.overdue():
                raise AssertionError(f"{player} hangs: {player.call}")

    def turn(self):
        self.guard()
        now = time.monotonic()
        for player in self.players:
            player.go_on(now)
        self.receive(0.002)
        self.crowded()
        for team in self.teams:
            team.intruded()
        if self.state == "up" and not self.stopped and self.rng.random() < 0.002:
            self.strike()
        for team in self.teams:
            if self.rng.random() < 0.02:
                team.renew()
        for actor in self.rng.sample(self.players, 4) + [self.tools]:
            actor.act()

    def settle(self):
        """All go on, all calls end, the daemon is there."""
        def settled():
            self.guard()
            for player in self.players:
                player.go_on()
            self.receive(0.002)
            return self.state == "up" and not self.stopped and not any(player.call for player in self.players)
        wait_for("all calls to end", settled, 2 * PATIENCE)

    def say_goodbye(self):
        """Each rank gets two more batches, then it detaches or is killed."""
        for player in self.players:
            if player.process and not isinstance(player, Rank):
                player.kill()
        for rank in (rank for team in self.teams for rank in team.ranks if rank.attached):
            for _ in range(2):
                for handle in list(rank.held):
                    rank.send("release", handle=handle)
                    self.settle()
                if rank.attached and rank.place[0] < EPOCHS:
                    rank.send("next", timeout=PATIENCE * 1000, patience=PATIENCE)
                    self.settle()
        for player in self.players:
            if player.process:
                self.rng.choice([player.kill, player.process.close])()

    def nothing_is_left(self):
        wait_for("nobody attached", lambda: not self.status()["clients"], PATIENCE)
        figures = {}

        def as_usual():
            figures.update(self.idle_figures(self.feeds))
            return figures == self.usual
        try:
            wait_for("the usual figures", as_usual, 20, every=0.5)
        except AssertionError:
            raise AssertionError(f"left behind: {figures}, usual is {self.usual}") from None
        self.assertFalse([name for name in self.daemon_files() if "memfd:" in name])
        if not SANITIZE:
            self.assertLess(self.daemon_memory() - self.usual_memory, 16 << 20)

    def daemon_files(self):
        folder = pathlib.Path(f"/proc/{self.daemon.pid}/fd")
        return [os.readlink(file) for file in folder.iterdir()]

    def report_counts(self):
        for what, count in sorted(self.counts.items(), key=str):
            print(f"{count:8} {' '.join(map(str, what))}")

    def report(self):
        print(f"DATALOADD_SEED={SEED}", *self.events, sep="\n")
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run([str(CTL), "--socket", str(self.socket), "status"], capture_output=True, text=True, timeout=10 * SLACK)
                print(done.stdout, done.stderr)
        if self.daemon:
            print(self.log(), flush=True)

    def test_schedule(self):
        before = {folder: set(os.listdir(folder)) for folder in ("/dev/shm", "/tmp")}
        try:
            self.prepare()
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                self.turn()
            self.settle()
            self.say_goodbye()
            self.nothing_is_left()
            self.stop_daemon(seconds=STOP_SECONDS)
        except BaseException:
            self.report()
            raise
        self.report_counts()
        self.assertFalse(self.socket.exists())
        self.assertEqual([file for file in self.scratch.iterdir() if not file.name.startswith("tsan.")], [])
        for folder, names in before.items():
            self.assertEqual([name for name in set(os.listdir(folder)) - names if "dataload" in name], [])


main()
