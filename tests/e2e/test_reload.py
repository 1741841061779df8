"""The configuration read again under running trainers: feeds come, change and go, limits move, a wrong file changes nothing."""
import socket

from harness import *

EPOCH_END, NO_FEED, DENIED, USERS = 1, -2, -13, -87
CONFIG, PERMISSION = 78, 77
OTHER = 61006


class Reload(Case):
    def serve(self, *feeds, env=None, **top):
        write_shards(self.folder / "data", shards=2, records=32)
        self.write(*feeds, **top)
        self.start_daemon(env=env)

    def write(self, *feeds, **top):
        base = {"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16, "seed": 7}
        self.config([{**base, **feed} for feed in feeds or [{}]], **{"workers": 1, "memory": "128MiB", **top})

    def reload(self, *feeds, **top):
        self.write(*feeds, **top)
        return json.loads(self.ctl("reload", "--json").stdout)["notes"]

    def attached(self, feed="feed", **options):
        trainer = self.trainer()
        trainer.reply = trainer.attach(feed, **options)
        return trainer

    def feeds(self):
        return {feed["name"] for feed in json.loads(self.ctl("feeds", "--json").stdout)["feeds"]}

    def rows(self, trainer, count):
        """Labels of the next batches, all of them given back."""
        rows = []
        while len(rows) < count:
            line = trainer.call("next")
            if line["rc"] == EPOCH_END:
                continue
            self.assertEqual(line["rc"], 0, line)
            rows.append(line["label"])
            self.assertEqual(trainer.call("release", handle=line["handle"])["rc"], 0)
        return rows

    def test_a_feed_is_added(self):
        self.serve()
        trainer = self.attached(job="train")
        self.assertEqual(self.reload({}, {"name": "second", "batch": 8}), [])
        self.assertEqual(self.feeds(), {"feed", "second"})
        self.assertEqual(self.attached("second").reply["batch"], 8)
        self.assertEqual(len(self.rows(trainer, 20)), 20)
        self.assertIn("feed second is added", self.log())
        self.assertNotIn("feed feed has changed", self.log())

    def test_a_changed_feed_is_for_new_jobs(self):
        self.serve()
        whole = self.rows(self.attached(job="reference"), 16)
        trainer = self.attached(job="train", rank=0, world=2)
        self.reload({"seed": 8, "batch": 2, "slots": 6, "shuffle": 64})
        other = self.attached(job="train", rank=1, world=2)  # of the same job: as that has begun
        self.assertEqual((other.reply["plan_id"], other.reply["batch"], other.reply["slots"]),
                         (trainer.reply["plan_id"], 4, 4))
        new = self.attached(job="new")
        self.assertEqual((new.reply["batch"], new.reply["seed"], new.reply["slots"]), (2, 8, 6))
        self.assertNotEqual(new.reply["plan_id"], trainer.reply["plan_id"])
        self.assertEqual(len(self.rows(trainer, 12)), 12)
        self.reload({})
        self.assertEqual(self.rows(self.attached(job="third"), 16), whole)

    def test_a_job_that_lingers_goes_on_as_it_was(self):
        self.serve()
        whole = self.rows(self.attached(job="whole"), 10)
        trainer = self.attached(job="train")
        first = self.rows(trainer, 4)
        trainer.call("detach")
        self.reload({"seed": 8})
        later = self.attached(job="train", resume="last")
        self.assertEqual(first + self.rows(later, 6), whole)

    def test_a_removed_feed(self):
        self.serve({}, {"name": "second"})
        trainer = self.attached("second", job="train", rank=0, world=2)
        self.reload({})
        self.assertEqual(self.feeds(), {"feed"})
        self.assertEqual(self.trainer().attach("second", job="new", expect=NO_FEED)["rc"], NO_FEED)
        self.attached("second", job="train", rank=1, world=2)
        self.assertEqual(len(self.rows(trainer, 20)), 20)
        shown = {feed["name"]: feed["notes"] for feed in self.status()["feeds"]}
        self.assertIn("no longer configured", shown["second"][0])
        for process in self.trainers:
            process.kill()
        wait_for("it to be gone", lambda: {feed["name"] for feed in self.status()["feeds"]} == {"feed"})
        self.reload({}, {"name": "second"})
        self.attached("second", job="new").next()

    def test_a_wrong_file_changes_nothing(self):
        self.serve()
        trainer = self.attached(job="train")
        path = self.folder / "dataloadd.yaml"
        good = path.read_text()
        path.write_text('workers: 1\nfeeds:\n  - { name: feed, source: "/x/*.tar", batch: none }\n')
        done = self.ctl("reload", check=False)
        self.assertEqual(done.returncode, CONFIG, done)
        for text in (done.stderr, self.status()["notes"][0], self.ctl("status").stdout, self.log()):
            self.assertIn("kept: ", text)
            self.assertIn(f"{path}:3:", text)
        found = json.loads(self.ctl("check", "--json", check=False).stdout)["findings"]
        self.assertIn("kept: ", next(it["text"] for it in found if it["check"] == "configuration"))
        path.unlink()
        self.daemon.send_signal(signal.SIGHUP)
        wait_for("the other reason", lambda: "No such file" in self.status()["notes"][0])
        self.assertEqual(len(self.rows(trainer, 4)), 4)
        self.attached(job="new").next()
        path.write_text(good)
        self.assertEqual(json.loads(self.ctl("reload", "--json").stdout)["notes"], [])
        self.assertEqual(self.status()["notes"], [])

    def test_limits_move(self):
        self.serve()
        trainer = self.attached(job="train")
        self.reload(clients=1, memory="256MiB", job_linger=1)
        self.assertEqual(self.status()["memory_limit"], 256 << 20)
        self.assertEqual(self.trainer().attach(job="second", expect=USERS)["rc"], USERS)
        notes = self.reload(clients=2, memory="128MiB")
        self.assertIn("once no client is attached", notes[0])
        self.assertEqual(self.status()["memory_limit"], 256 << 20)
        self.attached(job="second").next()
        trainer.next()
        for process in self.trainers:
            process.kill()
        wait_for("less memory", lambda: self.status()["memory_limit"] == 128 << 20)
        self.assertEqual(self.status()["notes"], [])

    def test_what_has_to_wait_is_said(self):
        self.serve()
        notes = self.reload(workers=2, decode_memory="2MiB", cache={"path": str(self.folder / "other"), "bytes": "64MiB"}, metrics="127.0.0.1:0")
        self.assertEqual([note.split(":")[0] for note in notes], ["workers", "decode_memory", "cache", "metrics"])
        self.assertEqual(self.status()["notes"], notes)
        notes = self.reload(workers="auto", workers_max=2)
        self.assertEqual([note.split(":")[0] for note in notes], ["workers", "workers_max"])
        self.assertEqual(self.reload(), [])

    def test_what_is_told_of_feeds(self):
        """Recordings and series are of the right feeds, whatever there was when the daemon began."""
        self.serve()
        feeds = [{"name": f"more-{number}"} for number in range(20)]
        trainers = [self.attached(job="old")]
        self.reload({"seed": 8}, *feeds)
        trainers.append(self.attached("more-19", job="new"))
        for trainer in trainers:
            trainer.send("run", print=0, sleep_us=5000, reconnect=0)
        wait_for("batches", lambda: all(client["batches"] for client in self.status()["clients"]))
        self.ctl("trace", "--seconds", 0.5, "--out", self.folder / "trace.json")
        events = json.loads((self.folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
        self.assertEqual({event["args"].get("feed", "") for event in events if event["ph"] == "X"} - {""}, {"feed", "more-19"})
        self.reload({"seed": 8}, *feeds[1:])
        slots = [line for line in self.ctl("metrics").stdout.splitlines() if line.startswith('dataload_feed_slots{feed="more-19"')]
        self.assertEqual(sum(int(line.split()[-1]) for line in slots), 4, slots)

    def test_rights_apply_to_new_attaches(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        if CUDA and HANDOFF == "ipc":
            self.skipTest("another user cannot map memory by its handle")
        os.chmod(self.folder, 0o755)
        self.serve({"allow": {"users": [OTHER]}})
        os.chmod(self.socket, 0o666)
        self.trainer(preexec_fn=become(OTHER)).attach()
        self.reload({"allow": {"users": [0]}})
        self.trainer(preexec_fn=become(OTHER)).attach(expect=DENIED)
        done = subprocess.run([str(CTL), "--socket", str(self.socket), "reload"], capture_output=True, text=True,
                              preexec_fn=become(OTHER), timeout=60 * SLACK)
        self.assertEqual(done.returncode, PERMISSION, done)

    def test_many_at_once_under_trainers(self):
        self.serve()
        trainers = [self.attached(job=f"job-{number}") for number in range(3)]
        for trainer in trainers:
            trainer.send("run", epochs=3)
        for number in range(20):
            self.write({"seed": 100 + number}, *([{"name": "second"}] if number % 2 else []))
            self.daemon.send_signal(signal.SIGHUP)
        self.ctl("reload")
        for trainer in trainers:
            lines = trainer.results()
            self.assertEqual(lines[-1]["rc"], 0, lines[-1])
        self.assertEqual(self.feeds(), {"feed", "second"})
        self.assertEqual(self.attached(job="last").reply["seed"], 119)

    def test_the_service_manager_is_told(self):
        notify = self.folder / "notify.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(str(notify))
            self.serve(env={"NOTIFY_SOCKET": str(notify)})
            receiver.settimeout(60)
            self.daemon.send_signal(signal.SIGHUP)
            wait_for("the begin", lambda: b"RELOADING=1\nMONOTONIC_USEC=" in receiver.recv(4096))
            wait_for("the end", lambda: b"READY=1" in receiver.recv(4096))


main()
