"""S09: a slow trainer costs a fast one nothing; status tells them apart."""
from harness import *


class Beside(Case):
    def test_fast_keeps_its_order_and_end(self):
        write_shards(self.folder / "data", shards=4, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64})
        self.start_daemon()
        slow, fast = self.trainer(), self.trainer()
        slow.attach(job="slow")
        fast.attach(job="fast")
        slow.send("run", batches=8, sleep_us=1000000, print=0)
        fast.send("run", batches=1000, sleep_us=5000, print=0)

        def apart():
            quick, lazy = self.client_status(fast.pid), self.client_status(slow.pid)
            self.assertLessEqual(lazy["ready"] + lazy["held"], 4)  # its slots
            full = lazy["ready"] + lazy["held"] == 4
            holds = lazy["hold_share"] > 0.5 and lazy["wait_share"] < 0.5
            return full and holds and quick["samples_per_s"] > 10 * lazy["samples_per_s"]

        wait_for("the slow one to be seen as holding all slots, the fast one as faster", apart, 30)
        for trainer in (fast, slow):
            self.assertEqual(trainer.results()[-1]["rc"], 0)


main()
