"""The handed odd files, through the whole daemon: each gives the outcome that their log has."""
import hashlib
import threading

from harness import *

CASES = SHARED / "cases"
if not (CASES / "REFS.tsv").exists():
    skip(f"no {CASES}/REFS.tsv (see DATALOADD_SHARED)")

ROWS = {}
for line in (CASES / "REFS.tsv").read_text(encoding="utf-8").splitlines():
    words = line.split("\t") + [""] * 8
    ROWS[words[0]] = dict(zip(("path", "outcome", "size", "digest"), (CASES / words[1], words[4], words[5], words[8])))

# Pictures whose log leaves a choice: what we do.
CHOSEN = {"J13": "BAD-UNSUP", "J25": "BAD-SIZE", "J30": "BAD-UNSUP", "J33": "BAD-SIZE"}
ALIKE = {"J15": {"BAD-TRUNC", "BAD-CORRUPT"}, "J32": {"BAD-TRUNC", "BAD-CORRUPT"}}

# Sources of image and label: the valid labels in order, what `dataloadctl bad` lists, words of the notes.
SETS = {
    "T38": ([0, 7, 14, 21, 28, 35], [], ""),
    "T39": ([0, 7, 14, 21, 28, 35], [], ""),
    "T40": ([0, 1, 2, 0, 1], [], ""),
    "T41": ([5], ["PART-MISSING:235342 Track 2", "PART-MISSING:22"], ""),
    "T42": ([12], ["KEY-SPLIT:0", "KEY-SPLIT:1", "KEY-SPLIT:0", "KEY-SPLIT:1"], ""),
    "T43": ([0, 2], ["KEY-DUP:b"], ""),
    "T44 T45": ([0, 1, 2, 3], [], ""),
    "T46": ([0, 3], ["PART-MISSING:s1", "PART-MISSING:s2", "PART-MISSING:s4"], "without an extension"),
    "T47": ([0, 1, 2, 3], [], ""),
    "T48": ([0, 7, 14, 21], ["SHARD-TRUNC:"], ""),
    "T48 T38": ([0, 7, 14, 21, 0, 7, 14, 21, 28, 35], ["SHARD-TRUNC:"], ""),
    "T49": ([0, 7, 14, 21], ["SHARD-TRUNC:"], ""),
    "T50": ([0, 1, 2], [], "end-of-archive"),
    "T51": ([0, 7, 21, 28, 35], ["SHARD-HEADER:", "PART-MISSING:000002"], ""),
    "T52": ([0, 3], ["BAD-EMPTY:b", "LABEL-BAD:c"], ""),
    "T53 T38": ([0, 7, 14, 21, 28, 35], ["SHARD-EMPTY:"], ""),
    "T54 T38": ([0, 7, 14, 21, 28, 35], ["SHARD-TYPE:"], ""),
    "T55 T38": ([0, 7, 14, 21, 28, 35], ["SHARD-TYPE:"], ""),
    "T56": ([0, 1], [], ""),
    "T57": ([0, 2, 5], ["PART-MISSING:b", "PART-MISSING:d", "PART-MISSING:e"], "never opened"),
    "T58": ([0, 1], [], ""),
    "T59": ([7, 7, 42, 5, -1, 7, 2147483648, 9223372036854775807], 6 * ["LABEL-BAD"], ""),
    "T60": ([0, 1], [], ""),
    "T61": ([0], ["SHARD-TRUNC:"], ""),
    "T62": ([0, 1, 2, 3, 4, 5], [], ""),
    "T63 T64 T65": ([None] * 68, [], ""),
    "T66 T67": ([0] * 40 + [1] * 40, [], ""),
    "T68": ([None] * 97, ["BAD-TRUNC", "BAD-UNSUP", "BAD-EMPTY"], ""),
}
# Sources whose parts are no pictures: one field of bytes from the suffix; as Python's tarfile has them.
BYTES = {"T02": "txt", "T03": "txt", "T04": "txt", "T06": "txt", "T14": "txt", "T19": "mp", "T20": "txt", "T21": "txt",
         "T22": "txt", "T23": "txt"}
BYTES_BAD = {"T20": ["SHARD-HEADER:"]}
# Sources without a sample: names without an extension, links, sparse members, nothing; why the attach is refused.
REFUSED = {"T01": "no extension", "T05": "SHARD-EMPTY", "T07": "no extension", "T08": "sparse-gnu", "T09": "sparse", "T10": "size",
           "T11": "no extension", "T12": "extension", "T13": "512 bytes", "T15": "no extension", "T16": "no extension", "T17": "no extension",
           "T18": "no extension", "T53": "SHARD-EMPTY", "T54": "gunzip", "T55": "HTML"}
GROWTH = (128 if SANITIZE else 32) << 20  # of memory; a sanitizer keeps books of its own


class Peak:
    """The most memory that the daemon has from here on, above what it has now."""

    def __init__(self, case):
        self.case, self.stop = case, threading.Event()
        self.base = self.most = case.daemon_memory()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.stop.wait(0.002):
            self.most = max(self.most, self.case.daemon_memory())

    def growth(self):
        self.stop.set()
        self.thread.join()
        return self.most - self.base


class Cases(Case):
    def bad(self, feed):
        return json.loads(self.ctl("bad", feed, "--json").stdout)["bad"]

    def pictures(self, name, ids):
        """A shard of these cases; number and label of a picture is its place."""
        members = []
        for place, id in enumerate(ids):
            members += [(f"{place:03d}-{id}.jpg", ROWS[id]["path"].read_bytes()), (f"{place:03d}-{id}.cls", str(place).encode())]
        path = self.folder / name
        write_tar(path, members)
        return str(path)


class Tars(Cases):
    def setUp(self):
        super().setUp()
        feeds = []
        for ids in SETS:
            feeds.append({"name": ids.replace(" ", "-"), "source": self.paths(ids), "transform": "eval"})
        for id, suffix in BYTES.items():
            feeds.append({"name": id, "source": self.paths(id), "fields": [{"name": "data", "from": suffix, "kind": "bytes"}],
                          "shuffle": 0, "tail": "partial"})
        for id in REFUSED:
            feeds.append({"name": f"{id}-alone", "source": self.paths(id)})
        self.config(feeds)
        self.start_daemon()

    def paths(self, ids):
        return [str(ROWS[id]["path"]) for id in ids.split()]

    def test_every_case_is_here(self):
        here = {id for ids in [*SETS, *BYTES, *REFUSED] for id in ids.split()}
        self.assertEqual(here, {id for id in ROWS if id.startswith("T")})

    def test_samples_labels_and_faults(self):
        images = {}
        for ids, (labels, bad, note) in SETS.items():
            with self.subTest(ids):
                trainer, feed = self.trainer(), ids.replace(" ", "-")
                attached = trainer.attach(feed, batch=4)
                lines = trainer.run(epochs=1, print=2)
                flags = [flag for line in lines for flag in line["flags"]]
                have = [label for line in lines for label in line["label"]]
                have = [label if want is not None else None
                        for label, want in zip([label for label, flag in zip(have, flags) if flag], labels + [0] * 99)]
                self.assertEqual(have, labels)
                images[ids] = [image for line in lines for image in line["image"]]
                listed = self.bad(feed)
                self.assertEqual(sorted(entry["class"] for entry in listed), sorted(text.split(":")[0] for text in bad))
                for text in bad:
                    if ":" in text:
                        self.assertIn(text, [f"{entry['class']}:{entry['key']}" for entry in listed])
                self.assertTrue(all(entry["shard"].endswith(".tar") and entry["reason"] for entry in listed))
                self.assertIn(note, " ".join(entry["note"] for entry in attached["notes"]))
                trainer.close()
        self.assertEqual(images["T38"], images["T39"])
        self.assertEqual(images["T38"], images["T53 T38"])

    def test_payloads(self):
        for id, suffix in BYTES.items():
            with self.subTest(id):
                wanted = []
                with tarfile.open(ROWS[id]["path"]) as tar:
                    for member in tar:
                        if (member.isreg() or member.islnk()) and member.name.lower().endswith("." + suffix):
                            wanted.append(tar.extractfile(member).read())
                trainer = self.trainer()
                self.assertEqual(trainer.attach(id, batch=len(wanted))["records"], len(wanted))
                handle = trainer.next()["handle"]
                path = self.folder / "payload"
                offsets = trainer.call("save", handle=handle, field="data", path=path)["offsets"]
                data = path.read_bytes()
                self.assertEqual([data[a:b] for a, b in zip(offsets, offsets[1:])], wanted)
                self.assertEqual([f"{entry['class']}:{entry['key']}" for entry in self.bad(id)], BYTES_BAD.get(id, []))
                trainer.close()

    def test_refusals_and_memory(self):
        peak = Peak(self)
        for id, word in REFUSED.items():
            with self.subTest(id):
                reply = self.trainer().attach(f"{id}-alone", expect=-5, batch=2)  # EIO
                self.assertIn(word, reply["error"])
        self.assertLess(peak.growth(), GROWTH)


class Pictures(Cases):
    def outcome(self, id):
        return CHOSEN.get(id, ROWS[id]["outcome"])

    def serve(self, ids, **settings):
        # None but J33 takes more than 16 MiB.
        fields = [{"name": "image", "from": "jpg", "kind": "image", "max_bytes": "16MiB"}, {"name": "label", "from": "cls", "kind": "int"}]
        self.config([{"source": self.pictures("cases.tar", ids), "fields": fields, "transform": "none", "shuffle": 0, "batch": 1,
                      "slots": SLOTS_MIN, "tail": "partial", **settings}], memory="384MiB", decode_memory="128MiB", workers=2)
        self.start_daemon()

    def delivered(self, trainer, ids):
        """Digest of each picture's pixels and its size; None where it is flagged."""
        path = self.folder / "pixels"
        for _ in ids:
            batch = trainer.next(timeout=120000)
            if batch["flags"] == [0]:
                digest = size = None
            else:
                trainer.call("save", handle=batch["handle"], path=path)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                trainer.call("save", handle=batch["handle"], field="image.shape", path=path)
                shape = path.read_bytes()
                size = f"{int.from_bytes(shape[4:], sys.byteorder)}x{int.from_bytes(shape[:4], sys.byteorder)}"
            trainer.call("release", handle=batch["handle"])
            yield digest, size

    def test_pixels_and_classes(self):
        ids = [id for id in ROWS if id.startswith("J")]
        self.serve(ids)
        trainer = self.trainer()
        trainer.attach()
        for id, (digest, size) in zip(ids, self.delivered(trainer, ids)):
            good = self.outcome(id).startswith("OK")
            self.assertEqual(digest, ROWS[id]["digest"] if good else None, id)
            self.assertEqual(size, ROWS[id]["size"] if good else None, id)
        bad = {entry["key"][4:]: entry for entry in self.bad("feed")}
        self.assertEqual(set(bad), {id for id in ids if not self.outcome(id).startswith("OK")})
        for id, entry in bad.items():
            self.assertIn(entry["class"], ALIKE.get(id, {self.outcome(id)}), entry)
            self.assertGreater(entry["offset"], 0)
        self.assertIn("12", bad["J04"]["reason"])
        self.assertIn("PNG", bad["J30"]["reason"])
        feed = self.status()["feeds"][0]
        self.assertEqual(feed["damaged"], sum(self.outcome(id) == "OK-WARN" for id in ids))
        self.assertEqual(feed["bad"], len(bad))

    def test_turned(self):
        self.serve(["J07", "J08"], exif="turn")
        trainer = self.trainer()
        trainer.attach()
        table = (line.split("\t") for line in (CASES / "REFS.tsv").read_text(encoding="utf-8").splitlines())
        turned = {words[0]: (words[11], words[10]) for words in table if len(words) > 11}
        self.assertEqual(list(self.delivered(trainer, "12")), [turned["J07"], turned["J08"]])

    def test_claims_cost_no_memory(self):
        ids = ["J01"] * 20 + ["J12"] * 20 + ["J13", "J14", "J15", "J26", "J31"] * 8
        self.config({"source": self.pictures("claims.tar", ids), "transform": "train", "batch": 10, "slots": SLOTS_MIN, "shuffle": 0}, workers=2)
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach()
        trainer.run(batches=2, print=0)  # the good ones: slots and scratch are there now
        peak = Peak(self)
        trainer.run(epochs=1, print=0)
        self.assertLess(peak.growth(), GROWTH)

    def test_a_huge_picture_leaves_no_memory(self):
        huge = jpeg(2000, 2000, quality=30)
        members = [(f"{i}.{kind}", data) for i in range(60)
                   for kind, data in (("jpg", huge if i in (45, 48, 51) else jpeg(64, 64, i % 3)), ("cls", b"0"))]
        write_tar(self.folder / "huge.tar", members)
        self.config({"source": str(self.folder / "huge.tar"), "transform": "eval", "batch": 10, "slots": SLOTS_MIN}, workers=2,
                    memory="256MiB", decode_memory="24MiB")  # a share is 6 MiB
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach()
        trainer.run(batches=2, print=0)
        peak = Peak(self)
        trainer.run(epochs=1, print=0)
        grown = peak.growth()
        self.assertTrue(SANITIZE or 4 << 20 < grown < 40 << 20, grown)
        after = self.daemon_memory() - peak.base
        self.assertTrue(SANITIZE or after < 4 << 20, after)

    def test_a_scan_bomb_stops_nobody(self):
        bomb = ["J25", "J03", "J33"] * 8
        good = str(self.folder / "good" / "*.tar")
        write_shards(self.folder / "good", shards=2, records=20)
        self.config([{"name": "bomb", "source": self.pictures("bomb.tar", bomb), "transform": "eval", "batch": 4},
                     {"name": "good", "source": good, "transform": "eval", "batch": 4}], workers=2, memory="1GiB")
        self.start_daemon()
        trainer, other = self.trainer(), self.trainer()
        trainer.attach("bomb")
        other.attach("good")
        trainer.send("run", epochs=1, print=0, timeout=120000)
        slowest, asked, ended = 0, 0, []
        waiting = threading.Thread(target=lambda: ended.append(trainer.results()[-1]))
        waiting.start()
        while waiting.is_alive():
            begin = time.monotonic()
            self.ctl("ping")
            slowest, asked = max(slowest, time.monotonic() - begin), asked + 1
            other.run(batches=1, print=0, timeout=60000)
        waiting.join()
        self.assertEqual((ended[0]["rc"], ended[0]["samples"]), (0, len(bomb)))
        self.assertGreater(asked, 3)
        self.assertLess(slowest, SLACK)  # with the start of a process


main()
