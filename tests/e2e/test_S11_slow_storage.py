"""S11: storage that blocks: a time-out and not an error, status names the shard, control answers, then it goes on."""
import os
import re
import time

from harness import *


class Slow(Case):
    def test_reads_blocked(self):
        write_shards(self.folder / "data", shards=2, records=50)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "shuffle": 16})
        self.start_daemon(env={"DATALOADD_TEST_DELAY": "read:4000"})
        trainer = self.trainer()
        trainer.attach()
        start = time.monotonic()
        reply = trainer.call("next", timeout=1000)
        self.assertEqual(reply["rc"], -110, reply)  # ETIMEDOUT
        self.assertGreater(time.monotonic() - start, 0.9)
        trainer.send("next", timeout=60000)
        waiting = wait_for("the wait to be seen", lambda: next(
            (c for c in self.status()["clients"] if c["pid"] == trainer.pid and "data-0000" in c["reason"]), None))
        self.assertIn("storage", waiting["reason"])
        self.assertEqual(waiting["last_cause"], "storage")  # of the stall that lasts, the first one
        start = time.monotonic()
        self.ctl("ping")
        self.assertLess(time.monotonic() - start, SLACK)  # tenfold margin
        self.assertEqual(trainer.receive()["step"], 0)
        self.assertEqual(trainer.next(timeout=60000)["step"], 1)

    def hang(self):
        """A daemon whose reads hang, many at a time, after a few batches; the file that holds them."""
        hold = self.folder / "hold"
        (self.folder / "data").mkdir()
        for shard in range(4):
            write_tar(self.folder / f"data/data-{shard}.tar", [(f"{shard}-{i:02d}.bin", bytes(1_000_000)) for i in range(16)])
        fields = [{"name": "raw", "from": ["bin"], "kind": "bytes"}]
        self.config({"source": str(self.folder / "data/*.tar"), "fields": fields, "batch": 2, "shuffle": 8, "lanes": 4})
        self.start_daemon(env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_MS": "2",
                               "SLOW_STORAGE_HANG": str(hold)})
        trainer = self.trainer()
        trainer.attach()
        trainer.run(batches=4, print=0)
        hold.touch()
        trainer.send("run", batches=60, print=0, timeout=60000)

        def named():
            if select.select([trainer.process.stdout], [], [], 0)[0]:
                raise AssertionError(f"the trainer does not wait: {trainer.take()}")
            clients = self.status()["clients"]
            self.assertEqual([client["pid"] for client in clients], [trainer.pid])
            return re.search("storage for .*data-", clients[0]["reason"])

        wait_for("the wait to be seen", named)
        return hold, trainer

    @unittest.skipIf(SANITIZE, "a preloaded library and a sanitizer do not get along")
    def test_end_while_many_reads_hang(self):
        self.hang()
        names = [pathlib.Path(f"/proc/{self.daemon.pid}/task/{task}/comm").read_text().strip()
                 for task in os.listdir(f"/proc/{self.daemon.pid}/task")]
        self.assertGreater(names.count("storage"), 1)
        start = time.monotonic()
        self.stop_daemon()
        self.assertLess(time.monotonic() - start, 5.5 * SLACK)

    @unittest.skipIf(SANITIZE, "a preloaded library and a sanitizer do not get along")
    def test_goes_on_after_many_reads_hung(self):
        hold, trainer = self.hang()
        hold.unlink()
        done = trainer.results()[-1]
        self.assertEqual((done["rc"], done["batches"]), (0, 60))


main()
