"""dataload.Feed: what is written for the daemon, and what is refused. The daemon itself reads what is written."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from package_alone import SOURCE
from dataload.feeds import KEYS, Feed, configuration

DAEMON = pathlib.Path(os.environ.get("DATALOADD_BUILD", "build/release")).resolve() / "daemon/dataloadd"


class Settings(unittest.TestCase):
    def test_as_the_daemon_names_them(self):
        text = (SOURCE / "daemon/config_feed.c").read_text(encoding="utf-8")
        table = re.search(r"feed_keys\[\] = \{(.*?)\n\};", text, re.DOTALL).group(1)
        self.assertEqual(sorted(KEYS), sorted(re.findall(r'\{"(\w+)",', table)))

    def test_what_is_left_out_is_the_daemons(self):
        self.assertEqual(Feed(shards="/data/*.tar").settings, {"name": "feed", "source": "/data/*.tar"})
        self.assertEqual(Feed(folder="/data", batch=None).settings, {"name": "feed", "folder": "/data"})

    def test_fields(self):
        feed = Feed(shards="/x.tar", image="png", label={"from": ["json"], "key": "class", "classes": 10})
        self.assertEqual(feed.settings["fields"], [{"name": "image", "kind": "image", "from": "png"},
                                                   {"name": "label", "kind": "int", "from": ["json"], "key": "class", "classes": 10}])
        self.assertEqual(Feed(shards="/x.tar", label=None).settings["fields"], [{"name": "image", "kind": "image", "from": ["jpg", "jpeg"]}])
        fields = [{"name": "text", "from": "txt", "kind": "bytes"}]
        self.assertEqual(Feed(shards="/x.tar", fields=fields).settings["fields"], fields)

    def test_paths(self):
        here = os.getcwd()
        self.assertEqual(Feed(shards="a/{0..9}.tar").settings["source"], f"{here}/a/{{0..9}}.tar")
        self.assertEqual(Feed(source=["/a.tar", pathlib.Path("b.tar")]).settings["source"], ["/a.tar", f"{here}/b.tar"])
        self.assertEqual(Feed(shards=b"/a.tar").settings["source"], "/a.tar")
        self.assertEqual(Feed(folder="~/pictures", exclude="out.txt").settings,
                         {"name": "feed", "folder": os.path.expanduser("~/pictures"), "exclude": f"{here}/out.txt"})

    def test_refused(self):
        for arguments, words in (({"shards": "/x.tar", "bach": 4}, ("no setting bach", "did you mean batch?")),
                                 ({"shards": "/x.tar", "zzzz": 4}, ("no setting zzzz", "known are allow, ")),
                                 ({"shards": "/x.tar", "folder": "/y"}, ("one of them",)),
                                 ({"shards": "/x.tar", "source": "/x.tar"}, ("one of them",)),
                                 ({}, ("shards", "folder")),
                                 ({"shards": "/x.tar", "fields": [], "image": "png"}, ("fields",)),
                                 ({"shards": "/x.tar", "batch": True}, ("batch=True",)),
                                 ({"shards": "/x.tar", "seed": object()}, ("seed=<object",))):
            with self.subTest(arguments), self.assertRaises(TypeError) as caught:
                Feed(**arguments)
            for word in words:
                self.assertIn(word, str(caught.exception))
        with self.assertRaises(UnicodeEncodeError):
            Feed(shards="/\udcff.tar")

    def test_two_of_a_name(self):
        with self.assertRaises(ValueError) as caught:
            configuration([Feed(shards="/x.tar"), Feed(shards="/y.tar")])
        self.assertIn('two feeds are named "feed"', str(caught.exception))

    def test_the_same_settings_are_the_same_text(self):
        one, other = Feed(shards="/x.tar", batch=4, seed=1), Feed(seed=1, batch=4, shards="/x.tar")
        self.assertEqual(one, other)
        self.assertEqual(len({one, other}), 1)
        self.assertEqual(configuration([one]), configuration([other]))
        self.assertNotEqual(configuration([one]), configuration([Feed(shards="/x.tar", batch=5, seed=1)]))
        self.assertEqual(repr(one), "Feed(batch=4, name='feed', seed=1, source='/x.tar')")

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        feed = Feed(shards="/x.tar", batch=numpy.int64(4), mean=numpy.array([0.5, 0.25, 0.125]))
        self.assertEqual((feed.settings["batch"], feed.settings["mean"]), (4, [0.5, 0.25, 0.125]))


class Read(unittest.TestCase):
    """By the daemon."""

    def check(self, *feeds):
        with tempfile.TemporaryDirectory(prefix="dl-") as folder:
            path = pathlib.Path(folder) / "feeds.json"
            path.write_text(configuration(feeds), encoding="utf-8")
            return subprocess.run([str(DAEMON), "--user", "--check-config", "--config", str(path)], capture_output=True, text=True, timeout=100,
                                  env={**os.environ, "XDG_CACHE_HOME": folder})

    def test_every_kind_of_setting(self):
        with tempfile.TemporaryDirectory(prefix="dl-\u00e4\u2603\U0001f600 \"quoted\" \\ ") as data:
            (pathlib.Path(data) / "class").mkdir()
            done = self.check(Feed(folder=data, batch=4, shuffle=16, lanes=4, seed=3, slots=2, tail="drop", output="float32_nchw", mean=(0.485, 0.456, 0.406),
                                   std=[1e-05, 1, 0.225], transform=[{"resize": 256}, {"center_crop": {"size": 224}}, {"flip": 0.5}], bad_limit="1%",
                                   image={"from": ["png", "jpg"]}, label={"from": "cls", "classes": 1000}, bad_samples="fail", pin=["batch"],
                                   allow={"users": ["root", os.getuid()]}, pixels="fast", exif="turn", share="split"))
            self.assertIn("SHARD-EMPTY", done.stdout + done.stderr)  # everything before that was in order

    def test_what_is_wrong_is_named(self):
        done = self.check(Feed(shards="/x.tar", batch="many", name="pets"))
        self.assertEqual(done.returncode, 78)
        self.assertRegex(done.stderr, r'feeds\.json:\d+: batch: "many" is not a whole decimal number')


unittest.main(verbosity=2)
