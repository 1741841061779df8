"""dataloadctl detach: a job ends for its trainers, who are told by whom, and nothing of it is kept."""
from harness import *

ABORTED, LOST = -103, -104  # ECONNABORTED, ECONNRESET
NOT_FOUND, USAGE, PERMISSION = 4, 64, 77
OTHER = 61003


class Detach(Case):
    def serve(self, env=None, **feed):
        write_shards(self.folder / "data", shards=2, records=32)
        source = {"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16, **feed}
        self.config([source, {**source, "name": "second"}])
        self.start_daemon(env=env)

    def attached(self, feed="feed", **options):
        trainer = self.trainer()
        trainer.attach(feed, **options)
        return trainer

    def detach(self, job, *arguments, expect=0):
        done = self.ctl("detach", "--job", job, *arguments, check=False)
        self.assertEqual(done.returncode, expect, done)
        return done.stdout if expect == 0 else done.stderr

    def left(self, *trainers):
        """Pids of clients that are there still, and not on their way out."""
        return {client["pid"] for client in self.status()["clients"] if client["state"] != "closing"}

    def run_out(self, trainer):
        """The end, after what had been announced."""
        for _ in range(8):
            line = trainer.call("next")
            if line["rc"] < 0:
                return line
            trainer.call("release", handle=line["handle"])
        self.fail("batches have no end")

    def test_of_a_job_all_ranks_are_told(self):
        self.serve()
        ranks = [self.attached(job="train", rank=rank, world=2) for rank in range(2)]
        other = self.attached(job="other")
        self.assertIn("2 clients", self.detach("train"))
        for trainer in ranks:
            end = self.run_out(trainer)
            self.assertEqual(end["rc"], ABORTED, end)
            for word in ("train", "root" if os.geteuid() == 0 else f"uid {os.geteuid()}", "dataloadctl detach"):
                self.assertIn(word, end["error"])
        wait_for("both to be gone", lambda: self.left() == {other.pid})
        other.next()
        self.assertIn("train", self.log())

    def test_nothing_is_kept(self):
        self.serve()
        trainer = self.attached(job="train")
        for _ in range(3):
            trainer.call("release", handle=trainer.next()["handle"])
        trainer.kill()
        wait_for("it to be gone", lambda: not self.status()["clients"])
        self.assertIn("0 clients", self.detach("train"))
        self.assertEqual(self.attached(job="train", resume="last").next()["step"], 0)

    def test_the_name_is_free_at_once(self):
        self.serve()
        first = self.attached(job="train", rank=0, world=1)
        held = first.next()  # keeps it for a moment
        self.detach("train")
        self.assertEqual(self.attached(job="train", rank=0, world=1).next()["step"], 0)
        self.assertEqual(first.call("release", handle=held["handle"])["rc"], 0)
        self.assertEqual(self.run_out(first)["rc"], ABORTED)

    def test_who_gives_nothing_back_is_cut_off(self):
        self.serve()
        trainer = self.attached(job="train")
        trainer.next()
        trainer.next()
        self.detach("train")
        wait_for("its end", lambda: not self.left())
        self.assertEqual(self.run_out(trainer)["rc"], ABORTED)

    def test_while_it_attaches(self):
        if SANITIZE:
            self.skipTest("a preloaded library and a sanitizer do not get along")
        self.serve(env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_MS": "60000"})
        trainer = self.trainer()
        trainer.send("attach", feed="feed", job="train")
        wait_for("the attach", lambda: self.status()["clients"])
        self.assertIn("1 client ", self.detach("train"))
        line = trainer.receive(120)
        self.assertEqual(line["rc"], ABORTED, line)
        wait_for("its end", lambda: not self.left())
        self.stop_daemon(signal.SIGKILL)  # its threads hang

    def test_by_feed_and_by_beginning(self):
        self.serve()
        jobs = [self.attached(job="slurm-7.0"), self.attached(job="slurm-7.1"), self.attached(job="slurm-70.0"),
                self.attached("second", job="slurm-7.0")]
        reply = json.loads(self.ctl("detach", "--json", "--job", "slurm-7.0", "--feed", "second").stdout)
        self.assertEqual((reply["clients"], reply["jobs"]), (1, 1))
        self.assertEqual(self.run_out(jobs[3])["rc"], ABORTED)
        self.assertIn("2 clients", self.detach("slurm-7.*"))
        for trainer in jobs[:2]:
            self.assertEqual(self.run_out(trainer)["rc"], ABORTED)
        for trainer in jobs[:2]:
            self.assertEqual(self.run_out(trainer)["rc"], ABORTED)
        wait_for("both to be gone", lambda: self.left() == {jobs[2].pid})

    def test_a_member_of_a_group(self):
        self.serve(share="mirror")
        members = [self.attached(job=f"run-{number}") for number in range(2)]
        self.detach("run-0")
        self.assertEqual(self.run_out(members[0])["rc"], ABORTED)
        for _ in range(12):
            members[1].call("release", handle=members[1].next()["handle"])

    def test_what_does_not_exist(self):
        self.serve()
        self.assertIn("there is none", self.detach("train", expect=NOT_FOUND))
        self.attached(job="eval")
        self.assertIn("there are: eval", self.detach("train", expect=NOT_FOUND))
        self.detach("eval", "--feed", "second", expect=NOT_FOUND)
        self.detach("no such name", expect=USAGE)
        self.detach("*", expect=USAGE)
        self.assertEqual(self.ctl("detach", check=False).returncode, USAGE)

    def test_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        if CUDA and HANDOFF == "ipc":
            self.skipTest("a handle does not reach another user")
        os.chmod(self.folder, 0o755)
        self.serve()
        os.chmod(self.socket, 0o666)
        trainer = self.attached(job="train")
        done = subprocess.run([str(CTL), "--socket", str(self.socket), "detach", "--job", "train"], capture_output=True,
                              text=True, preexec_fn=become(OTHER), timeout=60 * SLACK)
        self.assertEqual(done.returncode, PERMISSION, done)
        trainer.next()


main()
