"""dataloadctl report --html, and the same page on the port: whole, alone, and true to the status."""
import base64
import http.client

from harness import *
from page_reader import Page
from PIL import Image

NAMED = ("host", "taken", "wait_bounds_s", "schema_version")


def keep_running(*trainers):
    for trainer in trainers:
        trainer.send("run", batches=1 << 40, sleep_us=100000, print=0)


@unittest.skipIf(CUDA, "asks nothing of the memory of batches")
class Report(Case):
    def serve(self, **top):
        labels = write_shards(self.folder / "data", shards=2, records=60, width=48, height=32)
        write_tar(self.folder / "text.tar", [(f"{i}.txt", b"<b>&\"'") for i in range(40)])
        source = str(self.folder / "data/*.tar")
        self.config([{"name": "train", "source": source, "transform": "eval", "batch": 4, "shuffle": 30},
                     {"name": "mirrored", "source": source, "transform": "eval", "batch": 4, "share": "mirror"},
                     {"name": "text", "source": str(self.folder / "text.tar"), "fields": [{"name": "words", "from": ["txt"], "kind": "bytes"}], "batch": 4},
                     {"name": "idle", "source": source}], **top)
        self.start_daemon()
        return labels

    def page(self, *arguments):
        file = self.folder / "report.html"
        said = json.loads(self.ctl("report", *arguments, "--html", file, "--json").stdout)
        text = file.read_text(encoding="utf-8")
        self.assertEqual((said["file"], said["bytes"]), (str(file), len(text.encode())))
        page = Page(text)
        self.assertEqual(page.faults, [])
        self.assertEqual(page.count("script"), 0)
        charts = page.count("svg")
        self.assertEqual((page.count("desc"), page.count("title")), (charts, charts + 1))
        return page

    def pictures(self, page):
        """Those that there are, and those that a busy machine had no time for."""
        return len(page.images) + page.text.count("trainers go before those who only look")

    def test_a_page_to_send(self):
        self.serve()
        trainers = [self.trainer() for _ in range(5)]
        for rank in range(2):
            trainers[rank].attach("train", job="run-7", rank=rank, world=2)
        for trainer in trainers[2:4]:
            trainer.attach("mirrored", group="eval")
        trainers[4].attach("text")
        keep_running(*trainers)  # with pauses, so that there is time for pictures
        wait_for("some seconds of history", lambda: all(c["window_s"] > 2 for c in self.status()["clients"]))
        page = self.page()
        self.assertEqual(page.count("svg", "strip"), 5)
        for words in ("feed train", "feed mirrored", "feed idle", "run-7", "group eval", "rank 1 of 2", "true shuffle", f"pid {trainers[0].pid}, train"):
            self.assertIn(words, page.text)
        self.assertEqual(self.pictures(page), 2)
        for image in page.images:
            picture = Image.open(io.BytesIO(base64.b64decode(image.partition(",")[2])))
            self.assertGreater(picture.width, 3 * 224)
        self.assertIn("feed text has no field of pictures", page.text)
        self.assertNotIn("This port", page.text)
        wait_for("the probes to be gone", lambda: len(self.status()["clients"]) == 5)

    def test_nobody_is_there(self):
        self.serve()
        page = self.page()
        self.assertIn("No trainer is attached.", page.text)
        self.assertEqual(page.images, [])
        self.assertEqual(self.pictures(self.page("train")), 1)
        self.assertEqual(self.ctl("report", "other", "--html", self.folder / "x", check=False).returncode, 4)
        self.assertEqual(self.ctl("report", "--html", "/nowhere/x.html", check=False).returncode, 69)
        self.assertEqual(self.ctl("report", check=False).returncode, 64)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", int(self.status()["http"].rpartition(":")[2]), timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", path)
        reply = connection.getresponse()
        self.assertEqual(reply.status, 200)
        return reply.headers["Content-Type"], reply.read().decode()

    def test_the_same_on_the_port(self):
        self.serve(metrics="127.0.0.1:0")
        if not self.status()["http"].startswith("http"):
            self.skipTest("built without an HTTP port")
        trainer = self.trainer()
        trainer.attach("train", job="run-7")
        keep_running(trainer)

        def history():
            client = json.loads(self.get("/report.json")[1])["clients"][0]
            return client if len(client["history"]["wait_share"]) >= 2 else None

        client = wait_for("two seconds of history", history)
        self.assertEqual(len(client["history"]["samples_per_s"]), len(client["history"]["wait_share"]))
        self.assertTrue(all(0 <= share <= 1 for share in client["history"]["wait_share"]))
        self.assertGreater(max(client["history"]["samples_per_s"]), 0)
        kind, text = self.get("/report.json")
        report, status = json.loads(text), self.status()
        self.assertEqual(kind, "application/json")
        self.assertLessEqual(set(report) - set(NAMED), set(status))
        self.assertLessEqual({"pid", "workers", "feeds", "memory_limit"}, set(report))
        self.assertEqual(set(report["clients"][0]) - {"history"}, set(status["clients"][0]))
        self.assertIn(len(report["clients"][0]["wait_counts"]), (0, len(report["wait_bounds_s"]) + 1))
        kind, text = self.get("/")
        self.assertEqual(kind, "text/html; charset=utf-8")
        page = Page(text)
        self.assertEqual(page.faults, [])
        self.assertEqual((page.count("script"), page.count("svg", "strip"), page.images), (1, 1, []))
        self.assertIn("This port does not know who asks", page.text)
        self.assertNotIn("true shuffle", page.text)


main()
