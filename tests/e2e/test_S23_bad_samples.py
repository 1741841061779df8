"""S23: bad samples: replaced and flagged, or the error of their batch, or a limit that names them."""
import json

from harness import *


class Bad(Case):
    def serve(self, **settings):
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        good = [jpeg(48, 48, i) for i in range(8)]
        members = []
        for i in range(100):
            picture = {37: good[0][:400], 61: b"\x89PNG\r\n\x1a\n", 88: b""}.get(i, good[i % 8])
            members += [(f"s{i:03d}.jpg", picture), (f"s{i:03d}.cls", str(i % 10).encode())]
        write_tar(data / "a.tar", members)
        self.config({"source": str(data / "a.tar"), "batch": 10, "transform": "eval", **settings})
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach()
        return trainer

    def test_replace(self):
        lines = self.serve().run(epochs=1, print=2)
        self.assertEqual([line["rows"] for line in lines], [10] * 10)
        flags = [flag for line in lines for flag in line["flags"]]
        self.assertEqual([i for i, flag in enumerate(flags) if not flag], [37, 61, 88])
        images = [image for line in lines for image in line["image"]]
        for bad in (37, 61, 88):
            self.assertEqual(images[bad], images[bad - 1])  # the nearest earlier good row
        listed = json.loads(self.ctl("bad", "feed", "--json").stdout)["bad"]
        self.assertEqual({(entry["key"], entry["class"]) for entry in listed},
                         {("s037", "BAD-TRUNC"), ("s061", "BAD-UNSUP"), ("s088", "BAD-EMPTY")})
        self.assertTrue(all(entry["shard"].endswith("a.tar") and entry["offset"] > 0 for entry in listed))
        self.stop_daemon()
        self.start_daemon()  # the list outlives the daemon
        self.assertEqual(len(json.loads(self.ctl("bad", "feed", "--json").stdout)["bad"]), 3)

    def test_fail(self):
        trainer = self.serve(bad_samples="fail")
        other = self.trainer()
        other.attach(job="other")
        outcome = []
        for _ in range(10):
            reply = trainer.call("next")
            outcome.append(reply["rc"])
            if reply["rc"] == 0:
                trainer.call("release", handle=reply["handle"])
            else:
                self.assertIn("a.tar", reply["error"])
                self.assertIn({3: "s037", 6: "s061", 8: "s088"}[len(outcome) - 1], reply["error"])
        self.assertEqual(outcome, [0, 0, 0, -74, 0, 0, -74, 0, -74, 0])  # EBADMSG
        self.assertEqual(trainer.call("next")["rc"], 1)
        self.assertEqual(other.next()["rc"], 0)

    def test_limit(self):
        trainer = self.serve(bad_limit=2)
        seen = 0
        while True:
            reply = trainer.call("next")
            if reply["rc"]:
                break
            seen += 1
            trainer.call("release", handle=reply["handle"])
        self.assertEqual(reply["rc"], -125, reply)  # ECANCELED
        self.assertEqual(seen, 8)
        for key in ("s037", "s061", "s088"):
            self.assertIn(key, reply["error"])
        self.trainer().attach(job="other")  # the daemon lives on


main()
