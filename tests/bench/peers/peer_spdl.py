"""SPDL: threads that decode by FFmpeg and crop, scale and flip by its filters, as in SPDL's image example. Sizes of
pictures are known beforehand, so that drawing crops costs it nothing."""
import math
import random
from importlib.metadata import version as release

import spdl.io
from PIL import Image
from spdl.pipeline import PipelineBuilder

SETTINGS = {"batch": {}, "each": {"each": True}, "bicubic": {"flags": "bicubic"}, "area": {"flags": "area"},
            "fast": {"flags": "fast_bilinear"}, "more": {"extra": 1}}
NAMES = {"batch": "SPDL"}
FILTER = "swscale's bilinear, which widens when it makes smaller"


def version(**_):
    return f"spdl {release('spdl')}"


def draw(width, height):
    """torchvision's RandomResizedCrop: x, y, width, height."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def steps(size, train, flags):
    if not train:
        return spdl.io.get_video_filter_desc(scale_width=256, scale_height=256, scale_mode="crop", scale_algo=flags, crop_width=224, crop_height=224)
    x, y, w, h = draw(*size)
    flip = ",hflip" if random.random() < 0.5 else ""
    return f"crop=w={w}:h={h}:x={x}:y={y},scale=w=224:h=224:flags={flags}{flip},format=pix_fmts=rgb24"


def make(files, batch, workers, train, each=False, flags="bilinear", extra=0):
    sizes = {}
    for path in dict.fromkeys(files):
        with Image.open(path) as image:
            sizes[path] = image.size

    def decode(path):
        return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=steps(sizes[path], train, flags))

    def collate(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def source():
        while True:
            yield from random.sample(files, len(files))

    threads = workers + extra
    builder = PipelineBuilder().add_source(source())
    if each:
        builder.pipe(decode, concurrency=threads).aggregate(batch).pipe(collate)
    else:
        builder.aggregate(batch).pipe(lambda paths: collate([decode(path) for path in paths]), concurrency=threads)
    pipeline = builder.add_sink(2).build(num_threads=threads + each, max_failures=0)

    def batches():
        with pipeline.auto_stop():
            yield from pipeline
    return batches()
