"""dataloadctl trace: a file that viewers open, whose events fit together; one at a time; nothing is left of one whose asker has gone."""
from harness import *

THREADS, TRAINERS, SLOTS = 1, 2, 3
U1, U2 = 61001, 61002


class Trace(Case):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "trace.json"

    def serve(self, trainers=2, env=None, **feed):
        write_shards(self.folder / "data", shards=4, records=50)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, **feed}, workers=2)
        self.start_daemon(env=env)
        started = [self.trainer() for _ in range(trainers)]
        for rank, trainer in enumerate(started):
            trainer.attach(job="run", rank=rank, world=trainers)
            trainer.send("run", print=0, sleep_us=5000, reconnect=0)
        return started

    def begin(self):
        """A recording of a minute, under way."""
        used = self.status()["memory_used"]
        asker = subprocess.Popen([str(CTL), "--socket", str(self.socket), "trace", "--seconds", "60", "--out", str(self.file)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for("its memory", lambda: self.status()["memory_used"] >= used + 8 * 2**20)
        return asker

    def abandon(self, asker):
        """The recording goes with its asker."""
        used = self.status()["memory_used"]
        asker.kill()
        asker.communicate()
        wait_for("its memory back", lambda: self.status()["memory_used"] <= used - 8 * 2**20)

    def record(self, seconds=1.0):
        said = json.loads(self.ctl("trace", "--seconds", seconds, "--out", self.file, "--json").stdout)
        self.assertEqual((said["file"], said["schema_version"]), (str(self.file), 1))
        trace = json.loads(self.file.read_text(encoding="utf-8"))
        events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(len(events), said["events"])
        return trace, events, said

    def check_form(self, trace, seconds):
        """What the viewers need."""
        names = {}
        for event in trace["traceEvents"]:
            self.assertIsInstance(event["pid"], int)
            self.assertIsInstance(event["tid"], int)
            self.assertIn(event["ph"], "XMC")
            if event["ph"] == "M":
                names[event["name"], event["pid"], event["tid"] if event["name"] == "thread_name" else 0] = event["args"]["name"]
                continue
            self.assertGreaterEqual(event["ts"], 0)
            self.assertLessEqual(event["ts"], seconds * 1e6 + 1)
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                self.assertLessEqual(event["ts"] + event["dur"], seconds * 1e6 + 1)
                self.assertIn(("thread_name", event["pid"], event["tid"]), names)
                self.assertIn(("process_name", event["pid"], 0), names)
            else:
                self.assertGreaterEqual(event["args"]["batches"], 0)
        return names

    def check_nesting(self, events):
        """Those of one lane lie within each other or apart."""
        lanes = {}
        for event in events:
            lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"], event["name"]))
        for lane, spans in lanes.items():
            open_ends = []
            for begin, minus, name in sorted(spans):
                end = begin - minus
                while open_ends and open_ends[-1][0] <= begin + 0.0011:  # ends of a thousandth of a microsecond each
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1][0] + 0.0011, (lane, name, open_ends))
                open_ends.append((end, name))

    def test_events_fit_together(self):
        trainers = self.serve()
        wait_for("batches", lambda: all(client["batches"] for client in self.status()["clients"]))
        before = self.status()
        trace, events, said = self.record()
        after = self.status()
        names = self.check_form(trace, said["seconds"])
        self.check_nesting(events)
        self.assertGreaterEqual(said["seconds"], 0.99)  # the loop counts in whole milliseconds
        self.assertEqual(said["dropped"], 0)
        seen = {event["name"] for event in events}
        self.assertLessEqual({"read", "storage", "decode", "finish", "filling", "ready", "held", "compute"}, seen)
        self.assertTrue(seen & {"wait", "wait for slot"}, seen)
        if CUDA:
            self.assertIn("copy", seen)
        self.assertEqual({names["process_name", pid, 0] for pid in (THREADS, TRAINERS, SLOTS)}, {"threads", "trainers", "slots"})
        lanes = {name for (kind, pid, _), name in names.items() if kind == "thread_name" and pid == TRAINERS}
        self.assertEqual(lanes, {f"run rank {rank} of 2, pid {trainer.pid}" for rank, trainer in enumerate(trainers)})
        self.assertTrue(any(event["args"].get("shard", "").endswith(".tar") for event in events if event["name"] == "read"))
        self.assertEqual({event["args"]["feed"] for event in events if event["name"] == "decode"}, {"feed"})
        # Each trainer takes one batch after another.
        for tid in {event["tid"] for event in events if event["pid"] == TRAINERS}:
            steps = [event["args"]["step"] for event in events if event["pid"] == TRAINERS and event["tid"] == tid]
            steps = [step for step, before in zip(steps, [None] + steps) if step != before]  # compute, then wait
            self.assertGreater(len(steps), 2)
            self.assertTrue(all(b == a + 1 or b == 0 for a, b in zip(steps, steps[1:])), steps)
        stages = [{stage["name"]: stage for stage in status["feeds"][0].get("stages", [])} for status in (before, after)]
        decoded = sum(event["dur"] for event in events if event["name"] == "decode") / 1e6
        if stages[0]:
            busy = sum(stages[1][name]["busy_s"] - stages[0][name]["busy_s"] for name in ("decode", "augment") if name in stages[0])
            self.assertLessEqual(decoded, busy + 0.01)
        self.assertGreater(decoded, 0)
        self.assertLessEqual(decoded, 2 * said["seconds"])

    def test_one_at_a_time(self):
        self.serve(trainers=1)
        wait_for("batches", lambda: self.status()["clients"][0]["batches"])
        first = self.begin()
        second = self.ctl("trace", "--seconds", 0.1, "--out", self.folder / "other.json", check=False)
        self.assertEqual(second.returncode, 69)
        self.assertIn(f"pid {first.pid}", second.stderr)
        self.abandon(first)
        self.record(0.2)
        last = self.begin()
        self.stop_daemon()
        last.communicate(timeout=60 * SLACK)
        self.assertEqual(last.returncode, 69)

    def test_of_other_peoples_feeds_nothing_is_told(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become other users")
        if CUDA and HANDOFF == "ipc":
            self.skipTest("a handle does not reach another user")
        os.chmod(self.folder, 0o777)
        write_shards(self.folder / "data", shards=2, records=20)
        source = str(self.folder / "data/*.tar")
        self.config([{"name": "closed", "source": source, "batch": 4, "allow": {"users": [U1]}}, {"name": "open", "source": source, "batch": 4}])
        self.start_daemon()
        os.chmod(self.socket, 0o666)
        for feed in ("closed", "open"):
            trainer = self.trainer(preexec_fn=become(U1))
            trainer.attach(feed, job=f"job-of-{feed}")
            trainer.send("run", print=0, sleep_us=2000, reconnect=0)
        for uid, feeds in ((U2, {"open"}), (U1, {"closed", "open"}), (0, {"closed", "open"})):
            file = self.folder / f"{uid}.json"
            done = subprocess.run([str(CTL), "--socket", str(self.socket), "trace", "--seconds", "1", "--out", str(file)],
                                  capture_output=True, text=True, timeout=60 * SLACK, preexec_fn=become(uid))
            self.assertEqual(done.returncode, 0, done.stderr)
            text = file.read_text(encoding="utf-8")
            self.assertEqual({event["args"]["feed"] for event in json.loads(text)["traceEvents"] if event["args"].get("feed")}, feeds)
            self.assertEqual("closed" in text, "closed" in feeds)

    def test_wrong_words(self):
        self.serve(trainers=0)
        for arguments, code in ((["--seconds", 61], 64), (["--seconds", 0], 64), (["--out", "/nowhere/x.json"], 69)):
            done = self.ctl("trace", *arguments, check=False)
            self.assertEqual(done.returncode, code, done)
            self.assertEqual(done.stdout, "")
        self.file.write_text("as it was", encoding="utf-8")
        self.stop_daemon()
        self.assertEqual(self.ctl("trace", "--out", self.file, check=False).returncode, 3)
        self.assertEqual(self.file.read_text(encoding="utf-8"), "as it was")


main()
