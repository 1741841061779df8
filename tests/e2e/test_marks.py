"""Marks of JPEGs: later epochs and restarts decode with them, pixels stay the same, whatever becomes of their files."""
import stat

from harness import *

RECORDS = 24
EPOCHS = 6  # so few records are read ahead over two of them


def noise(width, height, seed):
    """A JPEG of so many bytes that marks have room, the second kind without colour, the third with restart markers."""
    from PIL import Image

    rng = random.Random(seed)
    image = Image.frombytes("RGB", (width, height), rng.randbytes(3 * width * height))
    out = io.BytesIO()
    image.convert("L" if seed % 6 == 1 else "RGB").save(out, "JPEG", quality=80, **({"restart_marker_rows": 1} if seed % 6 == 2 else {}))
    return out.getvalue()


class Marks(Case):
    def setUp(self):
        super().setUp()
        if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"):
            skip("our own decoder needs AVX2")
        self.data = self.folder / "data"
        self.data.mkdir()
        self.pictures = [noise(200 + 7 * i, 160 + 5 * i, i) for i in range(RECORDS)]
        for shard in range(2):
            write_tar(self.data / f"{shard}.tar", [member for i in range(shard, RECORDS, 2)
                                                   for member in ((f"{i:02d}.cls", b"1"), (f"{i:02d}.jpg", self.pictures[i]))])

    def begin(self, cache=None, **cache_more):
        self.cache = self.folder / (cache or "cache")
        self.config({"source": str(self.data / "{0..1}.tar"), "batch": 8, "shuffle": 8, "transform": "train"},
                    cache={"path": str(self.cache), "bytes": "64MiB", **cache_more})
        self.start_daemon()

    def rows(self, epochs=EPOCHS):
        trainer = self.trainer()
        trainer.attach(seed=5)
        lines = trainer.run(epochs=epochs, print=2)
        trainer.close()
        return [line["image"] for line in lines]

    def figures(self):
        feed = self.status()["feeds"][0]
        return [feed[key] for key in ("marks_used", "marks_kept", "marks_wrong", "marks_bytes")]

    def files(self):
        return sorted((self.cache / "index").glob("*.marks"))

    def test_epochs_and_restart(self):
        self.begin("other", marks="off")
        want = self.rows()
        self.assertEqual(self.figures(), [0, 0, 0, 0])
        self.assertEqual(self.files(), [])
        self.stop_daemon()
        self.begin()
        self.assertEqual(self.rows(), want)
        used, kept, wrong, size = self.figures()
        marked = RECORDS - RECORDS // 6  # without those that have restart markers
        self.assertGreaterEqual(used, marked)
        self.assertGreaterEqual(kept, marked)
        self.assertEqual(wrong, 0)
        data = sum(map(len, self.pictures))
        self.assertTrue(0.013 * data < size < 0.0141 * data, (size, data))
        self.assertEqual(sum(path.stat().st_size for path in self.files()), size)
        self.assertEqual({stat.S_IMODE(path.stat().st_mode) for path in self.files()}, {0o600})
        self.assertIn("marks: ", self.ctl("status").stdout)
        self.stop_daemon()
        self.start_daemon()
        self.assertEqual(self.rows(), want)
        again = self.figures()
        self.assertGreaterEqual(again[0], marked)
        self.assertLess(again[1], kept / 2)  # at once, from the first epoch on: little has to be marked any more
        self.assertEqual(again[2:], [0, size])

    def test_damaged_and_gone(self):
        self.begin()
        want = self.rows()
        self.stop_daemon()
        good = [path.read_bytes() for path in self.files()]

        def damage(change):
            for path, data in zip(self.files(), good):
                path.write_bytes(change(data))
            self.start_daemon()
            self.assertEqual(self.rows(), want)
            figures = self.figures()
            self.stop_daemon()
            return figures
        spoiled = damage(lambda data: bytes(byte ^ (at % 50 == 0) for at, byte in enumerate(data)))
        self.assertGreater(spoiled[2], RECORDS // 2)
        swapped = damage(lambda data: good[data == good[0]][:len(data)].ljust(len(data), b"\0"))
        self.assertGreater(swapped[2], RECORDS // 3)
        noisy = damage(lambda data: random.Random(1).randbytes(len(data)))
        self.assertGreater(noisy[2], RECORDS // 2)
        cut = damage(lambda data: data[:len(data) // 2])  # made anew
        self.assertGreater(cut[1], RECORDS // 2)
        self.assertEqual(damage(lambda data: data)[2], 0)
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach(seed=5)
        rows = [line["image"] for line in trainer.run(epochs=2, print=2)]
        for path, data in zip(self.files(), good):
            os.truncate(path, 100)
        rows += [line["image"] for line in trainer.run(epochs=2, print=2)]
        shutil.rmtree(self.cache)
        rows += [line["image"] for line in trainer.run(epochs=2, print=2)]
        self.assertEqual(rows, want)

    def test_full_disk(self):
        need_namespaces()
        self.begin(marks="off")
        want = self.rows()
        self.stop_daemon()
        self.cache = self.folder / "small"
        self.cache.mkdir()
        self.config({"source": str(self.data / "{0..1}.tar"), "batch": 8, "shuffle": 8, "transform": "train"},
                    cache={"path": str(self.cache), "bytes": "64MiB"})
        self.start_daemon(prefix=["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=16k none {self.cache} && exec \"$@\"", "sh"])
        self.assertEqual(self.rows(), want)
        self.assertEqual(self.log().count("No space left on device"), 1)
        self.assertIn("marks cannot be kept any more: No space left on device", str(self.status()["feeds"][0]["notes"]))
        self.assertEqual(self.figures()[2], 0)

    def test_read_only(self):
        need_namespaces()
        self.begin(marks="off")
        want = self.rows()
        self.stop_daemon()
        self.cache = self.folder / "fixed"
        self.cache.mkdir()
        self.config({"source": str(self.data / "{0..1}.tar"), "batch": 8, "shuffle": 8, "transform": "train"}, cache={"path": str(self.cache)})
        self.start_daemon(prefix=["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o ro none {self.cache} && exec \"$@\"", "sh"])
        self.assertEqual(self.rows(), want)
        self.assertEqual(self.figures(), [0, 0, 0, 0])
        said = f"record indexes and marks cannot be kept in {self.cache}/index: Read-only file system"
        self.assertIn(said, str(self.status()["feeds"][0]["notes"]))
        self.assertEqual(self.log().count(said), 1)

    def test_no_room(self):
        self.begin(marks="off")
        want = self.rows()
        self.stop_daemon()
        indexes = sum(path.stat().st_size for path in (self.cache / "index").glob("*.index"))
        self.begin(bytes=indexes + int(0.0141 * max(sum(map(len, self.pictures[shard::2])) for shard in range(2))))
        self.assertEqual(self.rows(), want)
        self.assertEqual(len(self.files()), 1)
        self.assertRegex(str(self.status()["feeds"][0]["notes"]), "room for marks of [0-9]+ % of the data.* raise cache: bytes")
        self.assertGreater(self.figures()[0], 0)
        self.assertEqual(len(list((self.cache / "index").glob("*.index"))), 2)


main()
