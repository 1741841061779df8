"""S13: slices are disjoint, complete, equal in steps and nearly equal in bytes; an uneven record is named."""
import json
import random

from harness import *

sys.path.insert(0, str(SOURCE / "tests/support"))
from order_model import batches, order  # noqa: E402


class Slices(Case):
    def slices(self, world, batch):
        return json.loads(self.ctl("slices", "feed", "--world", world, "--batch", batch, "--json").stdout)

    def test_sizes_that_depend_on_the_class(self):
        rng = random.Random(3)
        folder = self.folder / "data"
        folder.mkdir()
        for shard in range(40):
            size = 100 + 23 * shard  # the mean differs by a factor of ten
            write_tar(folder / f"{shard:02d}.tar", [(f"{i:05d}.bin", bytes(rng.randrange(size // 2, size * 3 // 2))) for i in range(1000)])
        self.config({"source": str(folder / "*.tar"), "batch": 50, "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}]})
        self.start_daemon()
        reply = self.slices(4, 50)
        ranks = reply["ranks"]
        self.assertEqual(sum(rank["records"] for rank in ranks), 40000)
        self.assertEqual({rank["steps"] for rank in ranks}, {200})
        mean = sum(rank["bytes"] for rank in ranks) / 4
        self.assertLess((max(r["bytes"] for r in ranks) - min(r["bytes"] for r in ranks)) / mean, 0.06)
        self.assertAlmostEqual(reply["spread"], (max(r["bytes"] for r in ranks) - min(r["bytes"] for r in ranks)) / mean, places=6)
        self.assertEqual(self.slices(4, 50)["ranks"], ranks)

    def test_one_giant_is_named(self):
        folder = self.folder / "data"
        folder.mkdir()
        write_tar(folder / "a.tar", [("giant.bin", bytes(582000))])
        write_tar(folder / "b.tar", [(f"b{i}.bin", bytes(700)) for i in range(60)])
        write_tar(folder / "c.tar", [(f"c{i}.bin", bytes(4000)) for i in range(7)])
        self.config({"source": str(folder / "*.tar"), "batch": 2, "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}]})
        self.start_daemon()
        reply = self.slices(3, 2)
        self.assertEqual(sum(rank["records"] for rank in reply["ranks"]), 68)
        self.assertGreater(reply["spread"], 0.05)
        self.assertTrue(any("giant" in note for note in reply["notes"]), reply)


class Extremes(Case):
    """Each against the model of docs/order.md; what cannot be is refused with the numbers, as at attach."""

    def serve(self, sizes, tails=("wrap", "partial", "drop"), **feed):
        """One shard for each list of sizes."""
        (self.folder / "data").mkdir()
        for shard, ones in enumerate(sizes):
            write_tar(self.folder / f"data/{shard:03d}.tar", [(f"s{shard}-{i:04d}.bin", bytes(size)) for i, size in enumerate(ones)])
        self.sizes = sizes
        self.config([{"name": tail, "source": str(self.folder / "data/*.tar"), "batch": 1, "tail": tail, "lanes": 8, "shuffle": 64,
                      "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}], **feed} for tail in tails])
        self.start_daemon()

    def model(self, world, batch, tail, epoch):
        """Steps, and of each rank the places of its records and its repeated rows."""
        places, ranks = order(self.sizes, 0, epoch, 64, 8), [([], 0)] * world
        steps = batches(len(places), 8, world, batch, 0, tail)
        for rows in steps:
            for rank, positions in enumerate(rows):
                good = [places[i] for i in positions if i < len(places)]
                ranks[rank] = (ranks[rank][0] + good, ranks[rank][1] + len(positions) - len(good))
        return [sum(bool(rows[rank]) for rows in steps) for rank in range(world)], ranks

    def check(self, world, batch, tail, epoch=1):
        said = json.loads(self.ctl("slices", tail, "--world", world, "--batch", batch, "--epoch", epoch, "--json").stdout)
        steps, ranks = self.model(world, batch, tail, epoch)
        size = lambda places: sum(self.sizes[s][k] for s, k in places)
        want = [(steps[rank], len({s for s, _ in places}), len(places), size(places), repeated) for rank, (places, repeated) in enumerate(ranks)]
        got = [(r["steps"], r["shards"], r["records"], r["bytes"], r["repeated_rows"]) for r in said["ranks"]]
        self.assertEqual([], [(rank, a, b) for rank, (a, b) in enumerate(zip(got, want, strict=True)) if a != b][:5])
        records, weights = sum(map(len, self.sizes)), [row[3] for row in want]
        self.assertEqual((said["records"], said["steps"], said["lost"]), (records - said["lost"], max(steps), records - sum(row[2] for row in want)))
        self.assertAlmostEqual(said["spread"], (max(weights) - min(weights)) * world / sum(weights))
        self.assertEqual(bool(said["notes"]), said["spread"] > 0.05)
        self.assertEqual("warning: " in self.ctl("slices", tail, "--world", world, "--batch", batch, "--epoch", epoch).stdout, said["spread"] > 0.05)
        return said

    def check_refused(self, world, batch):
        reply = self.trainer().attach("drop", job="refused", rank=0, world=world, batch=batch, expect=-22)
        said = self.ctl("slices", "drop", "--world", world, "--batch", batch, check=False)
        self.assertNotEqual(said.returncode, 0)
        for text in (reply["error"], said.stderr):
            self.assertIn(f"{sum(map(len, self.sizes))} record", text)
            self.assertIn(f"world {world} x batch {batch} = {world * batch} rows", text)

    def check_served(self, world, batch, tail, said, ranks):
        """Some of the ranks do get what was said."""
        for rank in ranks:
            trainer = self.trainer()
            trainer.attach(tail, job="served", rank=rank, world=world, batch=batch, epoch=1)
            lines = trainer.run(epochs=1, print=2)
            want = said["ranks"][rank]
            self.assertEqual((len(lines), sum(line["valid"] for line in lines)), (want["steps"], want["records"]))
            trainer.close()

    def test_fewer_records_than_trainers(self):
        self.serve([[700, 20, 300], [5, 90]])
        for tail in ("wrap", "partial"):
            said = self.check(8, 2, tail)
            self.assertEqual(sum(rank["records"] for rank in said["ranks"]), 5)
            self.check_served(8, 2, tail, said, range(8))
        self.check_refused(8, 2)

    def test_one_giant_record(self):
        self.serve([[3000] * 200, [3000] * 100 + [3000000] + [3000] * 99, [3000] * 200])
        said = self.check(4, 5, "wrap")
        heavy = max(said["ranks"], key=lambda rank: rank["bytes"])
        self.assertGreater(heavy["bytes"], 3000000)
        self.assertIn(f"record s1-0100 of {self.folder}/data/001.tar alone has 3.000 MB (rank {heavy['rank']}), which cannot be shared", said["notes"][0])

    def test_the_warning_begins_above_five_percent(self):
        for more, warned in ((1025, False), (1027, True)):  # spread: 2 x more / (40000 + more)
            with self.subTest(more=more):
                self.serve([[1000] * 19 + [1000 + more], [1000] * 20], tails=("wrap",))
                self.assertEqual(bool(self.check(2, 1, "wrap")["notes"]), warned)
                self.stop_daemon()
                shutil.rmtree(self.folder / "data")

    def test_empty_shards(self):
        self.serve([[], [900] * 40, [], [], [900] * 33, []])
        for tail in ("wrap", "partial", "drop"):
            said = self.check(3, 4, tail)
            self.assertEqual({rank["shards"] for rank in said["ranks"]}, {2})
            self.check_served(3, 4, tail, said, range(3))

    def test_one_record_a_shard(self):
        self.serve([[random.Random(i).randrange(900, 1100)] for i in range(60)])
        for tail in ("wrap", "partial", "drop"):
            said = self.check(4, 4, tail)
            self.assertEqual([rank["shards"] for rank in said["ranks"]], [rank["records"] for rank in said["ranks"]])
            self.check_served(4, 4, tail, said, range(4))

    def test_a_thousand_ranks(self):
        rng = random.Random(6)
        self.serve([[rng.randrange(500, 3000) for _ in range(150)] for _ in range(14)])
        for tail in ("wrap", "partial", "drop"):
            said = self.check(1000, 1, tail)
            self.check_served(1000, 1, tail, said, (0, 1, 500, 999))
        self.check(1000, 3, "wrap")
        self.check(1000, 3, "partial")
        self.check_refused(1000, 3)

    def test_the_uneven_cases(self):
        shards = [SHARED / f"cases/tar/uneven-{name}.tar" for name in ("a-one-big", "b-60-tiny", "c-7-small")]
        if not shards[0].exists():
            self.skipTest(f"no cases in {SHARED}")
        self.config({"source": [str(shard) for shard in shards], "batch": 2})
        self.start_daemon()
        said = json.loads(self.ctl("slices", "feed", "--world", 3, "--json").stdout)
        self.assertEqual(sum(rank["records"] for rank in said["ranks"]), said["records"])
        self.assertEqual(len({rank["steps"] for rank in said["ranks"]}), 1)
        self.assertIn("record big of", said["notes"][0])
        self.assertEqual(said, json.loads(self.ctl("slices", "feed", "--world", 3, "--json").stdout))


main()
