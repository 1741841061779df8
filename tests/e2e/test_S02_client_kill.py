"""S02: a trainer killed with -9 gives everything back, its rank can be claimed again, nobody else stalls."""
import time

from harness import *


class Killed(Case):
    def test_kill_while_holding_two(self):
        write_shards(self.folder / "data", shards=4, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "shuffle": 64})
        self.start_daemon()
        b = self.trainer()
        b.attach(job="j", rank=1, world=2)
        b.run(batches=5, print=0)
        a = self.trainer()
        a.attach(job="j", rank=0, world=2)
        b.run(batches=5, print=0)
        a.call("detach")
        wait_for("one client", lambda: len(self.status()["clients"]) == 1)
        base_fds = self.daemon_fds()
        used = self.status()["memory_used"]
        a.attach(job="j", rank=0, world=2)
        first = a.next()
        a.next()
        a.kill()
        wait_for("the dead trainer to leave", lambda: self.client_status(a.pid) is None, 2)
        b.send("run", batches=50, print=0)  # B goes on meanwhile
        self.assertEqual(b.results()[-1]["rc"], 0)
        wait_for("descriptors back", lambda: self.daemon_fds() <= base_fds + 1, 2)
        wait_for("memory back", lambda: self.status()["memory_used"] <= used, 2)
        again = self.trainer()
        self.assertEqual(again.attach(job="j", rank=0, world=2)["rank"], 0)
        batch = again.next()  # without a position: the epoch's order from its start
        self.assertEqual((batch["step"], batch["index"], batch["image"]), (0, first["index"], first["image"]))
        self.assertEqual(self.client_status(again.pid)["started"], "again from the start")
        # With a position it goes on there: its own token, or what it had released.
        again.call("release", handle=batch["handle"])
        batch = again.next(token=1)
        again.kill()
        wait_for("the dead trainer to leave", lambda: self.client_status(again.pid) is None, 2)
        for resume, step, word in ((batch["token"], 2, "resumed from token"), ("last", 3, "after its last released"), ("last", 4, "after its last released")):
            trainer = self.trainer()
            trainer.attach(job="j", rank=0, world=2, resume=resume)
            line = trainer.next()
            self.assertEqual(line["step"], step)
            self.assertIn(word, self.client_status(trainer.pid)["started"])
            trainer.call("release", handle=line["handle"])
            trainer.next()  # and is killed while it holds it
            trainer.kill()
            wait_for("the dead trainer to leave", lambda: self.client_status(trainer.pid) is None, 2)


main()
