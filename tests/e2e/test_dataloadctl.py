"""dataloadctl against a real daemon: the verbs that read data, and those that only look."""
import json
import math

from harness import *
from PIL import Image


def keys_of(value):
    """Of all objects in it."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    return set(value).union(*map(keys_of, value.values())) if isinstance(value, dict) else set()


class Verbs(Case):
    def serve(self, shards=2, records=20, env=None, **feed):
        write_shards(self.folder / "data", shards=shards, records=records)
        self.config({"source": str(self.folder / "data/*.tar"), "transform": "eval", "batch": 4, **feed})
        self.start_daemon(env=env)

    def json(self, *arguments):
        return json.loads(self.ctl(*arguments, "--json").stdout)

    def test_looking(self):
        self.serve()
        self.assertIn(f"pid {self.daemon.pid}", self.ctl("ping").stdout)
        self.assertEqual([feed["name"] for feed in self.json("feeds")["feeds"]], ["feed"])
        lines = self.ctl("status", "--watch=0.1", "-n", "3", "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["pid"] for line in lines], [self.daemon.pid] * 3)
        self.assertIn("feed: no trainer is attached", self.ctl("status").stdout)
        self.assertIn("no bad samples", self.ctl("bad").stdout)

    def test_names_are_escaped_once(self):
        self.serve()
        write_tar(self.folder / "data/data-00000.tar", [("a\nb.jpg", b"\xff\xd8nothing"), ("a\nb.cls", b"7")])
        self.trainer().attach(slots=SLOTS_MIN, batch=8)
        wait_for("the bad sample", lambda: "a\\x0Ab" in self.ctl("bad").stdout)
        self.assertNotIn("x5C", self.ctl("bad").stdout + self.ctl("bad", "--json").stdout)

    def test_an_unknown_feed_is_4_and_names_those_there_are(self):
        self.serve()
        for verb in (["bad"], ["slices", "--world", "1"], ["bench"], ["show", "--out", "x.png"], ["mix"], ["token", "--step", "0"], ["batch", "--step", "0"], ["find", "key"]):
            done = self.ctl(verb[0], "other", *verb[1:], check=False)
            self.assertEqual(done.returncode, 4, done)
            self.assertIn("feed", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_the_manual_has_all_keys(self):
        """And no others: those that a reply has everywhere, in lists and objects."""
        self.serve(env=STANDIN)
        wait_for("the GPU", lambda: self.json("gpu")["gpus"])
        ranks = [self.trainer() for _ in range(2)]
        for rank, trainer in enumerate(ranks):
            trainer.attach(rank=rank, world=2, job="run")
        ranks[0].next()
        ranks[1].kill()  # vacant
        sheet = self.folder / "sheet.png"
        write_tar(self.folder / "data/data-00001.tar", [("x.jpg", b"\xff\xd8nothing"), ("x.cls", b"7")])
        self.trainer().attach(slots=SLOTS_MIN, batch=32)
        wait_for("the bad sample", lambda: self.json("bad")["bad"])
        runs = self.trainer()
        runs.attach(job="runs", allow_replay=1)
        runs.send("run", batches=10**9, print=0)
        verbs = {"status": [], "trace": ["--seconds", 0.1, "--out", sheet], "advise": [], "bench": ["feed", "--seconds", 0.1], "replay": ["runs", "--seconds", 0.2], "measure": ["runs", "--seconds", 0.2], "show": ["feed", "--out", sheet], "slices": ["feed", "--world", 2], "token": ["feed", "--step", 1], "mix": ["feed"],
                 "batch": ["feed", "--step", 0, "--out", sheet], "find": ["feed", "000003"], "feeds": [], "bad": [], "gpu": [], "report": ["--html", self.folder / "report.html"], "detach": ["--job", "runs"],
                 "drain": [], "reload": [], "check": [], "ping": [], "version": []}
        manual = (SOURCE / "docs/dataloadctl.1").read_text(encoding="utf-8")
        items = manual[manual.index(".Sh JSON"):manual.index(".Sh ENVIRONMENT")].split("\n.It Cm ")[1:]
        self.assertEqual([item.split()[0] for item in items], list(verbs))
        for item in items:
            verb = item.split()[0]
            told = {word for line in item.split("\n") if line.startswith(".Va ") for word in line.split()[1:] if word.isidentifier()}
            said = json.loads(self.ctl(verb, "--json", *verbs[verb], check=verb != "check").stdout)
            self.assertEqual(keys_of(said) - {"schema_version"}, told, verb)

    def test_sheet(self):
        self.serve(shuffle=0)
        members = [(f"{i}.jpg", jpeg(seed=i)) for i in range(3)] + [("3.jpg", b"\xff\xd8nothing")]
        write_tar(self.folder / "data/data-00000.tar", [m for i, jpg in enumerate(members) for m in (jpg, (f"{i}.cls", b"7"))])
        sheet = self.folder / "sheet.png"
        said = self.json("show", "feed", "--out", sheet, "--count", "9")
        self.assertEqual((said["images"], said["labels"][:4], said["invalid"]), (9, [7] * 4, 1))
        image = Image.open(sheet).convert("RGB")
        self.assertEqual(image.size, (said["width"], said["height"]))
        cell = image.width // 3
        frames = [image.getpixel((x * cell + cell // 2, 3))[0] for x in range(3)]
        self.assertTrue(max(frames) < 100, frames)  # the fourth stands in the second row
        below = image.height // 3 + 3
        self.assertGreater(image.getpixel((cell // 2, below))[0], 200)
        self.assertEqual(self.ctl("show", "feed", "--out", "/nowhere/x.png", check=False).returncode, 69)

    def test_bench_counts_each_record_once(self):
        self.serve(shards=2, records=20)
        said = self.json("bench", "feed", "--world", "2", "--epochs", "1")
        self.assertEqual((said["samples"], [rank["batches"] for rank in said["ranks"]]), (40, [5, 5]))
        wait_for("the probes to be gone", lambda: not self.status()["clients"])

    def test_bench_names_a_stage(self):
        self.serve(shards=2, records=50)
        said = self.json("bench", "feed", "--world", "2", "--seconds", "3")
        self.assertGreater(said["samples_per_s"], 10)
        self.assertIn(said["limiting_stage"], ("storage", "decode", "copy"), said)
        self.assertIn("limits", said["verdict"])
        self.assertGreater(said["stages"]["decode"]["busy"], 0)
        self.assertFalse(any(math.isnan(stage["limit_samples_per_s"]) for stage in said["stages"].values()))

    def test_advice(self):
        """In bench no trainer waits: what limits is a stage, and what helps comes with figures."""
        self.serve(shards=2, records=50)
        self.assertEqual(self.json("advise", "feed")["feeds"], [{"name": "feed", "limiting_stage": "unknown", "verdict": "no trainer is attached",
                                                                 "remedies": [], "clients": []}])
        self.assertEqual(self.ctl("advise", "nowhere", check=False).returncode, 4)
        with subprocess.Popen([CTL, "--socket", self.socket, "bench", "feed", "--seconds", "600"], stdout=subprocess.DEVNULL) as bench:
            wait_for("a verdict", lambda: "limits" in self.ctl("advise").stdout)
            said = self.json("advise")["feeds"][0]
            self.assertEqual(said["clients"], [])
            self.assertRegex(self.ctl("advise", "feed").stdout, r"^feed: \w+ limits: .*/s")
            bench.terminate()


main()
