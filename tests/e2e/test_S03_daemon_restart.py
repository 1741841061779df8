"""S03: a restarted daemon: a named error without reconnecting, the very next batch with it."""
import errno
import signal
import time

from harness import *


class Restart(Case):
    def serve(self):
        write_shards(self.folder / "data", shards=4, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64})
        self.start_daemon()

    def unbroken(self):
        trainer = self.trainer()
        trainer.attach(job="reference")
        lines = trainer.run(epochs=2, print=2)
        trainer.call("detach")
        return [(line["epoch"], line["step"], line["index"], line["image"], line["label"]) for line in lines]

    def across_restart(self, number):
        self.serve()
        want = self.unbroken()
        trainer = self.trainer()
        steps = trainer.attach(job="broken")["steps"]
        got = []
        for stop in (7, steps + 3):  # once within the first epoch, once in the second
            while len(got) < stop:
                line = trainer.call("next")
                if line["rc"] == 1:
                    continue
                self.assertEqual(line["rc"], 0, line)
                got.append(line)
                trainer.call("release", handle=line["handle"])
            held = trainer.next()
            got.append(held)
            self.stop_daemon(number)
            time.sleep(1)
            self.start_daemon()
            line = trainer.next()
            got.append(line)
            view = trainer.call("view", handle=held["handle"])  # what was held stays mapped until it is released
            if HELD_STAYS:
                self.assertEqual(view["image"], held["image"])
            else:
                self.assertEqual(view["rc"], -errno.EOWNERDEAD)
            self.assertEqual(trainer.call("release", handle=held["handle"])["rc"], 0)
            trainer.call("release", handle=line["handle"])
        self.assertGreaterEqual(trainer.call("stats")["reconnects"], 2)
        got = [(line["epoch"], line["step"], line["index"], line["image"], line["label"]) for line in got]
        self.assertEqual(got, want[:len(got)])

    def test_term(self):
        self.across_restart(signal.SIGTERM)

    def test_kill(self):
        self.across_restart(signal.SIGKILL)

    def test_attach_under_way(self):
        self.serve()
        self.daemon.send_signal(signal.SIGSTOP)
        trainer = self.trainer()
        trainer.send("attach", feed="feed", job="early")
        time.sleep(0.3)
        self.stop_daemon(signal.SIGKILL)
        time.sleep(0.5)
        self.start_daemon()
        self.assertEqual(trainer.receive(60)["rc"], 0)
        self.assertEqual(trainer.next()["step"], 0)

    def test_without_reconnect(self):
        self.serve()
        trainer = self.trainer()
        trainer.attach(reconnect=0)
        trainer.call("release", handle=trainer.next()["handle"])
        self.stop_daemon(signal.SIGKILL)
        start = time.monotonic()
        for _ in range(10):  # batches that are already there may still come
            reply = trainer.call("next", timeout=5000 * SLACK)
            if reply["rc"]:
                break
        self.assertEqual(reply["rc"], -104, reply)  # ECONNRESET
        self.assertLess(time.monotonic() - start, 4 * SLACK)
        self.assertIn("dataloadd", reply["error"])

    def saved_position(self, number, kill_trainer):
        """At batch 120; the position is saved every 10 batches; without reconnecting a new attach goes on at 121."""
        write_shards(self.folder / "data", shards=5, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64, "transform": [{"random_resized_crop": {"size": 32}}]})
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach(job="reference")
        want = trainer.run(epochs=2, print=2)
        trainer.call("detach")
        trainer.attach(job="broken", reconnect=0)
        got, saved = [], None
        while len(got) < 120:
            got += trainer.run(batches=10, print=2)
            saved = trainer.call("token")["token"]
        if kill_trainer:
            trainer.kill()
        self.stop_daemon(number)
        time.sleep(1)
        if not kill_trainer:
            start = time.monotonic()
            while (reply := trainer.call("next", timeout=5000 * SLACK))["rc"] == 0:  # what is here already may still come
                trainer.call("release", handle=reply["handle"])
            self.assertEqual(reply["rc"], -104, reply)
            self.assertLess(time.monotonic() - start, 4 * SLACK)
            self.assertEqual(trainer.call("token")["rc"] > 0, True)  # also of an attachment that has ended
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach(job="broken", reconnect=0, resume=saved)
        got += trainer.run(epochs=2, print=2)

        def rows(lines):
            return [(line["epoch"], line["index"], line["image"], line["label"]) for line in lines]
        self.assertEqual(rows(got), rows(want))

    def test_saved_position_term(self):
        self.saved_position(signal.SIGTERM, False)

    def test_saved_position_kill(self):
        self.saved_position(signal.SIGKILL, False)

    def test_saved_position_kill_both(self):
        self.saved_position(signal.SIGKILL, True)

    def test_one_reconnects_one_comes_new(self):
        """Daemon and one trainer die: the one comes back by itself, the other with its token, at steps of their own."""
        self.serve()
        want = []
        for rank in range(2):
            trainer = self.trainer()
            trainer.attach(job=f"reference-{rank}", rank=rank, world=2)
            want.append(trainer.run(epochs=1, print=3))
            trainer.call("detach")
        ranks = [self.trainer(), self.trainer()]
        for rank, trainer in enumerate(ranks):
            trainer.attach(job="two", rank=rank, world=2)
        seen = [trainer.run(batches=3 + 4 * rank, print=3) for rank, trainer in enumerate(ranks)]
        ranks[1].kill()
        self.stop_daemon(signal.SIGKILL)
        self.start_daemon()
        seen[0] += ranks[0].run(epochs=1, print=3)  # so that the job is there
        ranks[1] = self.trainer()
        ranks[1].attach(job="two", rank=1, world=2, resume=seen[1][-1]["token"])
        seen[1] += ranks[1].run(epochs=1, print=3)
        for rank in range(2):
            self.assertEqual([(line["step"], line["index"], line["image"]) for line in seen[rank]],
                             [(line["step"], line["index"], line["image"]) for line in want[rank]])

    def test_both_ranks_come_back_at_their_own_steps(self):
        self.serve()
        ranks = [self.trainer(), self.trainer()]
        for rank, trainer in enumerate(ranks):
            trainer.attach(job="two", rank=rank, world=2)
        seen = [trainer.run(batches=3 + 4 * rank, print=2) for rank, trainer in enumerate(ranks)]
        self.stop_daemon(signal.SIGKILL)
        self.start_daemon()
        for rank, trainer in enumerate(ranks):
            seen[rank] += trainer.run(epochs=1, print=2)
            self.assertEqual([line["step"] for line in seen[rank]], list(range(len(seen[rank]))))
        index = [i for lines in seen for line in lines for i, valid in zip(line["index"], line["flags"]) if valid]
        self.assertEqual(sorted(index), list(range(400)))


main()
