"""The C driver as seen by the oracle scripts, and a second implementation of the draws and of the
transform's operations on PIL pictures."""
import math
import os
import subprocess
import sys

SKIP = 77


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIP)


def shared(*parts):
    """A path in the folder of handed cases; skips where it is absent."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.environ.get("DATALOADD_SHARED", os.path.join(here, "..", "..", "..", "shared"))
    path = os.path.join(root, *parts)
    if not os.path.exists(path):
        skip(f"no {path}")
    return path


class Driver:
    def __init__(self, limit=1 << 30):
        self.process = subprocess.Popen([sys.argv[1], str(limit)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, command):
        self.process.stdin.write((command + "\n").encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode(errors="replace").rstrip("\n")
        if not line:
            sys.exit(f"the driver ended at: {command}")
        return line

    def run(self, path, ops="none", pixels=0, exif=0, seed=0, epoch=0, id=0):
        """-> dict of class, damaged, turned, size, data, reason."""
        words = self.ask(f"run {path} {ops} {pixels} {exif} {seed} {epoch} {id}").split(" ", 6)
        n = int(words[5])
        return {"class": words[0], "damaged": words[1] == "1", "turned": words[2] == "1",
                "size": (int(words[3]), int(words[4])), "reason": words[6],
                "data": self.process.stdout.read(n) if n else b""}

    def make(self, number):
        n = int(self.ask(f"make {number}"))
        return self.process.stdout.read(n) if n else None

    def rss(self):
        return int(self.ask("rss"))

    def end(self):
        """True where it ended well (a sanitizer reports leaks at the end)."""
        self.process.stdin.close()
        return self.process.wait() == 0


class Draws:
    """Philox4x32-10 as a stream of 32-bit numbers, purpose 7 (draws of a sample)."""

    def __init__(self, seed, epoch, id):
        self.key = (seed & 0xFFFFFFFF, seed >> 32)
        self.words = (id & 0xFFFFFFFF, id >> 32 & 0xFFFF, 7 << 24 | epoch)
        self.block, self.left = 0, []

    def u32(self):
        if not self.left:
            a, b, c, d = (self.block,) + self.words
            k, l = self.key
            for _ in range(10):
                x, y = a * 0xD2511F53, c * 0xCD9E8D57
                a, b, c, d = y >> 32 ^ b ^ k, y & 0xFFFFFFFF, x >> 32 ^ d ^ l, x & 0xFFFFFFFF
                k, l = k + 0x9E3779B9 & 0xFFFFFFFF, l + 0xBB67AE85 & 0xFFFFFFFF
            self.left = [a, b, c, d]
            self.block += 1
        return self.left.pop(0)

    def unit(self):
        low = self.u32()
        return ((self.u32() << 32 | low) >> 11) * 2.0**-53

    def below(self, n):
        while True:
            product = self.u32() * n
            if product & 0xFFFFFFFF >= (1 << 32) % n:
                return product >> 32


def crop_box(draws, width, height, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """random_resized_crop's box: left, top, width, height."""
    for _ in range(10):
        target = width * height * (scale[0] + (scale[1] - scale[0]) * draws.unit())
        aspect = ratio[0] * math.exp(draws.unit() * math.log(ratio[1] / ratio[0]))
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = draws.below(height - h + 1)
            return draws.below(width - w + 1), top, w, h
    w, h = width, height
    if width / height < ratio[0]:
        h = max(round(width / ratio[0]), 1)
    elif width / height > ratio[1]:
        w = max(round(height * ratio[1]), 1)
    return (width - w) // 2, (height - h) // 2, w, h


def resize(picture, width, height, bicubic=False):
    """Pillow 10's resize also where Pillow is older: very tall pictures shrink in height first."""
    from PIL import Image
    how = Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR
    if picture.size == (width, height):
        return picture
    if picture.size[1] > picture.size[0] * 100 and height < picture.size[1]:
        picture = picture.resize((picture.size[0], height), how)
    return picture.resize((width, height), how)


def resized_size(width, height, side, most=0):
    short, long = min(width, height), max(width, height)
    to_short, to_long = side, int(side * long / short)
    if most and to_long > most:
        to_short, to_long = max(int(most * to_short / to_long), 1), most
    return (to_short, to_long) if width <= height else (to_long, to_short)


def center_crop(picture, width, height):
    from PIL import Image
    w, h = picture.size
    if width > w or height > h:
        left, top = max(width - w, 0) // 2, max(height - h, 0) // 2
        padded = Image.new("RGB", (max(w, width), max(h, height)))
        padded.paste(picture, (left, top))
        picture, (w, h) = padded, padded.size
    left, top = round((w - width) / 2), round((h - height) / 2)
    return picture.crop((left, top, left + width, top + height))


def apply(picture, ops, draws):
    """ops: tuples as in the driver's text, e.g. ("resize", 256, 0, 1, 300)."""
    from PIL import Image
    for name, *v in ops:
        if name == "random_resized_crop":
            x, y, w, h = crop_box(draws, *picture.size, *([v[3:5], v[5:7]] if len(v) > 3 else []))
            picture = resize(picture.crop((x, y, x + w, y + h)), v[1] or v[0], v[0],
                             len(v) > 2 and v[2])
        elif name == "resize":
            v += [0] * (4 - len(v))
            size = (v[1], v[0]) if v[1] else resized_size(*picture.size, v[0], v[3])
            picture = resize(picture, *size, v[2])
        elif name == "center_crop":
            picture = center_crop(picture, v[1], v[0])
        elif name == "flip" and draws.unit() < v[0]:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return picture


def words(ops):
    return ",".join(":".join(str(v) for v in op) for op in ops) or "none"


TRAIN = [("random_resized_crop", 224, 224), ("flip", 0.5)]
EVAL = [("resize", 256), ("center_crop", 224, 224)]
