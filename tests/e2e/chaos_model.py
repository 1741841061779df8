"""The oracle of test_chaos.py: feeds of every kind, and what each rank must get from them.

What a rank must get comes from a trainer that nobody disturbs; its order is compared with the reference model's.
"""
import os
import random
import typing

from harness import jpeg, write_tar
from plan_oracle import Order, Plan

HEAVY_BYTES = 600_000
EPOCHS = 3  # that the oracle knows
BATCH_FAILED = -74  # EBADMSG


class Choice(typing.NamedTuple):
    """What decides what the ranks of a job get."""
    feed: str
    world: int
    batch: int
    seed: int


class Data:
    """The shards that the feeds read."""

    def __init__(self, folder, rng):
        self.folder = folder
        self.pictures = [jpeg(rng.randrange(24, 64), rng.randrange(24, 64), seed) for seed in range(12)]
        self.sizes = {}
        for name, shards, records in (("train", 4, 25), ("tiny", 1, 3), ("bad", 2, 20), ("heavy", 3, 8)):
            self.sizes[name] = [self.write_shard(name, shard, records) for shard in range(shards)]
        self.sizes["folder"] = [self.write_folder(30)]

    def write_shard(self, name, shard, records):
        where = self.folder / name
        where.mkdir(parents=True, exist_ok=True)
        members, sizes = [], []
        for record in range(records):
            number = shard * records + record
            picture = self.pictures[number % len(self.pictures)]
            if name == "bad" and number % 13 == 5:
                picture = picture[:len(picture) // 2]
            if name == "heavy":
                picture = random.Random(number).randbytes(HEAVY_BYTES - 1000 * number)
            label = str(number % 10).encode()
            members += [(f"{number:06d}.jpg", picture), (f"{number:06d}.cls", label)]
            sizes.append(len(picture) + len(label))
        write_tar(where / f"{shard:03d}.tar", members)
        return sizes

    def write_folder(self, records):
        sizes = {}
        for number in range(records):
            name = f"class{number % 3}/{number:03d}.jpg"
            path = self.folder / "folder" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.pictures[number % len(self.pictures)])
            sizes[name] = path.stat().st_size
        return [sizes[name] for name in sorted(sizes)]

    def feeds(self):
        """The configuration's feeds by name."""
        crop = [{"random_resized_crop": {"size": 24}}, {"flip": 0.5}]
        middle = [{"resize": 32}, {"center_crop": 24}]
        raw = [{"name": "raw", "from": ["jpg"], "kind": "bytes"}, {"name": "label", "from": ["cls"], "kind": "int"}]
        feeds = [{"name": "train", "source": "train", "transform": crop, "shuffle": 48, "lanes": 8},
                 {"name": "eval", "source": "train", "transform": middle, "shuffle": 0, "tail": "partial"},
                 {"name": "drop", "source": "train", "transform": crop, "shuffle": 1000, "tail": "drop"},
                 {"name": "ragged", "source": "train", "fields": raw, "shuffle": 30, "lanes": 5},
                 {"name": "heavy", "source": "heavy", "fields": raw, "shuffle": 16, "lanes": 3},
                 {"name": "fail", "source": "bad", "transform": middle, "shuffle": 16, "lanes": 4, "bad_samples": "fail"},
                 {"name": "folder", "folder": "folder", "transform": crop, "shuffle": 20, "lanes": 3, "tail": "partial"},
                 {"name": "tiny", "source": "tiny", "transform": middle, "shuffle": 0, "tail": "partial"},
                 {"name": "fat", "source": "train", "shuffle": 0, "output": "float32_nchw", "batch": 8, "slots": 3}]
        for feed in feeds:
            if "folder" in feed:
                feed["folder"] = str(self.folder / feed["folder"])
            else:
                feed["source"] = str(self.folder / feed["source"] / "*.tar")
        return {feed["name"]: feed for feed in feeds}

    def plan(self, feed, choice):
        sizes = self.sizes[os.path.basename(feed["folder"] if "folder" in feed else os.path.dirname(feed["source"]))]
        order = Order(sizes, feed["shuffle"], feed.get("lanes", 64), feed.get("tail", "wrap"))
        return Plan(order, choice.world, choice.batch, choice.seed)


def content(line):
    """What a line of the trainer says of a batch itself."""
    return {key: value for key, value in line.items() if key not in ("rc", "handle")}


class Reference:
    """What each rank must get: by (epoch, step) a batch's content, None where the batch fails."""

    def __init__(self, choice, trainer, plan, **attach):
        self.steps, self.turns = [], []
        for rank in range(plan.world):
            reply = trainer.attach(feed=choice.feed, job=f"reference-{rank}", rank=rank, world=plan.world, batch=plan.batch,
                                   seed=plan.seed, epoch=0, **attach)
            self.steps.append(reply["steps"])
            self.turns.append(self.read(trainer, reply["steps"]))
            trainer.call("detach")
            self.compare(rank, plan)

    @staticmethod
    def read(trainer, steps):
        turns = {}
        places = [(epoch, step) for epoch in range(EPOCHS) for step in range(steps)]
        while places:
            trainer.send("run", batches=len(places), epochs=EPOCHS + 1, print=2)
            lines = trainer.results()
            for line in lines[:-1]:
                turns[places.pop(0)] = content(line)
            if lines[-1]["rc"] == BATCH_FAILED:
                turns[places.pop(0)] = None
            elif lines[-1]["rc"]:
                raise AssertionError(f"undisturbed, yet: {lines[-1]}")
        return turns

    def compare(self, rank, plan):
        for (epoch, step), turn in self.turns[rank].items():
            want = [number for number, _ in plan.rows(rank, epoch, step)]
            if turn and (turn["epoch"], turn["step"], turn["index"]) != (epoch, step, want):
                raise AssertionError(f"rank {rank}, epoch {epoch}, step {step}: {turn} instead of {want}")


def choose(rng, feeds):
    feed = rng.choice([name for name in feeds if name != "fat"])
    world = rng.choice([1, 2, 2, 3, 4])
    batch = rng.choice({"tiny": [1, 2], "heavy": [1, 2, 3]}.get(feed, [2, 3, 5]))
    return Choice(feed, world, batch, random.Random(rng.random()).choice([0, 1, 2**40 + 7]))
