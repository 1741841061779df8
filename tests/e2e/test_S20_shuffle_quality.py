"""S20: sorted data and a small shuffle: dataloadctl mix says so, with figures and a remedy that works; the sorted shards of the cases."""
import collections
import json

from harness import *


def distance(draw, whole):
    """Total variation distance of two lists of classes."""
    a, b = collections.Counter(draw), collections.Counter(whole)
    return sum(abs(a[c] / len(draw) - b[c] / len(whole)) for c in a | b) / 2


class Mix(Case):
    """Shards of tiny records, sorted by class."""

    def write(self, records=6000, classes=10, shards=3, shuffled=False):
        labels = [i * classes // records for i in range(records)]
        if shuffled:
            random.Random(1).shuffle(labels)
        (self.folder / "data").mkdir()
        each = records // shards
        for s in range(shards):
            write_tar(self.folder / f"data/{s}.tar", [m for i in range(s * each, (s + 1) * each)
                                                      for m in ((f"{i:06d}.bin", bytes(100)), (f"{i:06d}.cls", str(labels[i]).encode()))])
        return labels

    def serve(self, **feed):
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 50,
                     "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}, {"name": "label", "from": "cls", "kind": "int"}], **feed})
        self.start_daemon()

    def mix(self, *more):
        return json.loads(self.ctl("mix", "feed", *more, "--json").stdout)

    def batches(self, labels, *more, count=20):
        """Classes of the first batches, from the listing of their rows."""
        out = []
        for step in range(count):
            rows = json.loads(self.ctl("batch", "feed", "--step", step, *more, "--json").stdout)["rows"]
            out.append([labels[row["sample"]] for row in rows if row["valid"]])
        return out

    def check_figures(self, labels, said, *more):
        batches = self.batches(labels, *more, count=said["batches"])
        self.assertEqual(sum(map(len, batches)), said["rows"])
        self.assertAlmostEqual(said["label_mix"]["all"], distance(sum(batches, []), labels))
        self.assertAlmostEqual(said["label_mix"]["batch"], sum(distance(batch, labels) for batch in batches) / len(batches))

    def test_sorted_shards_with_a_small_shuffle(self):
        labels = self.write()
        self.serve(lanes=1, shuffle=50)
        said = self.mix("--world", 2)
        self.assertEqual((said["batches"], said["rows"], said["classes"], said["labels"], said["unlabelled"]), (20, 2000, 10, 6000, 0))
        self.check_figures(labels, said, "--world", 2)
        self.assertTrue(said["label_mix"]["poor"] and said["region_mix"]["poor"])
        self.assertGreater(said["label_mix"]["batch"], 0.4)
        self.assertLess(said["label_mix"]["batch_shuffled"], 0.15)
        self.assertGreater(said["neighbours"], 0.5)
        self.assertLess(said["neighbours_shuffled"], 0.05)
        text = self.ctl("mix", "feed", "--world", 2).stdout
        for words in ("do not hold the class mix", "one narrow region", "mends it", "MB of memory for each trainer (world 2)", "dataload-pack"):
            self.assertIn(words, text)
        self.assertEqual(said["notes"], self.mix("--world", 2)["notes"])

    def test_the_remedy_works(self):
        labels = self.write()
        self.serve(lanes=1, shuffle=50)
        remedy = next(note for note in self.mix("--world", 2)["notes"] if "mends it" in note)
        shuffle = int(remedy.split()[1])
        self.assertGreater(shuffle, 50)
        self.stop_daemon()
        self.serve(lanes=1, shuffle=shuffle)
        said = self.mix("--world", 2)
        self.assertFalse(said["label_mix"]["poor"], said)
        self.check_figures(labels, said, "--world", 2)

    def test_shards_shuffled_when_written(self):
        labels = self.write(shuffled=True)
        self.serve(lanes=1, shuffle=50)
        said = self.mix("--epoch", 3, "--seed", 9)
        self.check_figures(labels, said, "--epoch", 3, "--seed", 9)
        self.assertFalse(said["label_mix"]["poor"])
        self.assertAlmostEqual(said["label_mix"]["all"], said["label_mix"]["all_shuffled"], delta=0.03)
        text = self.ctl("mix", "feed").stdout
        self.assertIn("their class mix is that of the whole set all the same", text)
        self.assertNotIn("mends it", text)

    def test_a_whole_shuffle_is_a_true_one(self):
        self.write()
        self.serve(shuffle=6000)
        said = self.mix()
        self.assertFalse(said["label_mix"]["poor"] or said["region_mix"]["poor"])
        self.assertEqual(said["notes"], [])
        self.assertIn("well mixed", self.ctl("mix", "feed").stdout)

    def test_no_labels_bad_labels_and_few_records(self):
        (self.folder / "data").mkdir()
        texts = ["1", "cat", "2", "", "-3", "1"]
        write_tar(self.folder / "data/0.tar", [m for i, t in enumerate(texts) for m in ((f"{i}.bin", b"x"), (f"{i}.cls", t.encode()))])
        self.serve()
        said = self.mix()
        self.assertEqual((said["labels"], said["unlabelled"], said["classes"], said["batches"], said["rows"]), (4, 4, 3, 1, 6))
        self.assertEqual(said["label_mix"]["all"], 0)
        self.stop_daemon()
        self.serve(fields=[{"name": "raw", "from": "bin", "kind": "bytes"}])
        self.assertNotIn("label_mix", [key for key, value in self.mix().items() if value])
        self.assertIn("no labels", self.ctl("mix", "feed").stdout)

    def test_mostly_without_labels(self):
        """What a larger shuffle would do is not known, and not said to be nothing."""
        (self.folder / "data").mkdir()
        write_tar(self.folder / "data/0.tar", [m for i in range(6000) for m in ((f"{i:06d}.bin", bytes(100)), (f"{i:06d}.cls", str(i // 600).encode() if i % 3 == 0 else b"?"))])
        self.serve(lanes=1, shuffle=50)
        said = self.mix("--world", 2)
        self.assertTrue(said["label_mix"]["poor"])
        self.assertEqual(said["labels"], 2000)
        self.assertIn("cannot be told: too few labels", " ".join(said["notes"]))
        self.assertNotIn("no larger shuffle", " ".join(said["notes"]))

    def test_folders_are_looked_at_by_themselves(self):
        folder = self.folder / "pictures"
        picture = jpeg(32, 32)
        for c in range(8):
            (folder / f"class{c}").mkdir(parents=True)
            for i in range(200):
                (folder / f"class{c}/{i:03d}.jpg").write_bytes(picture + bytes(i % 7))
        feed = {"folder": str(folder), "batch": 16, "transform": "train", "lanes": 1}
        self.config([{"name": "feed", "shuffle": 16, **feed}, {"name": "good", "shuffle": 1600, **feed}])
        self.start_daemon()
        trainer = self.trainer()
        notes = [note["note"] for note in trainer.attach()["notes"]]
        self.assertTrue(any("epoch 0" in note and "class mix" in note for note in notes), notes)
        warned = lambda name: [n for f in self.status()["feeds"] if f["name"] == name for n in f["notes"] if "class mix" in n]
        self.assertIn("epoch 0", warned("feed")[0])
        trainer.run(epochs=1, print=0)
        trainer.run(batches=2, print=0)
        wait_for("the check of the next epoch", lambda: "epoch 1" in warned("feed")[0])
        good = self.trainer()
        self.assertFalse([n for n in good.attach("good")["notes"] if "class mix" in n["note"]])
        self.assertEqual(warned("good"), [])


    def test_an_epoch_is_looked_at_once(self):
        folder = self.folder / "pictures"
        picture = jpeg(32, 32)
        for c in range(8):
            (folder / f"class{c}").mkdir(parents=True)
            for i in range(200):
                (folder / f"class{c}/{i:03d}.jpg").write_bytes(picture)
        self.config({"folder": str(folder), "batch": 16, "shuffle": 16, "lanes": 1})
        self.start_daemon()
        fast, slow = self.trainer(), self.trainer()
        for rank, trainer in enumerate((slow, fast)):
            trainer.attach(job="run", rank=rank, world=2)
        slow.run(batches=1, print=0)
        fast.run(epochs=1, print=0)
        fast.run(batches=1, print=0)
        wait_for("the check of the next epoch", lambda: "epoch 1:" in self.log())
        start = self.status()["uptime_s"]
        wait_for("three more looks", lambda: self.status()["uptime_s"] > start + 3.5)
        self.assertEqual((self.log().count("epoch 0:"), self.log().count("epoch 1:")), (1, 1), self.log())
        slow.call("detach")
        self.stop_daemon(signal.SIGKILL)
        (self.folder / "daemon.log").unlink()
        self.start_daemon()
        fast.run(batches=2, print=0)
        wait_for("the check of the epoch that goes on", lambda: "epoch 1:" in self.log())
        self.assertLess(self.log().index("attached (reconnected"), self.log().index("epoch 1:"))  # which does not wait for it


class SortedCases(Case):
    """The two class-sorted shards of the handed cases: 40 of class 0, then 40 of class 1."""

    def serve(self, shuffle, env=None, **feed):
        shards = SHARED / "cases/tar"
        if not (shards / "sorted-class0.tar").exists():
            self.skipTest(f"no cases in {SHARED}")
        sorted_shards = [str(shards / f"sorted-class{c}.tar") for c in (0, 1)]
        self.config({"source": sorted_shards, "transform": "eval", "tail": "drop", "batch": 8, "shuffle": shuffle, **feed})
        self.start_daemon(env=env)

    def mix(self):
        return json.loads(self.ctl("mix", "feed", "--json").stdout)["label_mix"]

    def first_four(self, seed):
        trainer = self.trainer()
        trainer.attach(seed=seed)
        labels = [label for one in trainer.run(batches=4, print=2) for label in one["label"]]
        trainer.close()
        return sum(labels) / len(labels)

    def check_seeds(self, seeds=20 if SANITIZE else 100):
        shares = [self.first_four(seed) for seed in range(seeds)]
        self.assertGreaterEqual(sum(0.2 <= share <= 0.8 for share in shares), 0.95 * seeds, shares)

    def test_listed_order_is_one_class(self):
        self.serve(0, lanes=1)
        self.assertEqual((self.mix()["poor"], self.mix()["batch"]), (True, 0.5))
        self.assertIn("one narrow region", self.ctl("mix", "feed").stdout)

    def test_shuffle_8(self):
        """So small a set is cut into 64 runs of one or two records, which are dealt at random: even 8 held records mix its
        classes nearly as a true shuffle does (mean distance of a batch over 100 seeds 0.153; a true shuffle 0.130), and
        there is nothing to warn of."""
        self.serve(8, lanes=1)
        said = self.mix()
        trainer = self.trainer()
        trainer.attach()
        labels = [one["label"] for one in trainer.run(batches=10, print=2)]
        mean = sum(abs(sum(batch) / 8 - 0.5) for batch in labels) / 10
        self.assertAlmostEqual(said["batch"], mean)
        self.assertFalse(said["poor"])
        self.check_seeds()

    def test_shuffle_8_of_a_hundred_times_as_many(self):
        """Sixty-four runs again, but of 125 records: here 8 held records are of one class, and that is said."""
        data = self.folder / "data"
        data.mkdir()
        for c in (0, 1):
            write_tar(data / f"{c}.tar", [m for i in range(4000) for m in ((f"c{c}_{i:04d}.bin", bytes(700)), (f"c{c}_{i:04d}.cls", str(c).encode()))])
        feed = {"source": str(data / "*.tar"), "batch": 8, "lanes": 1,
                "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}, {"name": "label", "from": "cls", "kind": "int"}]}
        self.config([{"name": "feed", "shuffle": 8, **feed}, {"name": "large", "shuffle": 8000, **feed}])
        self.start_daemon()
        said = self.mix()
        self.assertTrue(said["poor"])
        self.assertGreater(said["batch"], 0.45)
        self.assertIn("one narrow region", self.ctl("mix", "feed").stdout)
        trainer = self.trainer()
        trainer.attach()
        of_one_class = [len(set(one["label"])) == 1 for one in trainer.run(batches=20, print=2)]
        self.assertGreater(sum(of_one_class), 15)
        self.assertFalse(json.loads(self.ctl("mix", "large", "--json").stdout)["label_mix"]["poor"])

    def test_shuffled_when_written(self):
        """The same samples in two shards, in random order: 8 held records are enough."""
        members = []
        for c in (0, 1):
            path = SHARED / f"cases/tar/sorted-class{c}.tar"
            if not path.exists():
                self.skipTest(f"no cases in {SHARED}")
            with tarfile.open(path) as tar:
                members += [(info.name, tar.extractfile(info).read()) for info in tar if info.isfile()]
        pairs = [members[i:i + 2] for i in range(0, len(members), 2)]
        random.Random(5).shuffle(pairs)
        for shard in (0, 1):
            write_tar(self.folder / f"{shard}.tar", sum(pairs[40 * shard:40 * shard + 40], []))
        self.serve(8, lanes=1, source=str(self.folder / "*.tar"))
        self.assertFalse(self.mix()["poor"])
        self.check_seeds()

    def test_shuffle_80(self):
        self.serve(80, lanes=1)
        self.check_seeds()

    def test_shuffle_80_in_64_lanes(self):
        self.serve(80)
        self.check_seeds()
        self.assertFalse(self.mix()["poor"])

    def test_the_first_batch_does_not_wait(self):
        """Each read takes a second: when the first batch comes, most of the buffer is still to be read."""
        for lanes in (1, 64):
            with self.subTest(lanes=lanes):
                self.serve(80, {"DATALOADD_TEST_DELAY": "read:1000"}, lanes=lanes)
                planned = json.loads(self.ctl("batch", "feed", "--step", 0, "--json").stdout)["rows"]
                trainer = self.trainer()
                trainer.attach()
                first = trainer.next(timeout=60000)
                fill, = (feed["shuffle_fill"] for feed in self.status()["feeds"])
                self.assertLess(fill, 0.5)
                self.assertEqual(first["index"], [row["sample"] for row in planned])
                wait_for("the buffer to fill", lambda: self.status()["feeds"][0]["shuffle_fill"] > 0.9)
                trainer.close()
                self.stop_daemon()


main()
