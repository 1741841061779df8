"""dataloadctl replay and measure: batches served again to running trainers, the epoch undisturbed."""
import contextlib
import threading

from harness import *

WORLD = 4
RECORDS = 2 * 26
BATCH = 2
STEPS = 7  # RECORDS in batches of 2 on 4 ranks, wrapped
ENDED = 1  # rc of next
AHEAD = 8


class Loop(threading.Thread):
    """A trainer that takes batches until it is told to stop, at its pace, holding some while it takes the next; no further
    ahead of the others than ranks are that train together."""

    def __init__(self, trainer, others, pause=0.0, keep=0):
        super().__init__(daemon=True)
        self.trainer, self.others, self.pause, self.keep = trainer, others, pause, keep
        self.turns = 0
        self.steps, self.replays, self.held = [], [], []  # (epoch, step, index); the number of steps before each replay
        self.ending = threading.Event()
        self.error = None

    def run(self):
        try:
            while not self.ending.is_set():
                if self.turns > AHEAD + min(loop.turns for loop in self.others if loop.is_alive()):
                    time.sleep(0.001)
                else:
                    self.turn()
        except Exception as error:  # of a trainer that is killed
            self.error = error

    def turn(self):
        batch = self.trainer.call("next", timeout=100, token=1)
        if batch["rc"] in (ENDED, -110):
            return
        if batch["rc"]:
            raise AssertionError(f"next: {batch}")
        if "replay" in batch:
            if "token" in batch:
                raise AssertionError("a batch that is served again has a token")
            self.replays.append(len(self.steps))
        else:
            self.steps.append((batch["epoch"], batch["step"], tuple(batch["index"])))
        self.turns += 1
        self.held.append(batch["handle"])
        time.sleep(self.pause)
        if len(self.held) > self.keep:
            self.trainer.call("release", handle=self.held.pop(0))

    def end(self):
        self.ending.set()
        self.join()
        if self.error:
            raise self.error


class Replay(Case):
    def write_labels(self):
        (self.folder / "data").mkdir()
        for shard in range(2):
            numbers = range(shard * RECORDS // 2, (shard + 1) * RECORDS // 2)
            write_tar(self.folder / f"data/{shard}.tar", [(f"{n:04d}.cls", str(n).encode()) for n in numbers])

    def begin(self, slots=4, loops=None, **feed):
        self.write_labels()
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "shuffle": 16, "lanes": 4, "slots": slots,
                     "fields": [{"name": "label", "from": "cls", "kind": "int"}], **feed})
        self.start_daemon()
        self.loops = []
        for rank in range(WORLD):
            trainer = self.trainer()
            trainer.attach(job="j", rank=rank, world=WORLD, allow_replay=1)
            self.loops.append(Loop(trainer, self.loops, **(loops or [{}] * WORLD)[rank]))
        for loop in self.loops:
            loop.start()
        self.addCleanup(lambda: [loop.ending.set() for loop in self.loops])

    def go_on(self, loops, steps):
        at = [len(loop.steps) for loop in loops]
        wait_for(f"{steps} more steps", lambda: all(loop.error or len(loop.steps) >= n + steps for loop, n in zip(loops, at)))

    def check_order(self, loop, rank):
        """As a rank of a job that nobody has disturbed, from the start on."""
        alone = self.trainer()
        alone.attach(job="k", rank=rank, world=WORLD)
        wanted = [(b["epoch"], b["step"], tuple(b["index"])) for b in alone.run(print=2, batches=len(loop.steps))]
        alone.close()
        self.assertEqual(loop.steps, wanted)

    def check_epochs(self):
        """Each record is seen in each epoch that all have done."""
        for epoch in range(min(loop.steps[-1][0] for loop in self.loops)):
            seen = {i for loop in self.loops for e, _, index in loop.steps if e == epoch for i in index}
            self.assertEqual(seen, set(range(RECORDS)))

    def test_all_ranks_have_as_many(self):
        self.begin(slots=SLOTS_MIN, loops=[{}, {"pause": 0.002}, {"keep": 1}, {"pause": 0.005, "keep": 1}])
        self.go_on(self.loops, 5)
        for _ in range(3):
            before = [len(loop.replays) for loop in self.loops]
            reply = json.loads(self.ctl("replay", "j", "--seconds", "0.3", "--json").stdout)
            counts = [rank["batches"] for rank in reply["ranks"]]
            self.assertEqual([rank["rank"] for rank in reply["ranks"]], list(range(WORLD)))
            self.assertEqual(len(set(counts)), 1, reply)
            self.assertGreater(counts[0], 0)
            self.assertTrue(all(rank["compute_samples_per_s"] > 0 for rank in reply["ranks"]), reply)
            wait_for("the last of them", lambda: all(len(loop.replays) == n + counts[0] for loop, n in zip(self.loops, before)))
            place = reply["epoch"] * STEPS + reply["step"]
            for loop, n in zip(self.loops, before):
                self.assertEqual(set(loop.replays[n:]), {place})
            self.go_on(self.loops, 3)
        self.go_on(self.loops, 2 * STEPS)
        for rank, loop in enumerate(self.loops):
            loop.end()
            stats = loop.trainer.call("stats")
            self.assertEqual((stats["replayed"], stats["batches"]), (len(loop.replays), len(loop.steps)))
            client = self.client_status(loop.trainer.pid)
            if client:  # not in a PID namespace of its own
                self.assertEqual((client["batches"], client["replaying"], client["allow_replay"]), (len(loop.steps), False, True))
            self.check_order(loop, rank)
        self.check_epochs()

    def replay_meanwhile(self, *arguments):
        done = {}

        def ask():
            done["ctl"] = self.ctl("replay", "j", *arguments, check=False)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        wait_for("the replay", lambda: all(len(loop.replays) > 8 for loop in self.loops))
        return thread, done

    def kill(self, loop):
        """Its thread may have been writing to it."""
        loop.trainer.kill()
        loop.join()
        self.trainers.remove(loop.trainer)
        with contextlib.suppress(BrokenPipeError):
            loop.trainer.close()
        loop.trainer.process.stdout.close()

    def test_a_rank_is_killed(self):
        self.begin()
        thread, done = self.replay_meanwhile("--seconds", "600")
        self.assertIn("replay before epoch", str(self.status()["clients"]))
        second = self.ctl("replay", "j", check=False)
        self.assertEqual(second.returncode, 69)
        self.assertIn("has a replay already", second.stderr)
        self.kill(self.loops[0])
        thread.join()
        self.assertEqual(done["ctl"].returncode, 69)
        self.assertIn("rank 0 (pid", done["ctl"].stderr)
        self.assertIn("has left", done["ctl"].stderr)
        rest = self.loops[1:]
        self.go_on(rest, 2 * STEPS)
        for rank, loop in enumerate(rest, 1):
            loop.end()
            self.assertEqual(loop.replays, rest[0].replays)
            self.check_order(loop, rank)

    def test_whoever_asked_is_killed(self):
        self.begin()
        ctl = subprocess.Popen([str(CTL), "--socket", str(self.socket), "replay", "j", "--seconds", "600"], stderr=subprocess.DEVNULL)
        wait_for("the replay", lambda: all(len(loop.replays) > 8 for loop in self.loops))
        ctl.kill()
        ctl.wait()
        self.go_on(self.loops, STEPS)
        for rank, loop in enumerate(self.loops):
            loop.end()
            self.assertEqual(loop.replays, self.loops[0].replays)
            self.check_order(loop, rank)

    def test_the_daemon_ends_and_comes_back(self):
        self.begin()
        thread, done = self.replay_meanwhile("--seconds", "600")
        self.stop_daemon()
        thread.join()
        self.assertEqual(done["ctl"].returncode, 69)
        self.start_daemon()
        self.go_on(self.loops, STEPS)
        for rank, loop in enumerate(self.loops):
            loop.end()
            self.check_order(loop, rank)
        self.check_epochs()

    def test_an_epoch_is_chosen(self):
        self.begin()
        thread, done = self.replay_meanwhile("--seconds", "600")
        for loop in self.loops:
            loop.end()
        self.loops[0].trainer.call("seek", epoch=9)
        batch = self.loops[0].trainer.next()
        self.assertEqual((batch["epoch"], batch["step"], batch.get("replay")), (9, 0, None))
        thread.join()
        self.assertIn("has chosen another epoch", done["ctl"].stderr)

    def test_refusals(self):
        self.write_labels()
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH,
                     "fields": [{"name": "label", "from": "cls", "kind": "int"}]})
        self.start_daemon()
        one = self.trainer()
        one.attach(job="j", rank=0, world=2)

        def refused(code, words, *arguments):
            done = self.ctl("replay", *arguments, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)

        refused(4, "no trainer of a job k runs here; there are: j", "k")
        refused(64, "1 of the 2 ranks of job j are here", "j")
        refused(69, "have not allowed it", "j", "--epoch", "0", "--step", "9", "--batches", "5")
        refused(64, "needs the name of a job")
        measured = json.loads(self.ctl("measure", "j", "--json").stdout)
        self.assertEqual((measured["ranks"], measured["world"], measured["compute_by"], measured["input_by"]), (1, 2, "clocks", "figures"))
        self.assertEqual(self.ctl("measure", "k", check=False).returncode, 4)

    def test_a_group_is_refused(self):
        self.write_labels()
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "share": "mirror",
                     "fields": [{"name": "label", "from": "cls", "kind": "int"}]})
        self.start_daemon()
        member = self.trainer()
        member.attach(job="j", group="g", allow_replay=1)
        for name in ("j", "g"):
            done = self.ctl("replay", name, check=False)
            self.assertIn("g is a group of a mirror feed", done.stderr)
            self.assertNotEqual(done.returncode, 0)

    def test_measure(self):
        self.begin(loops=[{"pause": 0.002}] * WORLD)
        self.go_on(self.loops, 5)
        measured = json.loads(self.ctl("measure", "j", "--seconds", "1", "--json").stdout)
        self.assertEqual((measured["compute_by"], measured["ranks"], measured["feed"]), ("replay", WORLD, "feed"), measured)
        self.assertGreater(measured["compute_samples_per_s"], 0)
        self.assertGreater(measured["input_samples_per_s"], 0)
        self.assertIn(measured["limit"], ("trainer", "input", "both"))
        text = self.ctl("measure", "j", "--seconds", "0.3").stdout
        for words in ("compute only", "input only", "real run", " x what the trainers"):
            self.assertIn(words, text)
        for rank, loop in enumerate(self.loops):
            loop.end()
            self.assertEqual(len(loop.replays), len(self.loops[0].replays))
            self.check_order(loop, rank)


main()
