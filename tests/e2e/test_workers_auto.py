"""workers: auto. What trainers ask for decides how many workers there are, and nothing of the output depends on it; a cgroup
without CPU time is told from slow decoding."""
from harness import *

CEILING = 8


class Auto(Case):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "data", shards=4, records=60)

    def serve(self, delay="decode:15000", **top):
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "slots": 4, "shuffle": 48, "seed": 3, "transform": "train"}, **top)
        self.start_daemon(env={"DATALOADD_TEST_DELAY": delay})

    def workers(self, number):
        """Waits until there are so many."""
        wait_for(f"{number} workers", lambda: self.status()["workers"] == number, every=0.2)

    def changes(self):
        return [line.split("notice: ")[1] for line in self.log().splitlines() if "notice: workers " in line]

    def test_follows_the_trainer(self):
        self.serve(workers_max=CEILING)
        status = self.status()
        self.assertEqual((status["workers"], status["workers_max"]), (1, CEILING))
        trainer = self.trainer()
        trainer.attach()
        self.assertEqual(self.status()["workers"], CEILING)  # what it needs is not known
        trainer.send("run", print=0, batches=15, sleep_us=400_000)  # 20 rows/s, which a worker can do thrice
        wait_for("fewer workers", lambda: self.status()["workers"] <= 2, every=0.2)
        self.assertIn("the trainers could take", self.status()["workers_why"])
        trainer.results()
        trainer.send("run", print=0)  # as many as there are
        self.workers(CEILING)
        trainer.kill()
        self.workers(1)
        found = self.changes()
        self.assertIn(f"workers 1 -> {CEILING}: what a new client needs is not known yet", found)
        self.assertLess(len(found), 30)  # one line a change, and not a change a second
        self.assertRegex(self.ctl("status").stdout, rf"\nworkers: 1 of up to {CEILING}: ")

    def rows(self, slow_us, **top):
        """All that a trainer gets which is slow now and then."""
        self.serve(**top)
        trainer, lines = self.trainer(), []
        trainer.attach(job="run")
        for sleep_us in (slow_us, 0) * 2:
            lines += trainer.run(batches=15, sleep_us=sleep_us, print=3)
        self.stop_all()
        self.trainers.clear()
        return [(line["epoch"], line["step"], line["token"], line["index"], line["label"], line["image"]) for line in lines]

    def test_the_output_does_not_depend_on_it(self):
        want = self.rows(0, delay="decode:100", workers=2)
        self.assertEqual(self.rows(250_000, workers_max=CEILING), want)
        self.assertGreater(len(self.changes()), 1)

    def test_a_number_stays(self):
        self.serve(delay="decode:100", workers=2)
        trainer = self.trainer()
        trainer.attach()
        trainer.send("run", print=0, epochs=4)
        trainer.results()
        status = self.status()
        self.assertEqual((status["workers"], status["workers_max"], status["workers_why"]), (2, 2, ""))
        self.assertEqual(self.changes(), [])


def cgroup_with_quota(pid, quota_us):
    """A cgroup for this process with so much CPU time of each 100 ms, or the test is skipped."""
    for root, name, text in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", f"{quota_us}"),
                             ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", f"{quota_us}"),
                             ("/sys/fs/cgroup", "cpu.max", f"{quota_us} 100000")):
        folder = pathlib.Path(root) / f"dataloadd-test-{pid}"
        try:
            folder.mkdir()
            (folder / name).write_text(text)
            (folder / "cgroup.procs").write_text(str(pid))
            return folder
        except OSError:
            if folder.is_dir():
                folder.rmdir()
    raise unittest.SkipTest("no cgroup with a quota of CPU time can be made here")


class Throttled(Case):
    def test_a_quota_is_the_cause(self):
        write_shards(self.folder / "data", shards=2, records=40, width=640, height=480)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "transform": "train"}, workers=2)
        self.start_daemon()
        self.assertEqual(self.status()["throttled_share"], 0)
        self.addCleanup(lambda: wait_for("the end of the cgroup", lambda: not folder.rmdir()))
        folder = cgroup_with_quota(self.daemon.pid, 5000)
        self.addCleanup(self.stop_all)  # first
        trainer = self.trainer()
        trainer.attach()
        trainer.send("run", print=0, timeout=600_000)

        def throttled():
            status = self.status()
            client = next((c for c in status["clients"] if c["pid"] == trainer.pid), {})
            return status["throttled_share"] > 0.1 and client.get("last_cause") == "throttled"

        wait_for("stalls of a throttled daemon", throttled, every=0.2)
        self.assertIn("throttled: the CPU quota of a cgroup kept", self.ctl("status").stdout)


main()
