"""S31: a source that is wrong is an error that names pattern and reason, never an empty epoch."""
import os

from harness import *


class Typo(Case):
    def refused(self, source, *words, **feed):
        self.config({"source": source, "batch": 2, **feed} if source else {"batch": 2, **feed})
        self.start_daemon()
        reply = self.trainer().call("attach", feed="feed")
        self.stop_daemon()
        self.assertLess(reply["rc"], 0)
        for word in words:
            self.assertIn(word, reply["error"])

    def test_typos(self):
        data = self.folder / "data"
        write_shards(data, shards=3, records=8)
        self.refused(str(data / "nothing-*.tar"), "nothing-*.tar")
        self.refused(str(data / "data-{00000..00003}.tar"), "data-00003.tar")
        texts = self.folder / "texts/class"
        texts.mkdir(parents=True)
        (texts / "a.txt").write_text("no picture")
        self.refused(None, str(self.folder / "texts"), folder=str(self.folder / "texts"))
        locked = self.folder / "locked"
        locked.mkdir()
        write_shards(locked, shards=1, records=4)
        if os.geteuid() != 0:
            os.chmod(locked, 0)
            self.refused(str(locked / "data-00000.tar"), "ermission")

    def test_listed_twice_is_noted(self):
        data = self.folder / "data"
        write_shards(data, shards=1, records=8)
        path = str(data / "data-00000.tar")
        self.config({"source": [path, path], "batch": 2})
        self.start_daemon()
        reply = self.trainer().attach()
        self.assertTrue(any("twice" in note["note"] for note in reply["notes"]), reply)

    def test_no_such_feed_lists_those_there_are(self):
        data = self.folder / "data"
        write_shards(data, shards=1, records=8)
        self.config([{"name": "alpha", "source": str(data / "*.tar"), "batch": 2}, {"name": "beta", "source": str(data / "*.tar"), "batch": 2}])
        self.start_daemon()
        reply = self.trainer().call("attach", feed="gamma")
        self.assertEqual(reply["rc"], -2, reply)
        for word in ("gamma", "alpha", "beta"):
            self.assertIn(word, reply["error"])


main()
