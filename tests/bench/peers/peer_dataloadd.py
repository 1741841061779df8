"""Our daemon with a null trainer on its C library, each a process of its own; the shards are tar files of the same
JPEG bytes."""
import math
import subprocess

import numpy
from harness import CTL, Case, write_tar

SETTINGS = {"exact": {}}
NAMES = {"exact": "dataloadd"}
FILTER = "antialiased bilinear"


def version(**_):
    return subprocess.run([CTL, "--version"], capture_output=True, text=True, check=True).stdout.strip()


class Node(Case):
    def runTest(self):
        pass


def make(files, batch, workers, train, **feed):
    node = Node()
    node.setUp()
    one = list(dict.fromkeys(files))
    write_tar(node.folder / "shard.tar", ((f"{number:06d}.jpg", open(path, "rb").read()) for number, path in enumerate(one)))
    links = [node.folder / f"{number:05d}.tar" for number in range(math.ceil(len(files) / len(one)))]
    for link in links:
        link.symlink_to(node.folder / "shard.tar")
    node.config({"source": [str(link) for link in links], "fields": [{"name": "image", "from": ["jpg"], "kind": "image"}], "batch": batch,
                 "transform": "train" if train else "eval", "shuffle": 1024, **feed}, workers=workers)
    node.start_daemon()
    trainer = node.trainer()
    trainer.attach(timeout=600000)

    def batches():
        try:
            first = trainer.next(rows=0)["handle"]
            trainer.call("save", handle=first, path=node.folder / "rows")
            trainer.call("release", handle=first)
            yield numpy.fromfile(node.folder / "rows", numpy.uint8).reshape(batch, 224, 224, 3)
            while True:
                trainer.run(batches=1, print=0)
                yield range(batch)
        finally:
            node.doCleanups()
    return batches()
