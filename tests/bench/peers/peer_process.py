"""One loader in a process of its own, for peers.py.

  peer_process.py MODULE SETTING FOLDER BATCH WORKERS train|eval OPTIONS

Prints one JSON object: name, version, and what the output of a picture of noise says about type and filter.
Then it answers each line "N" on standard input, N a number of batches, with the seconds they took.
"""
import importlib
import json
import os
import pathlib
import random
import sys
import tempfile
import time

import numpy
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "e2e")]
EPOCH = 60000  # pictures, at least: no run of the measurement ends one
NOISE = 2048   # its side; any crop of it is made smaller at least twice


def noise(folder):
    """A JPEG of noise: its deviation, and its path."""
    pixels = numpy.random.default_rng(1).integers(0, 256, (NOISE, NOISE), numpy.uint8)
    path = folder / "noise.jpg"
    Image.fromarray(pixels).convert("RGB").save(path, quality=95, subsampling=0)
    return float(numpy.asarray(Image.open(path)).std()), str(path)


def look(make, workers, train):
    """Of one batch of noise: its type, and how much of the deviation is left; ends where the output is not what is to
    be compared. Two taps a side leave about 0.44 at any size, an antialiased filter less the smaller the output."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        deviation, path = noise(pathlib.Path(folder))
        batches = make([path] * 64, 16, workers, train)
        pixels = numpy.asarray(next(batches))
        del batches
    shape = pixels.shape[1:]
    if sorted(shape) != [3, 224, 224] or pixels.dtype != numpy.uint8:
        sys.exit(f"gives {pixels.dtype} {shape}, not 224x224x3 bytes")
    if len({row.tobytes() for row in pixels}) != (16 if train else 1):
        sys.exit("its crops do not differ" if train else "the same picture differs")
    return {"output": f"uint8 {'x'.join(map(str, shape))}", "left": round(float(pixels.std(axis=(1, 2, 3)).mean()) / deviation, 3)}


def main():
    module, setting, folder, batch, workers, transform, options = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a loader prints is no answer
    random.seed(1)
    peer = importlib.import_module(f"peer_{module}")
    settings = peer.SETTINGS.get(setting, {}) | json.loads(options)
    base = setting if setting in peer.NAMES else setting.split("-")[0]
    name = peer.NAMES.get(base, next(iter(peer.NAMES.values()))) + ("" if setting == base and base in peer.NAMES else f", {setting}")

    def make(files, count, *rest):
        return peer.make(files, count, *rest, **settings)
    arguments = (int(workers), transform == "train")
    facts = {"name": name, "version": peer.version(**settings), "filter": peer.FILTER, **look(make, *arguments)}
    files = sorted(str(path) for path in pathlib.Path(folder).iterdir() if path.suffix.lower() in (".jpg", ".jpeg"))
    batches = make(files * -(-EPOCH // len(files)), int(batch), *arguments)
    rows = len(next(batches))
    print(json.dumps({**facts, "rows": rows}), file=answers, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            last = next(batches)
        del last
        print(time.perf_counter() - start, file=answers, flush=True)


main()
