"""S16: a position of one number of trainers is resumed by another: no record is seen twice, none is left out."""
from harness import *

RECORDS = 400


class OtherWorld(Case):
    def serve(self, records=RECORDS, **feed):
        write_shards(self.folder / "data", shards=4, records=records // 4)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 5, "shuffle": 64, "lanes": 8, **feed})
        self.start_daemon()

    def world(self, n, job, **options):
        trainers = []
        for rank in range(n):
            trainers.append(self.trainer())
            trainers[-1].attach(job=job, rank=rank, world=n, **options)
        return trainers

    def batches(self, trainers, **options):
        """Lines by rank."""
        for trainer in trainers:
            trainer.send("run", print=3, **options)
        lines = [trainer.results() for trainer in trainers]
        self.assertEqual([one[-1]["rc"] for one in lines], [0] * len(lines))
        return [one[:-1] for one in lines]

    @staticmethod
    def seen(ranks):
        return [i for lines in ranks for line in lines for i, valid in zip(line["index"], line["flags"]) if valid]

    @staticmethod
    def steps(ranks):
        """The global batches: a set of (record, bytes) for each step."""
        count = max(map(len, ranks))
        return [sorted((i, image) for lines in ranks for line in lines[t:t + 1] for i, image in zip(line["index"], line["image"])) for t in range(count)]

    def resumed(self, n, batch, token, epochs=1):
        ranks = self.world(n, f"to-{n}x{batch}", batch=batch, resume=token)
        lines = self.batches(ranks, epochs=epochs)
        for trainer in ranks:
            trainer.call("detach")
        return lines

    def test_four_to_others(self):
        self.serve()
        four = self.world(4, "four")
        whole = self.batches(four, epochs=2)
        tokens = {lines[9]["token"] for lines in whole}
        self.assertEqual(len(tokens), 1)  # the same on every rank
        token, = tokens
        before = self.seen([lines[:10] for lines in whole])
        self.assertEqual(len(before), 200)
        for n, batch in ((4, 5), (2, 10), (1, 20), (5, 4)):  # the same rows a step: the same global batches
            with self.subTest(n=n, batch=batch):
                got = self.resumed(n, batch, token, epochs=2)
                self.assertEqual(self.steps(got), self.steps(whole)[10:])
        for n, batch in ((2, 5), (3, 5), (3, 7), (1, 1), (7, 3)):
            with self.subTest(n=n, batch=batch):
                got = self.resumed(n, batch, token)
                self.assertEqual(sorted(before + self.seen(got)), list(range(RECORDS)))
                self.assertEqual(len({len(lines) for lines in got}), 1)

    def test_after_kills(self):
        """kill -9 of trainers, daemon or both after ten batches; the last one's tokens are all that is left."""
        for who in ("trainers", "daemon", "both"):
            with self.subTest(who):
                self.serve()
                four = self.world(4, "four")
                lines = self.batches(four, batches=10)
                token, = {rank[-1]["token"] for rank in lines}
                if who != "daemon":
                    for trainer in four:
                        trainer.kill()
                if who != "trainers":
                    self.stop_daemon(signal.SIGKILL)
                    self.start_daemon()
                before = self.seen(lines)
                for n, batch in ((2, 5), (3, 5)):
                    got = self.resumed(n, batch, token)
                    self.assertEqual(sorted(before + self.seen(got)), list(range(RECORDS)))
                if who == "daemon":  # the four go on as if nothing had been
                    self.assertEqual(sorted(before + self.seen(self.batches(four, epochs=1))), list(range(RECORDS)))
                self.stop_all()
                shutil.rmtree(self.folder / "data")

    def test_again_and_again(self):
        """Other worlds, one after the other, until the epoch is over."""
        self.serve(records=332)
        token, seen = None, []
        for n, batch in ((3, 5), (2, 7), (4, 9), (1, 11), (5, 3), (2, 10)):
            ranks = self.world(n, f"{n}x{batch}", batch=batch, resume=token)
            lines = self.batches(ranks, batches=2)
            seen += self.seen(lines)
            token = lines[0][-1]["token"]
            for trainer in ranks:
                trainer.kill()
        lines = self.resumed(3, 4, token)
        self.assertEqual(sorted(seen + self.seen(lines)), list(range(332)))

    def test_odd_tails(self):
        """Fewer records than a batch are left; one more than a multiple; a rank with one row, ranks with none."""
        for tail in ("wrap", "drop", "partial"):
            for records, batch, world, stop in ((12, 1, 1, 11), (20, 1, 1, 15), (28, 3, 3, 2), (24, 2, 4, 2), (36, 1, 5, 6)):
                with self.subTest(tail=tail, records=records, batch=batch, world=world):
                    self.serve(records=records, tail=tail, batch=batch)
                    ranks = self.world(world, "a")
                    before = self.batches(ranks, batches=stop)
                    token = before[0][-1]["token"]
                    for trainer in ranks:
                        trainer.kill()
                    left = records - stop * world * batch
                    for n in (1, 2, 4):
                        got = self.resumed(n, 2, token, epochs=2)
                        self.check(tail, records, before, left, n * 2, got)
                    self.stop_daemon()
                    shutil.rmtree(self.folder / "data")

    def check(self, tail, records, before, left, rows, got):
        """Each rank has made two passes: the rest of epoch 0 and all of epoch 1; or those of 1 and 2 where no step was left."""
        first = [[line for line in lines if line["epoch"] == 0] for lines in got]
        rest = sorted(self.seen(before) + self.seen(first))
        steps = left // rows if tail == "drop" else -(-left // rows)
        self.assertEqual(max(map(len, first)), steps)
        if tail == "drop":
            self.assertEqual(len(rest), records - left + steps * rows)
            self.assertEqual(len(set(rest)), len(rest))
        else:
            self.assertEqual(rest, list(range(records)))
        epochs = {line["epoch"] for lines in got for line in lines}
        self.assertEqual(epochs, {0, 1} if steps else {1, 2})
        if tail != "drop":
            self.assertEqual(sorted(self.seen([[line for line in lines if line["epoch"] == 1] for lines in got])), list(range(records)))

    def test_ranks_from_different_places(self):
        self.serve()
        lines = self.batches(self.world(2, "two"), batches=6)[0]
        for trainer in self.trainers:
            trainer.kill()
        a, b, c = self.trainer(), self.trainer(), self.trainer()
        a.attach(job="next", rank=0, world=2, resume=lines[3]["token"])
        reply = b.attach(job="next", rank=1, world=2, resume=lines[4]["token"], expect=-22)
        self.assertIn("record 50", reply["error"])
        self.assertIn("record 40", reply["error"])
        b.attach(job="next", rank=1, world=2, resume=lines[3]["token"])
        a.call("detach")
        b.call("detach")
        # One that begins at the start, and one with a token.
        a.attach(job="third", rank=0, world=2)
        reply = b.attach(job="third", rank=1, world=2, resume=lines[3]["token"], expect=-22)
        self.assertIn("record 40", reply["error"])
        # One without: the job's.
        a.attach(job="fourth", rank=0, world=2, resume=lines[3]["token"])
        self.assertIn("record 40", c.attach(job="fourth", rank=1, world=2)["started"])


main()
