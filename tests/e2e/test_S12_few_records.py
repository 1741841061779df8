"""S12: fewer shards than trainers: all get samples, equal steps, the union is the data set."""
import threading

from harness import *


class Few(Case):
    def epoch(self, tail, world=4, batch=2):
        write_shards(self.folder / "data", shards=1, records=7)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": batch, "tail": tail})
        self.start_daemon()
        trainers = [self.trainer() for _ in range(world)]
        for rank, trainer in enumerate(trainers):
            trainer.send("attach", feed="feed", job="j", rank=rank, world=world)
        replies = [trainer.receive() for trainer in trainers]
        self.assertEqual({reply["rc"] for reply in replies}, {0}, replies)
        for trainer in trainers:
            trainer.send("run", epochs=1, print=2)
        lines = [trainer.results()[:-1] for trainer in trainers]
        self.assertEqual([len(rank) for rank in lines], [reply["steps"] for reply in replies])
        return lines

    def test_wrap(self):
        lines = self.epoch("wrap")
        self.assertEqual({len(rank) for rank in lines}, {1})
        rows = [(i, valid) for rank in lines for line in rank for i, valid in zip(line["index"], line["flags"])]
        self.assertEqual(len(rows), 8)
        self.assertEqual(sorted(i for i, valid in rows if valid), list(range(7)))

    def test_partial(self):
        lines = self.epoch("partial")
        rows = [i for rank in lines for line in rank for i in line["index"]]
        self.assertEqual(sorted(rows), list(range(7)))
        self.assertTrue(all(line["rows"] > 0 for rank in lines for line in rank))

    def test_drop_refused(self):
        write_shards(self.folder / "data", shards=1, records=7)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2, "tail": "drop"})
        self.start_daemon()
        reply = self.trainer().call("attach", feed="feed", job="j", rank=0, world=4)
        self.assertLess(reply["rc"], 0)
        self.assertIn("7", reply["error"])
        self.assertIn("8", reply["error"])


main()
