"""Feeds that a user gives himself: the trainer opens the shards, so its rights count and the daemon needs none of its own."""
import errno
import os
import resource
import shutil
import signal

from harness import *

U1, U2, DAEMONS = 61001, 61002, 61003
FEED = {"batch": 4, "shuffle": 32, "seed": 7, "transform": [{"random_resized_crop": {"size": 32}}]}


def content(lines):
    return [(line["epoch"], line["step"], line["index"], line["image"], line["label"]) for line in lines]


class OwnFeeds(Case):
    def setUp(self):
        need_root()
        super().setUp()
        os.chmod(self.folder, 0o777)
        write_shards(self.folder / "data", shards=5, records=20)
        shutil.copytree(self.folder / "data", self.folder / "open")  # the same for all
        self.shards = sorted((self.folder / "data").iterdir())
        for path in self.shards:
            os.chown(path, U1, U1)
            os.chmod(path, 0o600)
        self.config({"source": str(self.folder / "open/*.tar"), **FEED}, workers=1)
        self.start()

    def start(self):
        self.start_daemon(preexec_fn=become(DAEMONS))
        os.chmod(self.socket, 0o666)

    def restart(self):
        self.stop_daemon(signal.SIGKILL)
        self.start()

    def user(self, uid=U1, **options):
        return self.trainer(preexec_fn=become(uid, **options))

    def given(self, shards=None, **settings):
        """Words of an attach that gives a feed."""
        path = self.folder / "shards.txt"
        path.write_text("".join(f"{shard}\n" for shard in shards or self.shards), encoding="utf-8")
        return {"feed": None, "recipe": json.dumps({"name": "mine", **FEED, **settings}, separators=(",", ":")), "files": path}

    def ranks(self, world, job, **words):
        """Trainers of a job, and what their attaches said."""
        trainers = [self.user() for _ in range(world)]
        return trainers, [trainer.attach(job=job, rank=rank, world=world, **words) for rank, trainer in enumerate(trainers)]

    def runs(self, world, job, **words):
        trainers, replies = self.ranks(world, job, **words)
        lines = [trainer.run(epochs=2, print=3) for trainer in trainers]
        for trainer in trainers:
            trainer.call("detach")
        return lines, replies

    def test_the_same_as_a_configured_feed(self):
        """Also by two ranks, each of which gives it."""
        unreadable = subprocess.run(["cat", self.shards[0]], capture_output=True, preexec_fn=become(DAEMONS))
        self.assertIn(b"Permission denied", unreadable.stderr)
        for world in (1, 2):
            want, configured = self.runs(world, f"configured-{world}")
            got, own = self.runs(world, f"own-{world}", **self.given())
            self.assertEqual([content(lines) for lines in got], [content(lines) for lines in want])
            for key in ("plan_id", "fingerprint", "records", "steps"):
                self.assertEqual([reply[key] for reply in own], [reply[key] for reply in configured])
            self.assertEqual({reply["feed"] for reply in own}, {f"~{U1}/mine"})

    def test_another_user(self):
        self.user().attach(**self.given())
        other = self.user(U2)
        reply = other.call("attach", feed=f"~{U1}/mine")
        self.assertEqual(reply["rc"], -errno.EACCES, reply)
        self.assertNotIn(str(self.shards[0].parent), reply["error"])
        for verb in (["bad"], ["bad", f"~{U1}/mine"], ["slices", f"~{U1}/mine", "--world", "2"], ["batch", f"~{U1}/mine", "--step", "0"], ["find", f"~{U1}/mine", "000001"]):
            done = subprocess.run([str(CTL), "--socket", str(self.socket), *verb], capture_output=True, text=True, preexec_fn=become(U2))
            self.assertEqual(done.returncode, 0 if verb == ["bad"] else 77, done)
            self.assertNotIn(str(self.shards[0].parent), done.stdout + done.stderr)
        reply = other.call("attach", **self.given())  # nor may he give what he cannot open
        self.assertEqual((reply["rc"], reply["error"]), (-errno.EIO, f"shard {self.shards[0]} cannot be opened: Permission denied: this user has to be able to read it"))

    def test_going_on_with_a_token(self):
        want, _ = self.runs(1, "unbroken", **self.given())
        trainer = self.user()
        trainer.attach(**self.given())
        got = trainer.run(batches=7, print=3)
        trainer.kill()
        trainer = self.user()
        trainer.attach(resume=got[-1]["token"], **self.given())
        got += trainer.run(epochs=2, print=2)
        self.assertEqual([line[2:] for line in content(got)], [line[2:] for line in content(want[0])])  # steps count from the start

    def test_the_daemon_is_killed_under_trainers(self):
        """Once within the first epoch and once in the second: the very next batch, of the same order."""
        want, _ = self.runs(2, "unbroken", **self.given())
        trainers, replies = self.ranks(2, "broken", **self.given())
        got = [[], []]
        for batches in (3, replies[0]["steps"] + 1):
            for rank, trainer in enumerate(trainers):
                got[rank] += trainer.run(batches=batches + rank, print=2)
            self.restart()
        for rank, trainer in enumerate(trainers):
            got[rank] += trainer.run(batches=len(want[rank]) - len(got[rank]), print=2)
            self.assertEqual(trainer.call("stats")["reconnects"], 2)
        self.assertEqual([content(lines) for lines in got], [content(lines) for lines in want])

    def test_a_shard_that_changes_while_the_daemon_is_away(self):
        for change, words in ((lambda path: shutil.copyfile(self.shards[0], path), "has changed since it was given"),
                              (os.unlink, "cannot be opened: No such file or directory")):
            trainer = self.user()
            trainer.attach(**self.given())
            trainer.run(batches=1)
            self.stop_daemon(signal.SIGKILL)
            change(self.shards[3])
            self.start()
            for _ in range(10):  # what was there already may still come
                reply = trainer.call("next", timeout=20000 * SLACK)
                if reply["rc"]:
                    break
            self.assertEqual(reply["rc"], -errno.ESTALE, reply)
            self.assertIn(f"dataloadd has come back, but shard {self.shards[3]} {words}", reply["error"])

    def many(self, count):
        """Shards of one record each."""
        folder = self.folder / "many"
        folder.mkdir()
        for number in range(count):
            write_tar(folder / f"{number:04d}.tar", [(f"{number:04d}.cls", b"7")])
        return sorted(folder.iterdir())

    def test_more_shards_than_files_may_be_open(self):
        labels = self.given(self.many(300), fields=[{"name": "label", "from": "cls", "kind": "int"}], transform="none")
        trainer = self.user(files=20)
        self.assertEqual(trainer.attach(**labels)["records"], 300)
        self.assertEqual(len(trainer.run(epochs=1)), 75)
        self.restart()
        self.assertEqual(len(trainer.run(epochs=1)), 75)
        reply = self.user(files=7).call("attach", **labels)
        self.assertEqual(reply["rc"], -errno.EMFILE, reply)
        self.assertIn("this process may open 7 files, see ulimit -n", reply["error"])

    def test_descriptors_are_given_back(self):
        trainer = self.user()
        held = []
        for number in range(50):
            trainer.attach(job=f"j{number}", **self.given())
            trainer.run(batches=1)
            trainer.call("detach")
            held.append((len(os.listdir(f"/proc/{trainer.pid}/fd")), self.daemon_fds()))
        self.assertEqual({mine for mine, _ in held}, {held[0][0]})
        wait_for("descriptors to be closed", lambda: self.daemon_fds() <= held[0][1], seconds=10)  # jobs that have just ended share the feed


main()
