"""exclude: records left out by key, without repacking: another plan, the same sample ids and draws of all others."""
import json

from harness import *


class Exclude(Case):
    def setUp(self):
        super().setUp()
        self.list = self.folder / "left-out.txt"
        self.labels = write_shards(self.folder / "data", shards=3, records=20, pictures=60)

    def serve(self, **feed):
        self.config([{"name": "all", "source": str(self.folder / "data/*.tar"), "transform": "train", "batch": 10, "seed": 3, **feed},
                     {"name": "feed", "source": str(self.folder / "data/*.tar"), "transform": "train", "batch": 10, "seed": 3, "exclude": str(self.list), **feed}])
        self.start_daemon()

    def epoch(self, feed):
        trainer = self.trainer()
        said = trainer.attach(feed)
        rows = {}
        for one in trainer.run(epochs=1, print=2):
            for index, label, image, flag in zip(one["index"], one["label"], one["image"], one["flags"]):
                if flag:
                    rows[index] = (label, image)
        trainer.close()
        return said, rows

    def test_others_keep_ids_labels_and_pixels(self):
        out = [0, 7, 19, 20, 59]
        self.list.write_text("".join(f"{i:06d}\n" for i in out) + "\nnobody\n000007\nnor this one")
        self.serve()
        whole, everything = self.epoch("all")
        said, rows = self.epoch("feed")
        self.assertEqual(set(rows), set(range(60)) - set(out))
        self.assertEqual(said["records"], 55)
        self.assertEqual(rows, {i: row for i, row in everything.items() if i not in out})
        self.assertNotEqual(said["fingerprint"], whole["fingerprint"])
        self.assertNotEqual(said["plan_id"], whole["plan_id"])
        notes = " ".join(note["note"] for note in said["notes"])
        self.assertIn(f"records left out by {self.list}: 5", notes)
        self.assertIn("not in the data set: 2 of 7", notes)
        self.assertIn("first: nobody", notes)
        self.assertIn("records left out by", " ".join(note for feed in self.status()["feeds"] for note in feed["notes"]))

    def test_a_list_that_names_nothing_changes_nothing(self):
        self.list.write_text("nobody\n")
        self.serve()
        (whole, rows), (said, same) = self.epoch("all"), self.epoch("feed")
        self.assertEqual((said["plan_id"], said["fingerprint"], same), (whole["plan_id"], whole["fingerprint"], rows))

    def test_the_same_as_packing_without_them(self):
        self.list.write_text("000003\n000041\n")
        self.serve(shuffle=0)
        reply = json.loads(self.ctl("batch", "feed", "--step", "0", "--json").stdout)
        self.assertEqual([row["sample"] for row in reply["rows"]], [0, 1, 2, 4, 5, 6, 7, 8, 9, 10])
        found = json.loads(self.ctl("find", "feed", "000041", "--json").stdout)
        self.assertEqual((found["sightings"], len(found["records"])), ([], 1))
        self.assertIn("exclude", found["records"][0]["fault"])

    def test_a_changed_list_is_in_the_next_job(self):
        self.list.write_text("000000\n")
        self.serve()
        self.assertEqual(self.epoch("feed")[0]["records"], 59)
        running = self.trainer()
        first = running.attach("feed", job="runs")
        self.list.write_text("000000\n000001\n")
        said, rows = self.epoch("feed")
        self.assertEqual((said["records"], 1 in rows), (58, False))
        self.assertEqual(running.next()["rc"], 0)
        self.assertNotEqual(first["plan_id"], said["plan_id"])

    def test_what_cannot_be_is_refused_with_the_reason(self):
        self.serve()
        said = self.trainer().attach("feed", expect=-5)
        self.assertIn(f"cannot read the list of excluded keys {self.list}: No such file", said["error"])
        self.list.write_bytes(b"000000\0")
        self.assertIn("NUL byte", self.trainer().attach("feed", expect=-5)["error"])
        self.list.write_text("".join(f"{i:06d}\n" for i in range(60)))
        self.assertIn("leaves out all 60 records", self.trainer().attach("feed", expect=-5)["error"])

    def test_image_folders_and_broken_records(self):
        folder = self.folder / "pictures"
        for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(jpeg(seed=len(name)))
        write_tar(self.folder / "data/data-00001.tar", [("lone.cls", b"1"), ("good.jpg", jpeg()), ("good.cls", b"1"), ("good2.jpg", jpeg()), ("good2.cls", b"1")])
        self.list.write_text("cat/2.jpg\nlone\n")
        base = {"transform": "eval", "batch": 1, "exclude": str(self.list)}
        self.config([{"name": "folder", "folder": str(folder), **base}, {"name": "feed", "source": str(self.folder / "data/data-00001.tar"), **base}])
        self.start_daemon()
        rows = self.epoch("folder")[1]
        self.assertEqual({index: label for index, (label, _) in rows.items()}, {0: 0, 2: 1})
        self.assertEqual(set(self.epoch("feed")[1]), {1, 2})
        self.assertIn("no bad samples", self.ctl("bad", "feed").stdout)


main()
