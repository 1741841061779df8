"""What goes wrong, by type, with words that say what to do."""
import unittest.mock

from python_case import *

numpy = need("numpy")


class Errors(PythonCase):
    def test_no_daemon(self):
        with self.assertRaisesRegex(dataload.DaemonGone, "no socket at .*dataloadd --user --config FILE starts one.*spawn=True"):
            self.loader()

    def test_names(self):
        self.serve()
        with self.assertRaisesRegex(dataload.NoSuchFeed, "there is no feed fed; there are: feed"):
            self.loader("fed")
        for options in ({"rank": 3, "world": 2}, {"batch_size": 0}, {"slots": 1}, {"job": "no name"}, {"rank": 1 << 70}):
            with self.assertRaises(dataload.Error):
                self.loader(**options)

    def test_texts_that_are_cut(self):
        """Wherever the library cuts a text, the exception is that of what has failed."""
        self.serve()
        for start in ("/", "/x"):
            with self.assertRaises(dataload.Error):
                dataload.Loader("feed", socket=start + "é" * 2000, as_="numpy")

    def test_numbers(self):
        """What C takes for "none given" is refused, what Python takes for a number is none."""
        self.serve()
        for name in ("batch_size", "seed", "epoch", "slots"):
            for number in (-1, 1 << 63):
                with self.assertRaisesRegex(ValueError, f"{name}={number} is not within"):
                    self.loader(**{name: number})
            with self.assertRaisesRegex(TypeError, f"{name}='8'"):
                self.loader(**{name: "8"})
        loader = self.loader(batch_size=numpy.int64(4), timeout=float("inf"))
        self.assertEqual(loader.info["batch"], 4)
        next(iter(loader))
        with self.assertRaisesRegex(ValueError, "epoch=-1"):
            loader.set_epoch(-1)
        self.loader(timeout=1e9, job="other")

    def test_no_framework(self):
        self.serve()
        with unittest.mock.patch.dict(sys.modules, {"jax": None}), self.assertRaisesRegex(ModuleNotFoundError, 'as_="jax" needs jax.*numpy'):
            self.loader(as_="jax")

    def test_rank_taken(self):
        self.serve()
        loader = self.loader(rank=0, world=2, job="run")
        with self.assertRaisesRegex(dataload.RankTaken, "rank 0.*close"):
            self.loader(rank=0, world=2, job="run")
        loader.close()
        self.loader(rank=0, world=2, job="run")

    def test_resume_refused(self):
        write_shards(self.folder / "data", shards=4, records=25)
        feed = {"source": str(self.folder / "data/*.tar"), "batch": 8, "seed": 7}
        self.config([{"name": "one", **feed, "shuffle": 32}, {"name": "two", **feed, "shuffle": 64}])
        self.start_daemon()
        loader = self.loader("one", rank=0, world=2, job="first")
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        with self.assertRaisesRegex(dataload.ResumeRefused, "shuffle 32, feed two has 64.*start without the token"):
            self.loader("two", resume=state)
        with self.assertRaisesRegex(dataload.ResumeRefused, "damaged"):
            self.loader("one", resume="{")
        next(iterator)
        with self.assertRaisesRegex(dataload.ResumeRefused, "all ranks start from one token"):
            self.loader("one", rank=1, world=2, job="first", resume=loader.state_dict())
        with self.assertRaises(dataload.Error) as other:
            self.loader("one", rank=1, world=3, job="first", resume=state)
        self.assertNotIsInstance(other.exception, dataload.ResumeRefused)

    def test_bad_samples(self):
        """The batch of a bad sample is an error, and the next call goes on; over the limit it is the end."""
        data = self.folder / "data"
        data.mkdir()
        members = []
        for i in range(40):
            members += [(f"s{i:02d}.jpg", jpeg(48, 48, i) if i != 13 else b"none"), (f"s{i:02d}.cls", b"1")]
        write_tar(data / "a.tar", members)
        feed = {"source": str(data / "a.tar"), "batch": 10, "transform": "eval"}
        self.config([{"name": "fail", **feed, "bad_samples": "fail"}, {"name": "limit", **feed, "bad_limit": 0}, {"name": "replace", **feed}])
        self.start_daemon()
        iterator, outcome = iter(self.loader("fail")), []
        for _ in range(4):
            try:
                outcome.append(len(next(iterator)["label"]))
            except dataload.BadSample as error:
                outcome.append("bad")
                self.assertRegex(str(error), "s13|a.tar")
        self.assertEqual(outcome, [10, "bad", 10, 10])
        with self.assertRaises(StopIteration):
            next(iterator)
        valid = [flag for batch in self.loader("replace") for flag in batch["valid"].tolist()]
        self.assertEqual([i for i, flag in enumerate(valid) if not flag], [13])
        with self.assertRaises(dataload.BadSample):
            for _ in self.loader("limit"):
                pass

    def test_daemon_gone_and_back(self):
        """The next batch comes from the new daemon, or the type says that there is none."""
        self.serve()
        loader = self.loader()
        iterator = iter(loader)
        first = next(iterator)["label"]
        self.stop_daemon(signal.SIGKILL)
        loader.timeout, count = 0.3, 0
        with self.assertRaisesRegex(dataload.Timeout, "within 0.3 s: dataloadd has gone"):
            while next(iterator):
                count += 1
        self.start_daemon()
        loader.timeout = 60
        self.assertEqual(count + sum(1 for _ in iterator), 12)
        self.assertEqual((loader.stats()["reconnects"], len(first)), (1, 8))

    def test_left_behind(self):
        """By a group that waits no longer for the batch that is kept."""
        self.serve(feed={"share": "mirror", "lag": "detach", "lag_bound": 1})
        slow, quick = self.loader(), self.loader()
        iterator = iter(slow)
        kept = next(iterator)
        self.assertEqual(sum(1 for _ in quick), 13)
        with self.assertRaisesRegex(dataload.LeftBehind, "attach anew"):
            while next(iterator):
                pass
        self.assertEqual(len(kept["label"]), 8)

    def test_timeout(self):
        self.serve()
        loader = self.loader()
        sum(1 for _ in loader)
        loader.timeout = 0.3
        self.daemon.send_signal(signal.SIGSTOP)
        with self.assertRaisesRegex(dataload.Timeout, r"no batch of feed feed within 0.3 s: .*samples/s"):
            for _ in loader:
                pass
        self.daemon.send_signal(signal.SIGCONT)
        loader.timeout = 60
        self.assertEqual(sum(1 for _ in loader), 13)

    def test_explain(self):
        """The daemon's verdict, or the trainer's own view where there is no dataloadctl."""
        self.serve()
        loader = self.loader()
        sum(1 for _ in loader)
        own = r"is the limit.*\d+ samples/s, waited \d+%"
        self.assertNotRegex(loader.explain(), own)
        self.assertRegex(loader.explain(), "limit|measuring")
        path = os.environ["PATH"]
        os.environ["PATH"] = "/nonexistent"
        self.addCleanup(os.environ.update, PATH=path)
        self.assertRegex(loader.explain(), own)


main()
