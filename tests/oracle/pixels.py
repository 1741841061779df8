"""Decoding, resizing, crops, flips, turns and float outputs against Pillow (and torchvision)."""
import io
import os
import random
import sys
import tempfile

from driver import EVAL, TRAIN, Draws, Driver, apply, skip, words

try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError as missing:
    skip(f"no python3-pil or python3-numpy: {missing}")

random.seed(7)
noise = np.random.RandomState(7)
LONG = 10 if os.environ.get("DATALOADD_LONG") else 1
folder = tempfile.TemporaryDirectory()
driver = Driver()
checks = wrong = 0


def expect(right, what):
    global checks, wrong
    checks += 1
    if not right:
        wrong += 1
        print("differs:", what)


def store(data):
    path = os.path.join(folder.name, "p.jpg")
    with open(path, "wb") as file:
        file.write(data)
    return path


def rgb(path):
    return Image.open(path).convert("RGB")


def picture(width, height):
    """Smooth colours with edges and noise, as a JPEG file."""
    low = noise.randint(0, 256, (max(height // 16, 1), max(width // 16, 1), 3)).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(low).resize((width, height), Image.Resampling.BICUBIC))
    values = smooth.astype(int) + noise.randint(-20, 21, smooth.shape)
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def encode(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return store(out.getvalue())


def compare(path, ops, what, exif=0, seed=1, epoch=2, id=3):
    got = driver.run(path, words(ops), exif=exif, seed=seed, epoch=epoch, id=id)
    image = rgb(path)
    if exif:
        image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    want = apply(image, ops, Draws(seed, epoch, id))
    expect(got["class"] == "OK" and got["size"] == want.size and got["data"] == want.tobytes(),
           f"{what} {image.size} {words(ops)} {got['class']} {got['reason']}")


def check_decode():
    number = 0
    while (data := driver.make(number)) is not None:
        compare(store(data), [], f"made picture {number}")
        number += 1
    expect(number > 20, "number of made pictures")
    for _ in range(40 * LONG):
        image = picture(random.randint(1, 300), random.randint(1, 300))
        image = image.convert(random.choice(["RGB", "RGB", "RGB", "L", "CMYK"]))
        compare(encode(image, quality=random.randint(5, 100), subsampling=random.randint(0, 2),
                       progressive=random.random() < 0.3, optimize=random.random() < 0.5), [],
                "decode " + image.mode)


def log_size(most):
    return max(1, int(most ** random.random()))


def check_ends():
    """A cut end, or something else in the place of the end marker: whole where Pillow has it so."""
    for _ in range(10 * LONG):
        image = picture(random.randint(1, 90), random.randint(1, 90))
        image = image.convert(random.choice(["RGB", "L", "CMYK"]))
        path = encode(image, subsampling=random.choice([0, 2]), progressive=random.random() < 0.3)
        with open(path, "rb") as file:
            data = file.read()
        for left, tail in ((-1, b""), (-2, b""), (-9, b""), (-2, b"\0"), (-2, bytes(40)), (-2, b"hello"),
                           (-2, data), (-2, b"\xff\xda\0\x0c"), (-2, b"\xff\xfe\xff\xff"), (None, b"hello")):
            path = store(data[:left] + tail)
            got = driver.run(path)
            try:
                want = rgb(path).tobytes()
            except OSError:
                want = b""
            expect(got["data"] == want, f"end {left} {tail[:8]} {got['class']} {got['reason']}")


def check_resize():
    for i in range(120 * LONG):
        path = encode(picture(log_size(700), log_size(700)), quality=90)
        compare(path, [("resize", log_size(600), log_size(600), i % 2)], "resize")
    for _ in range(30 * LONG):
        width = random.randint(1, 6)
        path = encode(picture(width, width * 100 + random.randint(-2, 400)), quality=90)
        compare(path, [("resize", log_size(900), log_size(40), random.randint(0, 1))], "tall")
    for _ in range(40 * LONG):
        path = encode(picture(log_size(400), log_size(400)), quality=90)
        side = log_size(300)
        most = random.choice([0, side + 1 + log_size(200)])
        ops = [("resize", side, 0, random.randint(0, 1), most), ("center_crop", 50, 40)]
        compare(path, ops, "short side")


def random_op():
    name = random.choice(["random_resized_crop", "resize", "resize", "center_crop", "flip"])
    if name == "random_resized_crop":
        return (name, log_size(200), log_size(200), random.randint(0, 1), 0.05, random.random() / 2
                + 0.5, 0.5, random.random() * 3 + 0.5)
    if name == "resize":
        return (name, log_size(200), random.choice([0, log_size(200)]), random.randint(0, 1))
    return (name, log_size(200), log_size(200)) if name == "center_crop" else (name, 0.5)


def check_chains():
    """Whatever is merged gives the bytes of one operation after the other."""
    for i in range(150 * LONG):
        path = encode(picture(random.randint(10, 250), random.randint(10, 250)), quality=90)
        ops = [random_op() for _ in range(random.randint(1, 6))] + [("center_crop", 60, 70)]
        compare(path, ops, "chain", seed=random.getrandbits(64), epoch=i, id=random.getrandbits(47))


def check_presets():
    for i in range(60 * LONG):
        path = encode(picture(random.randint(40, 700), random.randint(40, 500)), quality=85)
        compare(path, EVAL, "eval")
        compare(path, TRAIN, "train", seed=i, epoch=random.getrandbits(24), id=i * 977)
    for size in [(1, 1), (1, 900), (900, 1), (2, 300)]:
        path = encode(picture(*size))
        for id in range(5):
            compare(path, TRAIN, "odd shape", id=id)
        compare(path, [("resize", 16), ("center_crop", 24, 24)], "odd shape")


def check_exif():
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for size in [(37, 21), (20, 50), (1, 9)]:
            path = encode(picture(*size), exif=exif)
            compare(path, [], f"orientation {orientation}", exif=1)
            compare(path, [], f"orientation {orientation} not applied")
            compare(path, [("resize", 20), ("center_crop", 16, 16)], f"turn {orientation}", exif=1)


def check_floats():
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    path = encode(picture(61, 47), quality=95)
    planes = np.asarray(rgb(path)).transpose(2, 0, 1)
    values = planes.astype(np.float32) / np.float32(255)
    normal = (values - np.float32(mean)[:, None, None]) / np.float32(std)[:, None, None]
    op = [("normalize", *mean, *std)]
    for ops, want in ([], values), (op, normal):
        bits = want.view(np.uint32)
        bfloat = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        for pixels, right in (2, want), (3, want.astype(np.float16)), (4, bfloat):
            got = driver.run(path, words(ops), pixels)["data"]
            expect(got == right.tobytes(), f"float output {pixels} {words(ops)}")
    expect(driver.run(path, pixels=1)["data"] == planes.tobytes(), "uint8 planes")


def check_torchvision():
    try:
        import torch
        from torchvision import transforms as T
    except ImportError:
        print("no torchvision: its transforms are not compared")
        return
    steps = T.Compose([T.Resize(64), T.CenterCrop(56), T.ToTensor(),
                       T.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.25])])
    ops = "resize:64,center_crop:56:56,normalize:0.5:0.4:0.3:0.2:0.3:0.25"
    for _ in range(30 * LONG):
        path = encode(picture(random.randint(30, 300), random.randint(30, 300)), quality=90)
        want = steps(rgb(path))
        for pixels, kind in (2, torch.float32), (3, torch.float16), (4, torch.bfloat16):
            got = bytearray(driver.run(path, ops, pixels)["data"])
            expect(torch.equal(torch.frombuffer(got, dtype=kind).reshape(want.shape),
                               want.to(kind)), f"torchvision {kind}")
        crop = T.CenterCrop((90, 35))(rgb(path))
        expect(driver.run(path, "center_crop:90:35")["data"] == crop.tobytes(), "CenterCrop")


for check in (check_decode, check_ends, check_resize, check_chains, check_presets, check_exif, check_floats,
              check_torchvision):
    check()
expect(driver.end(), "end of the driver")
print(f"{checks} comparisons, {wrong} differ (Pillow {Image.__version__})")
sys.exit(1 if wrong or not checks else 0)
