"""S10: a stopped trainer stalls only itself and goes on with its next batch."""
import signal
import time

from harness import *

PAUSE = 60 if LONG else 3


class Stopped(Case):
    def test_stop_and_continue(self):
        write_shards(self.folder / "data", shards=4, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64})
        self.start_daemon()
        reference = self.trainer()
        reference.attach(job="reference")
        want = reference.run(epochs=1, print=2)
        a, b = self.trainer(), self.trainer()
        a.attach(job="a")
        b.attach(job="b")
        got = a.run(batches=10, print=2)
        a.kill(signal.SIGSTOP)
        end = time.monotonic() + PAUSE
        while time.monotonic() < end:
            b.run(batches=20, print=0)
        status = self.client_status(a.pid)
        self.assertIsNotNone(status)  # not dropped
        self.assertGreater(status["idle_s"], PAUSE * 0.8)
        a.kill(signal.SIGCONT)
        got += a.run(epochs=1, print=2)
        key = lambda line: (line["epoch"], line["step"], line["index"], line["image"])
        self.assertEqual([key(line) for line in got], [key(line) for line in want])


main()
