"""S01: slots do not depend on the size of /dev/shm, and what does not fit is refused in numbers."""
import subprocess

from harness import *

BATCHES = 50 if LONG else 12


class ShmIsSmall(Case):
    def test_runs_with_small_and_full_dev_shm(self):
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
            self.skipTest("no mount namespace can be made here")
        write_shards(self.folder / "data", shards=4, records=128)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 256, "shuffle": 64})
        script = "mount -t tmpfs -o size=64M none /dev/shm && head -c 63M /dev/zero >/dev/shm/full; exec \"$@\""
        self.start_daemon(prefix=["unshare", "-m", "sh", "-c", script, "sh"])
        trainer = self.trainer()
        trainer.attach(slots=4)
        lines = trainer.run(batches=BATCHES, print=1)
        self.assertEqual([line["rows"] for line in lines], [256] * BATCHES)

    def test_refused_with_numbers(self):
        write_shards(self.folder / "data", shards=1, records=64)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 512, "shuffle": 8}, memory="128MiB")
        self.start_daemon()
        trainer = self.trainer()
        reply = trainer.call("attach", feed="feed", slots=8)
        self.assertLess(reply["rc"], 0)
        self.assertRegex(reply["error"], r"[0-9.]+ ?MB|[0-9]+ bytes")
        self.assertIn("memory", reply["error"])
        self.assertEqual(trainer.attach(slots=SLOTS_MIN, batch=16)["batch"], 16)  # what fits is served
        self.assertEqual(trainer.next()["rows"], 16)


main()
