"""Loaders with a daemon of their own: feeds given in Python, ranks from the environment, and no daemon left."""
from python_case import *

RANK = """
import dataload, os, sys
feed = dataload.Feed(shards=sys.argv[1], batch=4, shuffle=16, tail="drop")
with dataload.Loader(feed, spawn=True, as_="numpy", names={"index": "index"}, timeout=60) as loader:
    rows = [int(index) for batch in loader for index in batch["index"]]
print(*rows, flush=True)
sys.stdin.read()
"""


class Spawned(Case):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "data", shards=2, records=48, width=32, height=32)
        self.shards = f"{self.folder}/data/*.tar"
        (self.folder / "run").mkdir(mode=0o700)
        self.env = {"XDG_RUNTIME_DIR": f"{self.folder}/run", "XDG_CACHE_HOME": f"{self.folder}/cache",
                    "PATH": f"{DAEMON.parent}:{os.environ['PATH']}"}
        before = dict(os.environ)
        os.environ.update(self.env)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        self.addCleanup(lambda: wait_for("the daemons to end", lambda: not self.daemons_alive()))
        self.feed = dataload.Feed(shards=self.shards, batch=4, shuffle=16)

    def daemons_alive(self):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if f"{self.folder}/run".encode() in entry.read_bytes():
                    found.append(int(entry.parent.name))
            except OSError:
                pass
        return found

    def rank(self, **env):
        process = subprocess.Popen([sys.executable, "-B", "-c", RANK, self.shards], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, **PRELOADED, "PYTHONPATH": str(PACKAGE), **env})
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        return process

    def test_a_feed_given_in_python(self):
        with dataload.Loader(self.feed, spawn=True, as_="numpy", names={"index": "index"}) as loader:
            rows = [int(index) for batch in loader for index in batch["index"]]
            self.assertEqual(len(loader), 24)
            self.assertEqual(len(self.daemons_alive()), 1)
        self.assertEqual(sorted(rows), list(range(96)))

    def test_ranks_of_torchrun(self):
        common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "run"}
        ranks = [self.rank(RANK=str(rank), LOCAL_RANK=str(rank), **common) for rank in (0, 1)]
        rows = [[int(row) for row in rank.stdout.readline().split()] for rank in ranks]
        self.assertEqual(len(self.daemons_alive()), 1)
        self.assertEqual([len(part) for part in rows], [48, 48], [rank.poll() is not None and rank.stderr.read() for rank in ranks])
        self.assertEqual(sorted(rows[0] + rows[1]), list(range(96)))
        for number, rank in enumerate(ranks):
            _, said = rank.communicate()
            self.assertEqual(said.count(f"dataload: rank {number} of 2 (from torchrun), job torchrun-run"), 1, said)

    def test_two_feeds(self):
        feeds = [self.feed, dataload.Feed(name="val", shards=self.shards, batch=6, transform="eval")]
        with dataload.Loader("feed", spawn=True, config=feeds, as_="numpy") as train, \
                dataload.Loader(feeds[1], spawn=True, config=feeds, as_="numpy") as val:
            self.assertEqual((len(train), len(val)), (24, 16))
            self.assertEqual(len(self.daemons_alive()), 1)
            with self.assertRaisesRegex(dataload.FeedsDiffer, "config="):
                dataload.Loader(self.feed, spawn=True, as_="numpy", timeout=1)

    def test_refused(self):
        for words, arguments in (("socket=", {"spawn": True, "socket": "/x"}), ("add it there", {"spawn": True, "config": []})):
            with self.assertRaisesRegex(TypeError, words):
                dataload.Loader(self.feed, as_="numpy", **arguments)
        with self.assertRaisesRegex(TypeError, "spawn=True"):
            dataload.Loader("feed", as_="numpy", config=[self.feed])
        with self.assertRaisesRegex(ValueError, "rank=1 is given without world"):
            dataload.Loader(self.feed, as_="numpy", spawn=True, rank=1)
        with self.assertRaisesRegex(dataload.DaemonFailed, r"feeds.json:\d+: slots: \"no\" is not a whole decimal number"):
            dataload.Loader(dataload.Feed(shards=self.shards, slots="no"), as_="numpy", spawn=True)


main()
