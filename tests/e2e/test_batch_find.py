"""dataloadctl batch and find: the rows listed are those that real trainers got, the sheet shows their very pixels."""
import json

from harness import *
from PIL import Image

GAP, LABEL = 6, 16  # of the sheet


class Rows(Case):
    def serve(self, shards=3, records=21, **feed):
        self.labels = write_shards(self.folder / "data", shards=shards, records=records, pictures=records * shards)
        self.config({"source": str(self.folder / "data/*.tar"), "transform": "train", "seed": 5, "shuffle": 20, "lanes": 6, **feed})
        self.start_daemon()

    def json(self, *arguments):
        return json.loads(self.ctl(*arguments, "--json").stdout)

    def run_job(self, world, batch, epochs=2, **options):
        """(epoch, step, rank) -> batch, of real trainers."""
        trainers = [self.trainer() for _ in range(world)]
        for rank, trainer in enumerate(trainers):
            trainer.attach(rank=rank, world=world, batch=batch, job=f"run-{world}-{batch}", **options)
        got = {}
        for trainer in trainers:
            trainer.send("run", epochs=epochs, print=2)
        for rank, trainer in enumerate(trainers):
            for one in trainer.results():
                if "step" in one:
                    got[one["epoch"], one["step"], rank] = one
        for trainer in trainers:
            trainer.close()
        return got

    def listed(self, world, batch, epoch, step, *more):
        return self.json("batch", "feed", "--world", world, "--batch", batch, "--epoch", epoch, "--step", step, *more)

    def check_rows(self, world, batch, **options):
        got = self.run_job(world, batch, **options)
        self.assertGreater(len(got), world)
        steps = {step for _, step, _ in got}
        for epoch in (0, 1):
            for step in steps:
                reply = self.listed(world, batch, epoch, step)
                self.assertEqual(reply["steps"], max(steps) + 1)
                for rank in range(world):
                    rows = [row for row in reply["rows"] if row["rank"] == rank]
                    real = got.get((epoch, step, rank), {"index": [], "flags": [], "label": []})
                    self.assertEqual([row["sample"] for row in rows], real["index"], (epoch, step, rank))
                    self.assertEqual([row["valid"] for row in rows], [bool(flag) for flag in real["flags"]])
                    self.assertEqual([int(row["key"]) % 10 for row in rows], real["label"])
                    self.assertEqual(self.listed(world, batch, epoch, step, "--rank", rank)["rows"], rows)
        return got

    def test_rows_are_those_delivered(self):
        self.serve()
        self.check_rows(3, 4)
        self.check_rows(1, 7)
        self.check_rows(4, 20)  # the last step wraps

    def test_tails_and_listed_order(self):
        self.serve(tail="partial", shuffle=0)
        self.check_rows(4, 5)  # 3 rows are left for 4 ranks

    def test_shard_and_offset_lead_to_the_record(self):
        self.serve()
        for row in self.listed(2, 8, 1, 1)["rows"]:
            with open(row["shard"], "rb") as shard:
                shard.seek(row["offset"])
                self.assertEqual(shard.read(3), b"\xff\xd8\xff")
                shard.seek(row["offset"] - 512)
                self.assertEqual(shard.read(100).rstrip(b"\0").decode(), row["key"] + ".jpg")

    def cells(self, path, count, size):
        image = Image.open(path).convert("RGB")
        columns = image.width // (size + 2 * GAP)
        for i in range(count):
            left = i % columns * (size + 2 * GAP) + GAP
            top = i // columns * (size + 2 * GAP + LABEL) + GAP
            yield image.crop((left, top, left + size, top + size)).tobytes()

    def test_sheet_has_the_pixels_of_the_run(self):
        world, batch, rank = 2, 6, 1
        self.serve(seed=11)
        trainers = [self.trainer() for _ in range(world)]
        for number, trainer in enumerate(trainers):
            trainer.attach(rank=number, world=world, batch=batch, job="real", epoch=1, seed=77)
        for _ in range(3):
            one = trainers[rank].next()
            trainers[rank].call("release", handle=one["handle"])
        real = trainers[rank].next()
        self.assertEqual((real["epoch"], real["step"]), (1, 3))
        trainers[rank].call("save", handle=real["handle"], field="image", path=self.folder / "real.raw")
        pixels = (self.folder / "real.raw").read_bytes()
        size = len(pixels) // batch
        sheet = self.folder / "sheet.png"
        where = ("--world", world, "--rank", rank, "--batch", batch, "--epoch", 1, "--step", 3, "--seed", 77)
        reply = self.json("batch", "feed", *where, "--out", sheet)
        self.assertEqual([row["sample"] for row in reply["rows"]], real["index"])
        self.assertEqual(reply["file"], str(sheet))
        side = round((size / 3) ** 0.5)
        for i, cell in enumerate(self.cells(sheet, batch, side)):
            self.assertTrue(cell == pixels[i * size:(i + 1) * size], f"picture {i} differs")
        other = self.folder / "other.png"
        said = self.ctl("batch", "feed", *where[:-4], "--step", 4, "--seed", 77, "--out", other).stdout
        self.assertIn(f"{batch} images", said)
        self.assertNotEqual(list(self.cells(other, batch, side)), list(self.cells(sheet, batch, side)))
        base = self.token("--epoch", 1, "--step", 1, "--batch", batch, "--world", world, "--seed", 77)  # the same batch, of a job that began there
        self.ctl("batch", "feed", "--world", world, "--rank", rank, "--batch", batch, "--step", 2, "--token", base, "--out", other)
        self.assertEqual(list(self.cells(other, batch, side)), list(self.cells(sheet, batch, side)))
        wait_for("the probes to be gone", lambda: len(self.status()["clients"]) == world)

    def token(self, *where):
        return self.ctl("token", "feed", *where).stdout.strip()

    def test_a_job_that_began_from_a_token(self):
        self.serve(seed=3)
        token = self.token("--epoch", 1, "--step", 3, "--batch", 10, "--seed", 8)
        got = self.run_job(2, 4, resume=token)
        self.assertEqual({(epoch, step) for epoch, step, _ in got}, {(1, step) for step in range(5)} | {(2, step) for step in range(8)})
        for (epoch, step, rank), one in got.items():
            where = ("--world", 2, "--batch", 4, "--epoch", epoch, "--token", token)
            reply = self.json("batch", "feed", *where, "--step", step, "--rank", rank)
            self.assertEqual([row["sample"] for row in reply["rows"]], one["index"], (epoch, step, rank))
            self.assertEqual([row["valid"] for row in reply["rows"]], [bool(flag) for flag in one["flags"]])
            self.assertEqual((reply["epoch"], reply["start"], reply["steps"]), (epoch, 30, 5) if epoch == 1 else (epoch, 0, 8))
            self.assertEqual(reply["token"], self.token(*where, "--step", step))
        for sample in range(0, 63, 4):
            seen = self.json("find", "feed", f"{sample:06d}", "--world", 2, "--batch", 4, "--epochs", 2, "--token", token)["sightings"]
            real = sorted((epoch, step, rank, row, bool(one["flags"][row])) for (epoch, step, rank), one in got.items()
                          for row, index in enumerate(one["index"]) if index == sample)
            self.assertEqual(sorted((s["epoch"], s["step"], s["rank"], s["row"], s["valid"]) for s in seen), real, sample)
        slices = self.json("slices", "feed", "--world", 2, "--batch", 4, "--token", token)
        self.assertEqual((slices["records"], slices["steps"], slices["start"]), (33, 5, 30))
        self.assertEqual([sum(rank[key] for rank in slices["ranks"]) for key in ("records", "repeated_rows")], [33, 7])
        mix = self.json("mix", "feed", "--world", 2, "--batch", 4, "--token", token)
        self.assertEqual((mix["rows"], mix["batches"], mix["epoch"], mix["start"], mix["plan_id"]), (33, 5, 1, 30, slices["plan_id"]))
        self.assertIn("epoch 1, from record 30 on: step 2 of 5", self.ctl("batch", "feed", "--batch", 8, "--step", 2, "--token", token).stdout)

    def test_a_token_at_the_end_of_an_epoch(self):
        self.serve()
        token = self.token("--epoch", 4, "--step", 7, "--batch", 10)
        reply = self.json("batch", "feed", "--batch", 5, "--step", 0, "--token", token)
        self.assertEqual((reply["epoch"], reply["start"], reply["steps"]), (5, 0, 13))

    def test_tokens_that_do_not_fit(self):
        self.serve()
        token = self.token("--step", 1, "--batch", 10)
        for wrong, said in ((token[:-1], "damaged"), (token.replace('"lanes":6', '"lanes":7'), "lanes 7, feed feed has 6"), ("x" * 1024, "at most 1023"),
                            (token.replace('"next":10', '"next":64'), "feed feed has 63 records"), (token.replace('"seed"', '"\x1b[2J"'), "damaged")):
            for verb in (["batch", "feed", "--step", 0], ["find", "feed", "000001"], ["mix", "feed"], ["slices", "feed", "--world", 1], ["token", "feed", "--step", 0]):
                done = self.ctl(*verb, "--batch", 4, "--token", wrong, check=False)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (64, "", 1), done)
                self.assertIn(said, done.stderr)
        self.assertIn("not both", self.ctl("mix", "feed", "--batch", 4, "--seed", 1, "--token", token, check=False).stderr)

    def test_find_gives_all_places(self):
        self.serve()
        got = self.run_job(4, 20, epochs=2)  # wraps: some records twice
        for key in ("000000", "000030", "000062"):
            seen = self.json("find", "feed", key, "--world", 4, "--batch", 20, "--epochs", 2)
            sample = int(key)
            self.assertEqual([r["sample"] for r in seen["records"]], [sample])
            real = sorted((epoch, step, rank, row, bool(one["flags"][row])) for (epoch, step, rank), one in got.items()
                          for row, index in enumerate(one["index"]) if index == sample)
            self.assertEqual(sorted((s["epoch"], s["step"], s["rank"], s["row"], s["valid"]) for s in seen["sightings"]), real)
            self.assertGreaterEqual(len(real), 2)
        self.assertIn("EPOCH", self.ctl("find", "feed", "000030", "--batch", 8).stdout)

    def test_find_where_records_are_dropped(self):
        self.serve(tail="drop")
        places = [self.json("find", "feed", f"{i:06d}", "--batch", 20)["sightings"] for i in range(63)]
        self.assertEqual(sorted(len(sightings) for sightings in places), [0] * 3 + [1] * 60)

    def test_names_with_odd_characters_and_two_of_one_name(self):
        (self.folder / "data").mkdir()
        for shard in "ab":
            write_tar(self.folder / f"data/{shard}.tar", [("x\ny.jpg", jpeg(seed=1)), ("x\ny.cls", b"1"), (f"{shard}.jpg", jpeg(seed=2)), (f"{shard}.cls", b"2")])
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2})
        self.start_daemon()
        for key in ("x\ny", "x\\x0Ay"):
            found = self.json("find", "feed", key)
            self.assertEqual([(r["sample"], r["key"]) for r in found["records"]], [(0, "x\\x0Ay"), (2, "x\\x0Ay")])
            self.assertEqual(sorted(s["sample"] for s in found["sightings"]), [0, 2])

    def test_refusals_say_what_is_there(self):
        self.serve()
        cases = [(["batch", "feed", "--step", "99", "--batch", "4"], 64, "steps 0 to 15"),
                 (["batch", "feed", "--step", "0", "--batch", "4", "--world", "2", "--rank", "2"], 64, "rank 2 is not below world 2"),
                 (["batch", "feed", "--step", "0"], 64, "has no batch"),
                 (["batch", "feed", "--step", "0", "--batch", "4", "--world", "2", "--out", "x.png"], 64, "needs --rank"),
                 (["batch", "feed", "--step", "0", "--batch", "65536", "--world", "17"], 64, "name a rank"),
                 (["find", "feed", "nobody", "--batch", "4"], 4, "no record with the key nobody"),
                 (["find", "other", "nobody", "--batch", "4"], 4, "no feed other"),
                 (["find", "feed", "000001", "--batch", "4", "--epochs", "1001"], 64, "epochs 1001"),
                 (["find", "feed", "000001", "--batch", "4", "--epochs", "2", "--epoch", "16777215"], 64, "16777215 is the last"),
                 (["token", "feed", "--step", "16", "--batch", "4", "--epoch", "16777215"], 64, "16777215 is the last")]
        for words, code, text in cases:
            done = self.ctl(*words, check=False)
            self.assertEqual(done.returncode, code, done)
            self.assertIn(text, done.stderr)

    def test_as_many_rows_as_a_batch_may_have(self):
        world = 32 if SANITIZE else 2048
        self.serve()
        lines = self.ctl("batch", "feed", "--world", world, "--batch", 512, "--step", 0, "--no-headers").stdout.splitlines()
        self.assertEqual(len(lines), world * 512 + 2)
        self.assertEqual(lines[-3].split()[:2], [str(world - 1), "511"])

    def test_a_rank_of_a_huge_batch(self):
        self.serve(shards=1, records=5, lanes=1, shuffle=5)
        listed = self.listed(65536, 65536, 0, 0, "--rank", 65535)["rows"]
        self.assertEqual(len(listed), 65536)
        self.assertEqual(sum(row["valid"] for row in listed), 0)
        seen = self.json("find", "feed", "000003", "--world", 65536, "--batch", 65536)
        first = self.listed(65536, 65536, 0, 0, "--rank", 0)["rows"]
        self.assertEqual([s["row"] for s in seen["sightings"] if s["rank"] == 0], [row["row"] for row in first if row["sample"] == 3])

    def test_a_large_answer_comes_in_parts_while_others_are_served(self):
        self.serve(records=400, shards=1)
        trainer = self.trainer()
        trainer.attach(batch=4)
        reply = self.listed(16, 16384, 0, 0)
        self.assertEqual(len(reply["rows"]), 16 * 16384)
        self.assertEqual({row["sample"] for row in reply["rows"]}, set(range(400)))
        self.assertEqual(trainer.next()["step"], 0)


main()
