"""pin_workers: each decode thread on one CPU of those that the daemon may use; status, log and threads agree."""
from harness import *


class Pinned(Case):
    def serve(self, cpus, **top):
        write_shards(self.folder / "data", shards=1, records=8)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4}, **top)
        self.start_daemon(prefix=["taskset", "-c", ",".join(map(str, cpus))])
        trainer = self.trainer()
        trainer.attach()
        self.assertEqual(trainer.next()["rc"], 0)

    def masks(self):
        """CPUs of each decode thread, once all have begun."""
        def of(task):
            return (task / "comm").read_text().strip(), sorted(os.sched_getaffinity(int(task.name)))
        tasks = [of(task) for task in pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir()]
        return [cpus for name, cpus in sorted(tasks) if name.startswith("decode-")]

    def test_within_the_mask(self):
        cpus = sorted(os.sched_getaffinity(0))[-1:]
        self.serve(cpus, workers=3, pin_workers=True)
        wait_for("pinned threads", lambda: self.masks() == [cpus] * 3)
        self.assertEqual(self.status()["worker_cpus"], str(cpus[0]))
        self.assertIn(f"3 workers on CPUs {cpus[0]}", self.ctl("status").stdout)
        self.assertIn(f"3 workers on CPUs {cpus[0]}", self.log())

    def test_one_each(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        self.serve(cpus, workers=len(cpus), pin_workers=True)
        wait_for("pinned threads", lambda: sorted(self.masks()) == [[cpu] for cpu in cpus])

    def test_not_unless_asked(self):
        cpus = sorted(os.sched_getaffinity(0))
        self.serve(cpus, workers=2)
        self.assertEqual(self.masks(), [cpus] * 2)
        self.assertEqual(self.status()["worker_cpus"], "")
        self.assertNotIn("on CPUs", self.ctl("status").stdout)


main()
