"""Pixels through the whole way equal Pillow's: eval bit for bit, in every output type; folders give ImageFolder's classes."""
import io
import struct

from harness import *


def reference(data, size=40, crop=32):
    """torchvision's Resize(size) + CenterCrop(crop) on PIL images."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    width, height = image.size
    short, long = min(width, height), max(width, height)
    new = (size, int(size * long / short))
    image = image.resize(new if width <= height else new[::-1], Image.BILINEAR)
    left, top = round((image.width - crop) / 2), round((image.height - crop) / 2)
    return image.crop((left, top, left + crop, top + crop))


class Pixels(Case):
    SIZES = [(64, 48), (48, 64), (33, 90), (200, 41), (40, 40), (120, 121)]

    def picture(self, i):
        width, height = self.SIZES[i % len(self.SIZES)]
        return jpeg(width, height, i, mode="L" if i == 5 else "RGB", progressive=i == 3)

    def test_eval_equals_pillow(self):
        data = self.folder / "data"
        data.mkdir()
        pictures = [self.picture(i) for i in range(12)]
        write_tar(data / "a.tar", [m for i, p in enumerate(pictures) for m in ((f"{i:02d}.jpg", p), (f"{i:02d}.cls", b"1"))])
        feeds = [{"name": output, "source": str(data / "a.tar"), "batch": 12, "shuffle": 0, "output": output,
                  "transform": [{"resize": 40}, {"center_crop": 32}]}
                 for output in ("uint8_nhwc", "uint8_nchw", "float32_nchw")]
        self.config(feeds)
        self.start_daemon()
        want = [reference(p).tobytes() for p in pictures]
        planar = [b"".join(p[c::3] for c in range(3)) for p in want]
        floats = [b"".join(struct.pack("<f", struct.unpack("<f", struct.pack("<f", v / 255))[0]) for v in p) for p in planar]
        for output, rows in (("uint8_nhwc", want), ("uint8_nchw", planar), ("float32_nchw", floats)):
            trainer = self.trainer()
            trainer.attach(feed=output, job=output)
            self.assertEqual(trainer.next()["image"], [xxh3(row) for row in rows], output)

    def test_fast(self):
        """Other bytes where it applies, the same ones where it does not (number 3 is progressive), the same with any workers."""
        data = self.folder / "data"
        data.mkdir()
        pictures = [self.picture(i) for i in range(12)]
        write_tar(data / "a.tar", [m for i, p in enumerate(pictures) for m in ((f"{i:02d}.jpg", p), (f"{i:02d}.cls", b"1"))])
        feeds = [{"name": pixels, "source": str(data / "a.tar"), "batch": 12, "shuffle": 0, "pixels": pixels,
                  "transform": [{"resize": 30}, {"center_crop": 28}]} for pixels in ("exact", "fast")]
        rows = []
        for workers in (1, 3):
            self.config(feeds, workers=workers)
            self.start_daemon()
            for feed in ("exact", "fast"):
                trainer = self.trainer()
                trainer.attach(feed=feed, job=feed)
                rows.append(trainer.next()["image"])
            self.stop_daemon()
        exact, fast = rows[:2]
        self.assertEqual(rows[2:], [exact, fast])
        same = {i for i in range(12) if exact[i] == fast[i]}
        with open("/proc/cpuinfo") as file:
            avx2 = "avx2" in file.read()
        self.assertEqual(same, {3} if avx2 else set(range(12)))

    def test_folder(self):
        folder = self.folder / "pictures"
        for i in range(12):
            where = folder / ("zebra", "ant", "mouse")[i % 3]
            where.mkdir(parents=True, exist_ok=True)
            (where / f"{i:02d}.JPEG").write_bytes(self.picture(i))
        (folder / "README.txt").write_text("no class")
        self.config({"folder": str(folder), "batch": 12, "shuffle": 0, "transform": [{"resize": 40}, {"center_crop": 32}]})
        self.start_daemon()
        trainer = self.trainer()
        reply = trainer.attach()
        batch = trainer.next()
        paths = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.JPEG"))
        self.assertEqual(batch["label"], [("ant", "mouse", "zebra").index(p.split("/")[0]) for p in paths])
        self.assertEqual(batch["image"], [xxh3(reference((folder / p).read_bytes()).tobytes()) for p in paths])
        self.assertTrue(any("shards" in note["note"] for note in reply["notes"]), reply)


def xxh3(data):
    """XXH3-64 of the testclient, from libxxhash itself."""
    import ctypes
    import ctypes.util
    library = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    library.XXH3_64bits.restype = ctypes.c_uint64
    return f"{library.XXH3_64bits(data, ctypes.c_size_t(len(data))):016x}"


main()
