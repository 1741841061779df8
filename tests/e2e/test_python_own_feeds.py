"""Feeds given to a daemon that runs: dataload.Feed, its patterns, and what cannot be given."""
import signal

from python_case import *

numpy = need("numpy")
FEED = {"batch": 8, "shuffle": 32, "seed": 7}
NAMES = ["data-00000", "data-00001", "data-00002", "data-00010", "data-2", "Z", "a", "\u00e9", "odd {x}", "star*", "starX", ".hidden", "b[1]"]


class Patterns(PythonCase):
    """They are expanded as the daemon does: the same shards in the same order make the same fingerprint."""

    def setUp(self):
        super().setUp()
        (self.folder / "data").mkdir()
        for name in NAMES:
            write_tar(self.folder / f"data/{name}.tar", [(f"{number}.cls", b"1") for number in range(1 + NAMES.index(name))])

    def path(self, pattern):
        return "::".join(one and f"{self.folder}/data/{one}" for one in pattern.split("::"))

    def feeds(self, patterns):
        """Given ones, and the same in the configuration of a daemon."""
        made = [dataload.Feed(name=f"p{number}", image=None, batch=1, transform="none",
                              shards=[self.path(one) for one in pattern.split("|")]) for number, pattern in enumerate(patterns)]
        self.config([feed.settings for feed in made])
        self.start_daemon()
        return made

    def test_equal(self):
        for feed in self.feeds(["data-{00000..00002}.tar", "data-000{00..2}.tar", "data-000{10..10}.tar::a.tar",
                                "{a,Z,\u00e9}.tar", "*.tar", "data-*[!0].tar", "data-*[^0].tar", "data-0000[[:digit:]].tar", "star\\*.tar", "star*.tar",
                                "odd {x}.tar", "odd*{x,}*.tar", ".*.tar", "b[1].tar", "{a,Z}{.tar,.tar}", "data-{2..2}.tar", "Z.tar|a.tar|Z.tar", "?.tar",
                                f"../*/{{a,star}}*.tar", "data-2.tar::*.tar"]):
            with self.subTest(feed):
                with self.loader(feed) as own, self.loader(feed.name) as configured:
                    self.assertEqual([own.info[key] for key in ("fingerprint", "plan_id", "records")],
                                     [configured.info[key] for key in ("fingerprint", "plan_id", "records")])

    def test_errors(self):
        for feed in self.feeds(["data-{00000..00003}.tar", "none.tar", "none-*.tar", "{4..0}.tar", "data-{a..b}.tar", "{a,b.tar", "{a,{Z,b}}.tar", "a.tar::", "none/*.tar",
                                "a.tar/x.tar", "data-{1..1000001}.tar", "{a}" * 9, "data-{0..}.tar"]):
            with self.subTest(feed):
                with self.assertRaises((OSError, ValueError)) as own:
                    self.loader(feed)
                with self.assertRaises(dataload.Error) as configured:
                    self.loader(feed.name)
                self.assertIn(str(own.exception), str(configured.exception))


class Given(PythonCase):
    def setUp(self):
        super().setUp()
        self.serve(feed=FEED)
        self.feed = dataload.Feed(name="mine", shards=self.folder / "data/data-{00000..00003}.tar", **FEED)

    def rows(self, loader):
        return [int(index) for batch in loader for index in batch["index"]]

    def test_the_same_as_a_configured_feed(self):
        own, configured = self.loader(self.feed, job="own"), self.loader(job="configured")
        self.assertEqual(own.info["feed"], f"~{os.getuid()}/mine")
        self.assertEqual(repr(own), "<dataload.Loader mine: rank 0 of 1, batch 8, epoch 0>")
        for _ in range(2):
            for mine, other in zip(own, configured, strict=True):
                self.assertTrue(numpy.array_equal(mine["image"], other["image"]) and numpy.array_equal(mine["label"], other["label"]))
        named = self.loader(own.info["feed"], job="by-name")
        self.assertEqual(named.info["plan_id"], own.info["plan_id"])

    def test_states(self):
        names = {"index": "index"}
        want = self.rows(self.loader(self.feed, job="whole", names=names))
        loader = self.loader(self.feed, names=names)
        passing = iter(loader)
        rows = [int(index) for _ in range(4) for index in next(passing)["index"]]
        state = loader.state_dict()
        for again in (self.loader(self.feed, job="resumed", names=names, resume=state), loader):
            again.load_state_dict(state)
            self.assertEqual(rows + self.rows(again), want)

    def test_restart(self):
        names = {"index": "index"}
        want = self.rows(self.loader(self.feed, job="whole", names=names))
        loader = self.loader(self.feed, names=names)
        passing = iter(loader)
        rows = [int(index) for _ in range(4) for index in next(passing)["index"]]
        self.stop_daemon(signal.SIGKILL)
        self.start_daemon()
        rows += [int(index) for batch in passing for index in batch["index"]]
        self.assertEqual(rows, want)

    def test_ranks(self):
        loaders = [self.loader(self.feed, rank=rank, world=2, job="run", names={"index": "index"}) for rank in range(2)]
        self.assertEqual(len({index for loader in loaders for index in self.rows(loader)}), 100)

    def test_feeds_without_a_name(self):
        """Two in one job are two, and equal ones are one."""
        feeds = [dataload.Feed(shards=self.folder / "data/*.tar", transform=transform, **FEED) for transform in ("train", "eval")]
        train, val = [self.loader(feed, job="run", rank=0, world=2) for feed in feeds]
        self.assertRegex(train.info["feed"], rf"^~{os.getuid()}/feed-[0-9a-f]{{8}}$")
        self.assertNotEqual(train.info["feed"], val.info["feed"])
        self.assertEqual(self.loader(feeds[0], job="run", rank=1, world=2).info["feed"], train.info["feed"])

    def test_example(self):
        environment = {**os.environ, **PRELOADED, "DATALOADD_SOCKET": str(self.socket), "PYTHONPATH": str(PACKAGE)}
        done = subprocess.run([sys.executable, "-B", SOURCE / "client/examples/python/own_feed.py", self.folder / "data/data-{00000..00003}.tar"],
                              capture_output=True, text=True, env=environment)
        self.assertRegex(done.stdout, rf"^100 samples of ~{os.getuid()}/mine, plan [0-9a-f]{{16}}$", done)

    def test_measured(self):
        self.assertGreater(self.loader(self.feed).input_only(0.1), 0)

    def test_what_cannot_be_given(self):
        for words, settings in (("dataload-pack folder", {"folder": self.folder / "data"}), ("make shards without", {"shards": "/x.tar", "exclude": "/y"}),
                                ("its user alone", {"shards": "/x.tar", "allow": {"users": ["root"]}})):
            with self.assertRaisesRegex(TypeError, f"cannot be given to the daemon of the node: .*{words}.*spawn=True"):
                self.loader(dataload.Feed(**settings))
        with self.assertRaisesRegex(TypeError, "config= is for a daemon of your own: add spawn=True"):
            self.loader(config=[self.feed])
        with self.assertRaisesRegex(dataload.Error, r"recipe:\d+: batch: \"many\" is not a whole"):
            self.loader(dataload.Feed(shards=self.folder / "data/*.tar", batch="many"))

    def test_refused_by_the_daemon(self):
        self.config({"source": str(self.folder / "data/*.tar"), **FEED}, own_feeds=False)
        self.ctl("reload")
        with self.assertRaisesRegex(dataload.NotPermitted, "own_feeds: no"):
            self.loader(self.feed)

    def test_a_shard_that_cannot_be_read(self):
        feed = dataload.Feed(shards=self.folder / "data", **FEED)
        with self.assertRaisesRegex(dataload.Error, "/data is no regular file: .*dataload-pack"):
            self.loader(feed)


main()
