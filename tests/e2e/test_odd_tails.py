"""Epochs that do not come out even, with each tail: fewer samples than a batch, one more than a multiple, one rank with one
sample. Nobody hangs, no batch is empty, counts and flags are true, and what cannot be is refused with the numbers."""
from harness import *

# records, world, batch, tail; steps of each rank; rows and valid rows of each rank in the last step; records lost
EVEN = [(16, 2, 4, tail, [2, 2], [4, 4], [4, 4], 0) for tail in ("wrap", "partial", "drop")]
ODD = [
    (3, 1, 8, "wrap", [1], [8], [3], 0),
    (3, 1, 8, "partial", [1], [3], [3], 0),
    (3, 2, 4, "wrap", [1, 1], [4, 4], [3, 0], 0),
    (3, 2, 4, "partial", [1, 1], [2, 1], [2, 1], 0),
    (17, 2, 4, "wrap", [3, 3], [4, 4], [1, 0], 0),
    (17, 2, 4, "partial", [3, 2], [1, 0], [1, 0], 0),
    (17, 2, 4, "drop", [2, 2], [4, 4], [4, 4], 1),
    (9, 4, 2, "wrap", [2] * 4, [2] * 4, [1, 0, 0, 0], 0),
    (9, 4, 2, "partial", [2, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], 0),
    (9, 4, 2, "drop", [1] * 4, [2] * 4, [2] * 4, 1),
    (1, 1, 1, "wrap", [1], [1], [1], 0),
    (1, 1, 1, "partial", [1], [1], [1], 0),
    (1, 1, 1, "drop", [1], [1], [1], 0),
    (1, 4, 1, "wrap", [1] * 4, [1] * 4, [1, 0, 0, 0], 0),
    (1, 4, 1, "partial", [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], 0),
    *EVEN,
]
REFUSED = [(3, 1, 8), (3, 2, 4), (1, 4, 1)]  # with tail drop


class OddTails(Case):
    def setUp(self):
        super().setUp()
        feeds = []
        for records in {row[0] for row in ODD}:
            path = self.folder / f"{records}.tar"
            write_tar(path, [(f"{i:02d}.bin", bytes([i] * 9)) for i in range(records)])
            feeds += [{"name": f"{tail}-{records}", "source": str(path), "tail": tail, "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}]}
                      for tail in ("wrap", "partial", "drop")]
        self.config(feeds)
        self.start_daemon()

    def attached(self, world, batch, feed, job, **options):
        ranks = [self.trainer() for _ in range(world)]
        for rank, trainer in enumerate(ranks):
            trainer.reply = trainer.attach(feed, job=job, rank=rank, world=world, batch=batch, **options)
        return ranks

    def passes(self, ranks, epochs):
        for trainer in ranks:
            trainer.send("run", epochs=epochs, print=3)
        return [trainer.results()[:-1] for trainer in ranks]

    def check_epoch(self, got, records, batch, steps, rows, valid, lost):
        """Batches of one epoch, by rank."""
        last = max(steps) - 1
        self.assertEqual([len(lines) for lines in got], steps)
        self.assertEqual([sum(line["rows"] for line in lines if line["step"] == last) for lines in got], rows)
        self.assertEqual([sum(line["valid"] for line in lines if line["step"] == last) for lines in got], valid)
        batches = [line for lines in got for line in lines]
        for line in batches:
            self.assertEqual((len(line["index"]), sum(line["flags"])), (line["rows"], line["valid"]))
            self.assertTrue(line["rows"] == batch or (line["step"] == last and line["rows"] > 0))
        seen = sorted(i for line in batches for i, flag in zip(line["index"], line["flags"]) if flag)
        self.assertEqual((len(seen), len(set(seen))), (records - lost, records - lost))
        self.assertTrue(all(i < records for line in batches for i in line["index"]))

    def check(self, records, world, batch, tail, steps, rows, valid, lost):
        feed, job = f"{tail}-{records}", f"{world}x{batch}"
        ranks = self.attached(world, batch, feed, job)
        self.assertEqual([t.reply["steps"] for t in ranks], steps)
        got = self.passes(ranks, 2)
        for epoch in (0, 1):
            self.check_epoch([[line for line in lines if line["epoch"] == epoch] for lines in got], records, batch, steps, rows, valid, lost)
        tokens = {trainer.call("token")["token"] for trainer in ranks}  # the end of two passes, also of ranks without a row
        token, = tokens
        self.assertEqual((json.loads(token)["epoch"], json.loads(token)["next"]), (2, 0))
        said = json.loads(self.ctl("slices", feed, "--world", world, "--batch", batch, "--json").stdout)
        self.assertEqual(([rank["steps"] for rank in said["ranks"]], said["steps"], said["lost"]), (steps, max(steps), lost))
        self.assertEqual(sum(rank["repeated_rows"] for rank in said["ranks"]), world * batch * max(steps) - records if tail == "wrap" else 0)
        again = self.passes(self.attached(world, batch, feed, job + "-on", resume=token), 1)
        self.check_epoch(again, records, batch, steps, rows, valid, lost)
        self.assertEqual({line["epoch"] for lines in again for line in lines}, {2})

    def test_tails(self):
        for row in ODD:
            with self.subTest(row):
                self.check(*row)

    def test_refused(self):
        for records, world, batch in REFUSED:
            with self.subTest(records=records, world=world, batch=batch):
                reply = self.trainer().attach(f"drop-{records}", job="none", rank=0, world=world, batch=batch, expect=-22)
                said = self.ctl("slices", f"drop-{records}", "--world", world, "--batch", batch, check=False)
                self.assertNotEqual(said.returncode, 0)
                for text in (reply["error"], said.stderr):
                    for word in (f"{records} record", f"world {world} x batch {batch} = {world * batch} rows", "tail drop"):
                        self.assertIn(word, text)


main()
