"""S14: a rank claimed twice is refused with the holder's pid; so are foreign ranks, worlds, batches and seeds."""
from harness import *


class Claims(Case):
    def test_claims(self):
        write_shards(self.folder / "data", shards=2, records=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4})
        self.start_daemon()
        first = self.trainer()
        first.attach(job="j", rank=0, world=2)
        second = self.trainer()

        def refused(*words, **options):
            reply = second.call("attach", feed="feed", job="j", **options)
            self.assertLess(reply["rc"], 0, options)
            for word in words:
                self.assertIn(str(word), reply["error"])

        refused(first.pid, "0", rank=0, world=2)
        refused("2", rank=2, world=2)
        refused("2", "3", rank=1, world=3)
        refused("4", "8", rank=1, world=2, batch=8)
        refused("seed", "5", rank=1, world=2, seed=5)
        refused("rank", world=2)  # a rank may be left out only where the world is too
        self.assertEqual(second.attach(job="j", rank=1, world=2)["rank"], 1)

    def test_rank_left_out(self):
        write_shards(self.folder / "data", shards=2, records=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4})
        self.start_daemon()
        one, two = self.trainer(), self.trainer()
        self.assertEqual(one.attach(job="k")["world"], 1)
        reply = two.call("attach", feed="feed", job="k")
        self.assertLess(reply["rc"], 0)
        self.assertIn(str(one.pid), reply["error"])

    def test_default_jobs(self):
        write_shards(self.folder / "data", shards=2, records=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4})
        self.start_daemon()
        clean = {key: "" for key in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")}
        one, two = self.trainer(env=clean), self.trainer(env=clean)
        self.assertNotEqual(one.attach()["job"], two.attach()["job"])  # unique to the process
        three = self.trainer(env=clean)
        self.assertEqual(three.attach(rank=0, world=2)["job"], "default")
        slurm = self.trainer(env={"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "1"})
        self.assertIn("77", slurm.attach()["job"])


main()
