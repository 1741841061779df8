"""Several daemons with copies of one data set serve one world without a server between them: the same plan, each record once,
each daemon reads what its own ranks need; a copy that differs is noticed."""
from harness import *

WORLD, BATCH, LANES = 6, 8, 48
SHARDS, RECORDS = 6, 40


class Node(Case):
    """A daemon with socket, cache and data of its own."""

    def serve(self, source, **feed):
        shutil.copytree(source, self.folder / "copy", copy_function=shutil.copyfile)  # the times are others
        self.config({"source": str(self.folder / "copy/*.tar"), "batch": BATCH, "lanes": LANES, "shuffle": 2 * LANES, "seed": 4,
                     "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}], **feed})
        self.start_daemon()
        self.ctl("slices", "feed", "--world", WORLD)  # by now the index is there
        return self

    def attach(self, rank, **options):
        trainer = self.trainer()
        trainer.reply = trainer.attach(job="run", rank=rank, world=WORLD, **options)
        return trainer


class ManyNodes(Case):
    def setUp(self):
        super().setUp()
        rng = random.Random(2)
        self.data = self.folder / "data"
        self.data.mkdir()
        for shard in range(SHARDS):
            write_tar(self.data / f"{shard}.tar", [(f"{shard}-{i:03d}.bin", rng.randbytes(rng.randrange(60000, 140000))) for i in range(RECORDS)])

    def node(self, source=None, **feed):
        node = Node()
        node.setUp()
        self.addCleanup(node.doCleanups)
        return node.serve(source or self.data, **feed)

    def world(self, nodes, **options):
        """Trainers by rank; neighbours share a node."""
        return [nodes[rank * len(nodes) // WORLD].attach(rank, **options) for rank in range(WORLD)]

    @staticmethod
    def run_all(trainers, **options):
        for trainer in trainers:
            trainer.send("run", print=3, **options)
        return [trainer.results()[:-1] for trainer in trainers]

    def check_nodes(self, count, want):
        nodes = [self.node() for _ in range(count)]
        trainers = self.world(nodes)
        self.assertEqual(len({(t.reply["plan_id"], t.reply["fingerprint"], t.reply["steps"]) for t in trainers}), 1)
        self.assertEqual({c["plan_id"] for node in nodes for c in node.status()["clients"]}, {trainers[0].reply["plan_id"]})
        got = self.run_all(trainers, epochs=1)
        before = [node.daemon_bytes_read() for node in nodes]
        more = self.run_all(trainers, epochs=3)
        read = [node.daemon_bytes_read() - b for node, b in zip(nodes, before)]
        self.assertEqual([a + b for a, b in zip(got, more)], want)
        for epoch in range(4):
            seen = [i for a, b in zip(got, more) for line in a + b if line["epoch"] == epoch for i, valid in zip(line["index"], line["flags"]) if valid]
            self.assertEqual(sorted(seen), list(range(SHARDS * RECORDS)))
        return read

    def test_two_and_three(self):
        alone = self.world([self.node()])
        want = self.run_all(alone, epochs=4)
        share = 3 * sum(path.stat().st_size for path in self.data.iterdir())  # in three epochs
        for count in (2, 3):
            with self.subTest(nodes=count):
                read = self.check_nodes(count, want)
                factors = [each * count / share for each in read]
                print(f"{count} nodes: bytes read in three epochs over the share of each: " + " ".join(f"{f:.3f}" for f in factors))
                self.assertLess(max(factors), 1.2)
                self.assertGreater(min(factors), 0.8)

    def small(self, size=1000, key="17"):
        """A copy of a smaller set; one record's size and key."""
        folder = self.folder / f"small-{size}-{key}"
        folder.mkdir()
        for shard in range(3):
            write_tar(folder / f"{shard}.tar", [(f"{shard}-{key if i == 17 else i}.bin", bytes(size if i == 17 else 1000)) for i in range(30)])
        return folder

    def test_a_copy_that_differs_is_noticed(self):
        whole, fewer, turned = self.small(), self.folder / "fewer", self.folder / "turned"
        changes = {"one record is a byte longer": self.small(size=1001), "one key differs": self.small(key="17a")}
        for name, words in ((fewer, "a shard is missing"), (turned, "two shards are exchanged")):
            shutil.copytree(whole, name)
            changes[words] = name
        (fewer / "2.tar").unlink()
        (turned / "0.tar").rename(turned / "3.tar")
        for words, other in changes.items():
            with self.subTest(words):
                first, second = self.node(whole), self.node(other)
                ranks = [first.attach(0), second.attach(1)]
                for key in ("fingerprint", "plan_id"):
                    self.assertNotEqual(ranks[0].reply[key], ranks[1].reply[key])
                tokens = [lines[-1]["token"] for lines in self.run_all(ranks, batches=2)]
                for node, theirs, ours in ((first, 1, 0), (second, 0, 1)):
                    reply = node.trainer().attach(job="resumed", rank=0, world=WORLD, resume=tokens[theirs], expect=-22)
                    for word in ("data set", ranks[theirs].reply["fingerprint"], ranks[ours].reply["fingerprint"]):
                        self.assertIn(word, reply["error"])
                    node.trainer().attach(job="resumed", rank=0, world=WORLD, resume=tokens[ours])

    def test_a_world_goes_on_at_other_nodes(self):
        """From two nodes to three, by a token: other daemons, other paths, the same run."""
        two = self.world([self.node() for _ in range(2)])
        want = self.run_all(two, epochs=2)
        three = self.world([self.node() for _ in range(3)], resume=want[0][1]["token"])
        seen = lambda ranks: [[{key: value for key, value in line.items() if key != "step"} for line in lines] for lines in ranks]
        self.assertEqual(seen(self.run_all(three, epochs=2)), seen([lines[2:] for lines in want]))


main()
