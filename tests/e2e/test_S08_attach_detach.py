"""S08: attach and detach for ever: no descriptor, thread, slot or claim is left; too many clients are refused."""
from harness import *

CYCLES = 10000 if LONG else 60 if SANITIZE else 400


class Cycles(Case):
    def test_cycles(self):
        write_shards(self.folder / "data", shards=1, records=16)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2, "shuffle": 4})
        self.start_daemon()
        trainer = self.trainer()

        def cycle(count):
            for _ in range(count):
                trainer.attach(slots=SLOTS_MIN, job="cycle", rank=0, world=1)
                trainer.next()
                trainer.call("detach")

        cycle(20)
        wait_for("quiet", lambda: not self.status()["clients"])
        used = self.status()["memory_used"]
        fds, threads, memory = self.daemon_fds(), self.daemon_threads(), self.daemon_memory()
        cycle(CYCLES)
        wait_for("quiet", lambda: not self.status()["clients"])
        wait_for("descriptors back", lambda: abs(self.daemon_fds() - fds) <= 2, 5)
        self.assertEqual(self.daemon_threads(), threads)
        if not SANITIZE:
            self.assertLess(self.daemon_memory() - memory, 8 << 20)
        self.assertEqual(self.status()["memory_used"], used)

    def test_many_at_once(self):
        many = 40 if SANITIZE or CUDA else 200  # the stand-in looks at all processes for each allocation
        write_shards(self.folder / "data", shards=1, records=400)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 1, "shuffle": 64, "slots": SLOTS_MIN}, clients=many)
        self.start_daemon()
        trainers = [self.trainer() for _ in range(many - 1)]  # one place is left for dataloadctl
        for rank, trainer in enumerate(trainers):
            trainer.send("attach", feed="feed", job="many", rank=rank, world=many - 1)
        self.assertEqual({trainer.receive()["rc"] for trainer in trainers}, {0})
        self.assertEqual(len(self.status()["clients"]), many - 1)
        last = self.trainer()
        last.attach(job="last")
        refused = self.trainer().call("attach", feed="feed", job="one-too-many")
        self.assertLess(refused["rc"], 0)
        self.assertIn(str(many), refused["error"])


main()
