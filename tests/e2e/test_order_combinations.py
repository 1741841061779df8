"""The order as trainers see it, in random settings, against the model of docs/order.md: every row, flag, count and token,
from a start and from a token at another world. What cannot be served is refused with the numbers."""
from harness import *

sys.path.insert(0, str(SOURCE / "tests/support"))
from order_model import batches, order  # noqa: E402

COMBINATIONS = 1500 if LONG else 60 if SANITIZE else 400
FEEDS, WORLDS = 48, (1, 1, 2, 3, 4, 5)


class Feed:
    """A feed of some of the shards, and what the model says of it."""

    def __init__(self, number, rng, shards):
        self.name = f"f{number}"
        self.paths, self.sizes = zip(*rng.sample(shards, rng.choice([1, 1, 2, 3, 5])))
        self.records = sum(map(len, self.sizes))
        self.shuffle = rng.choice([0, 1, 5, 64, self.records, rng.randrange(1, 400), 2**64 - 1])
        self.lanes = rng.choice([1, 2, 3, 4, 7, 8, 16, 64, 64, 200])
        self.tail = rng.choice(["wrap", "drop", "partial"])
        self.first = [sum(map(len, self.sizes[:s])) for s in range(len(self.sizes))]

    def config(self):
        return {"name": self.name, "source": list(self.paths), "shuffle": self.shuffle, "lanes": self.lanes, "tail": self.tail, "batch": 1,
                "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}]}

    def steps(self, world, batch, start=0):
        return batches(self.records, self.lanes if self.shuffle else 1, world, batch, start, self.tail)

    def lines(self, seed, epoch, world, batch, start):
        """What each rank is to see of an epoch from a start on: (epoch, step, ids, flags, next)."""
        ids = [self.first[s] + k for s, k in order(self.sizes, seed, epoch, self.shuffle, self.lanes)]
        steps = self.steps(world, batch, start)
        return [[(epoch, t, [ids[i % self.records] for i in rows[rank]], [int(i < self.records) for i in rows[rank]])
                 for t, rows in enumerate(steps) if rows[rank]] for rank in range(world)]


class Combinations(Case):
    def serve(self):
        rng = self.rng = random.Random(1)
        (self.folder / "data").mkdir()
        shards = []
        for number, count in enumerate([0, 0, 1, 1, 2, 3, 5, 9, 20, 33, 60, 90]):
            sizes = [rng.choice([0, 7, 600, rng.randrange(5000)]) for _ in range(count)]
            path = str(self.folder / f"data/{number}.tar")
            write_tar(path, [(f"{number}-{i}.bin", bytes(size)) for i, size in enumerate(sizes)])
            shards.append((path, sizes))
        self.feeds = [Feed(number, rng, shards) for number in range(FEEDS)]
        self.config([feed.config() for feed in self.feeds])
        self.start_daemon()
        self.pool = [self.trainer() for _ in range(max(WORLDS))]

    def attach(self, feed, world, **options):
        """Replies of all ranks of a new job."""
        self.count["attaches"] += 1
        ranks = self.pool[:world]
        for rank, trainer in enumerate(ranks):
            trainer.send("attach", feed=feed.name, job=f"j{self.count['attaches']}", rank=rank, world=world, **options)
        return [trainer.receive() for trainer in ranks]

    def check(self, feed, seed, epoch, start, world, batch, replies):
        """Two epochs from the start on; returns a token of rank 0, with its place."""
        if not feed.steps(world, batch, start):
            epoch, start = epoch + 1, 0
        want = [a + b for a, b in zip(feed.lines(seed, epoch, world, batch, start), feed.lines(seed, epoch + 1, world, batch, 0))]
        self.assertEqual([reply["rc"] for reply in replies], [0] * world, replies)
        for trainer in self.pool[:world]:
            trainer.send("run", epochs=2, print=3)
        got = [trainer.results() for trainer in self.pool[:world]]
        self.assertEqual([lines[-1]["rc"] for lines in got], [0] * world, got)
        for rank, lines in enumerate(got):
            self.assertEqual([(x["epoch"], x["step"], x["index"], x["flags"]) for x in lines[:-1]], want[rank])
            whole = len(feed.lines(seed, epoch + 1, world, batch, 0)[rank])
            self.assertEqual((replies[rank]["steps"], replies[rank]["first_steps"]), (whole, len(want[rank]) - whole))
        return self.check_tokens(feed, epoch, start, world, batch, got[0][:-1], got)

    def check_tokens(self, feed, epoch, start, world, batch, first, got):
        places = []
        for line in first:
            p, e = (start, epoch) if line["epoch"] == epoch else (0, epoch + 1)
            last = line["step"] + 1 == len(feed.steps(world, batch, p))
            places.append((e + 1, 0) if last else (e, p + (line["step"] + 1) * world * batch))
            token = json.loads(line["token"])
            self.assertEqual((token["epoch"], token["next"]), places[-1])
        for line in (line for lines in got for line in lines[:-1]):
            self.assertEqual((line["rows"], line["valid"]), (len(line["index"]), sum(line["flags"])))
            self.assertGreater(line["rows"], 0)
            self.count["batches"] += 1
            self.count["rows"] += line["rows"]
            self.count["repeated rows"] += line["rows"] - line["valid"]
        at = self.rng.randrange(len(first))
        return first[at]["token"], *places[at]

    def check_refusal(self, feed, world, batch, replies):
        self.count["refused"] += 1
        for reply in replies:
            self.assertEqual(reply["rc"], -22 if feed.records else -5, replies)
            self.assertIn(f"{feed.records} record", reply["error"])
            self.assertIn(f"= {world * batch} rows" if feed.records else "SHARD-EMPTY", reply["error"])

    def one(self, feed):
        seed, epoch = self.rng.choice([0, 1, self.rng.getrandbits(62)]), self.rng.choice([0, 1, self.rng.getrandbits(20)])
        world, batch = self.rng.choice(WORLDS), self.rng.choice([1, 1, 2, 3, 8, 31])
        replies = self.attach(feed, world, batch=batch, seed=seed, epoch=epoch)
        if not feed.steps(world, batch):
            self.check_refusal(feed, world, batch, replies)
            return
        token, epoch, start = self.check(feed, seed, epoch, 0, world, batch, replies)
        world, batch = self.rng.choice(WORLDS), self.rng.choice([1, 2, 5, 9])
        replies = self.attach(feed, world, batch=batch, resume=token)
        if not feed.steps(world, batch):
            self.check_refusal(feed, world, batch, replies)
        else:
            self.check(feed, seed, epoch, start, world, batch, replies)

    def test_random_settings(self):
        self.count = {"attaches": 0, "refused": 0, "batches": 0, "rows": 0, "repeated rows": 0}
        self.serve()
        for number in range(COMBINATIONS):
            feed = self.rng.choice(self.feeds)
            with self.subTest(number=number, shuffle=feed.shuffle, lanes=feed.lanes, tail=feed.tail, sizes=[len(s) for s in feed.sizes]):
                self.one(feed)
        print(f"{COMBINATIONS} combinations: {self.count}")


main()
