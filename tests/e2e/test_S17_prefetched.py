"""S17: a position is what the trainer was handed, not what the daemon has filled ahead; and a rank's, what it released."""
from harness import *

BATCH, WORLD = 4, 2


class Prefetched(Case):
    def serve(self, **feed):
        write_shards(self.folder / "data", shards=4, records=50)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "shuffle": 64, "slots": 5, **feed})
        self.start_daemon()

    def reference(self, rank=0, world=1, epochs=2):
        trainer = self.trainer()
        trainer.attach(job=f"reference-{rank}", rank=rank, world=world)
        lines = trainer.run(epochs=epochs, print=3)
        trainer.call("detach")
        return lines

    def take(self, trainer, want, count):
        """Batches taken and released, each as it should be."""
        for line in want[:count]:
            got = trainer.call("next", token=1)
            if got["rc"] == 1:  # the end of an epoch
                got = trainer.next(token=1)
            self.assertEqual((got["index"], got["image"]), (line["index"], line["image"]))
            trainer.call("release", handle=got["handle"])
        return want[count:]

    def filled(self, trainer, ready):
        wait_for("batches filled ahead", lambda: self.client_status(trainer.pid)["ready"] == ready)

    def gone(self, *trainers):
        for trainer in trainers:
            trainer.kill()
        wait_for("the dead to be noticed", lambda: not any(self.client_status(trainer.pid) for trainer in trainers))

    def test_filled_ahead_does_not_count(self):
        self.serve()
        want = self.reference()
        trainer = self.trainer()
        trainer.attach(job="run")
        rest = self.take(trainer, want, 10)
        self.filled(trainer, 5)
        token = trainer.call("token")["token"]
        self.assertEqual(token, want[9]["token"])
        self.gone(trainer)
        again = self.trainer()
        again.attach(job="run", resume=token)
        self.take(again, rest, 4)

    def test_held_counts_for_the_token_released_for_last(self):
        self.serve()
        want = self.reference()
        trainer = self.trainer()
        trainer.attach(job="run")
        self.take(trainer, want, 10)
        held = [trainer.next(token=1) for _ in range(3)]  # 10, 11, 12
        trainer.call("release", handle=held[1]["handle"])  # out of order: not contiguous
        self.assertEqual(held[2]["token"], want[12]["token"])
        self.assertEqual(trainer.call("token")["token"], want[12]["token"])
        self.filled(trainer, 3)
        self.gone(trainer)
        again = self.trainer()
        reply = again.attach(job="run", resume="last")
        self.assertEqual(reply["started"], f"after the job's last released: epoch 0, record {10 * BATCH}")
        self.take(again, want[10:], 5)

    def test_a_rank_that_has_detached_is_missed_once_the_others_go_on(self):
        self.serve()
        want = [self.reference(rank, WORLD) for rank in range(WORLD)]
        steps = len(want[0]) // 2
        ranks = [self.trainer() for _ in range(WORLD)]
        for rank, trainer in enumerate(ranks):
            trainer.attach(job="run", rank=rank, world=WORLD)
        self.take(ranks[0], want[0], steps)
        rest = self.take(ranks[1], want[1], steps - 2)
        ranks[0].call("detach")
        self.assertEqual(self.status()["vacant"], [])  # it has done its pass
        rest = self.take(ranks[1], rest, 2)
        self.assertEqual(self.status()["vacant"], [])
        self.take(ranks[1], rest, 3)
        vacant, = self.status()["vacant"]
        self.assertEqual((vacant["rank"], vacant["epoch"], vacant["step"], vacant["lost"]), (0, 1, 0, 3 * BATCH))
        again = self.trainer()
        again.attach(job="run", rank=0, world=WORLD, resume="last")
        self.take(again, want[0][steps:], 3)
        self.gone(again)
        vacant, = self.status()["vacant"]  # died, as far as the others are: they may be waiting for it
        self.assertEqual((vacant["step"], vacant["lost"]), (3, 0))

    def test_what_a_rank_lacks_that_went_back_before_the_epoch_the_job_began_in(self):
        self.serve()
        steps = len(self.reference(0, WORLD, epochs=1))
        token = self.reference(0, WORLD)[steps + 19]["token"]  # 20 steps into epoch 1
        ranks = [self.trainer() for _ in range(WORLD)]
        for rank, trainer in enumerate(ranks):
            trainer.attach(job="run", rank=rank, world=WORLD, resume=token)
        self.assertEqual(ranks[0].call("seek", epoch=0)["rc"], 0)
        self.gone(ranks[0])
        ranks[1].run(epochs=1)
        ranks[1].run(batches=1)
        vacant, = self.status()["vacant"]  # epoch 0 is whole, epoch 1 is not: it began at the token
        self.assertEqual((vacant["epoch"], vacant["step"], vacant["lost"]), (0, 0, (steps + (steps - 20) + 1) * BATCH))

    def test_a_rank_of_a_running_job(self):
        self.serve()
        want = [self.reference(rank, WORLD) for rank in range(WORLD)]
        ranks = [self.trainer() for _ in range(WORLD)]
        for rank, trainer in enumerate(ranks):
            trainer.attach(job="run", rank=rank, world=WORLD)
        self.take(ranks[0], want[0], 3)
        self.gone(ranks[0])
        want[1] = self.take(ranks[1], want[1], 8)  # the other goes on
        vacant, = self.status()["vacant"]
        self.assertEqual((vacant["job"], vacant["rank"], vacant["epoch"], vacant["step"], vacant["lost"]), ("run", 0, 0, 3, 5 * BATCH))
        self.assertIn("nobody has had rank 0 of 2", self.ctl("status").stdout)
        again = self.trainer()
        reply = again.attach(job="run", rank=0, world=WORLD, resume="last")
        self.assertEqual(reply["started"], "after its last released: epoch 0, step 3")
        self.assertEqual((reply["epoch"], reply["step"]), (0, 3))
        self.assertEqual(self.status()["vacant"], [])
        rest = self.take(again, want[0][3:], 9)
        # Once more, by a token of this job, and then without any: from the start.
        token = again.call("token")["token"]
        self.gone(again)
        again = self.trainer()
        self.assertEqual(again.attach(job="run", rank=0, world=WORLD, resume=token)["step"], 12)
        rest = self.take(again, rest, 3)
        self.gone(again)
        again = self.trainer()
        wrong = json.loads(token)
        wrong["next"] += 1
        reply = again.attach(job="run", rank=0, world=WORLD, resume=json.dumps(wrong, separators=(",", ":")), expect=-22)
        self.assertIn("between two steps", reply["error"])
        self.assertEqual(again.attach(job="run", rank=0, world=WORLD)["started"], "again from the start")
        self.take(again, want[0], 2)
        self.gone(again)
        again = self.trainer()
        self.assertEqual(again.attach(job="run", rank=0, world=WORLD, resume="last")["step"], 2)
        self.take(again, want[0][2:], 2)
        self.take(ranks[1], want[1], 2)

    def test_all_ranks_die(self):
        self.serve()
        want = [self.reference(rank, WORLD) for rank in range(WORLD)]
        ranks = [self.trainer() for _ in range(WORLD)]
        for rank, trainer in enumerate(ranks):
            trainer.attach(job="run", rank=rank, world=WORLD)
            self.take(trainer, want[rank], 4 + 3 * rank)
        self.gone(*ranks)
        for again in (1, 2):  # a second time before anything is taken
            ranks = [self.trainer() for _ in range(WORLD)]
            for rank, trainer in enumerate(ranks):
                reply = trainer.attach(job="run", rank=rank, world=WORLD, resume="last")
                self.assertEqual(reply["started"], f"after the job's last released: epoch 0, record {4 * BATCH * WORLD}")
            if again == 1:
                self.gone(*ranks)
        for rank, trainer in enumerate(ranks):
            self.take(trainer, want[rank][4:], 40)  # into the next epoch
            trainer.call("detach")

    def test_nothing_to_go_on_from(self):
        self.serve()
        trainer = self.trainer()
        reply = trainer.attach(job="new", resume="last")
        self.assertEqual(reply["started"], "from the start")
        self.assertTrue(any("nothing is known" in note["note"] for note in reply["notes"]))

    def test_across_the_end_of_an_epoch(self):
        self.serve()
        want = self.reference()
        trainer = self.trainer()
        steps = trainer.attach(job="run")["steps"]
        trainer.run(batches=steps, print=0)
        self.gone(trainer)
        again = self.trainer()
        reply = again.attach(job="run", resume="last")
        self.assertEqual((reply["epoch"], reply["step"]), (1, 0))
        self.take(again, want[steps:], 3)


main()
