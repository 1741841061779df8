"""The report in Chromium: light and dark, wide and narrow, live. With DATALOADD_LONG=1; DATALOADD_PICTURES=FOLDER keeps the pictures."""
import browser
from harness import *

if not LONG:
    skip("needs Chromium, which is large: with DATALOADD_LONG=1")
if not browser.PROGRAM:
    skip("chromium is not installed")

SHOTS = pathlib.Path(os.environ["DATALOADD_PICTURES"]) if "DATALOADD_PICTURES" in os.environ else None
TRAIN = ("imagenet-train", {"job": "resnet50-a-job-with-a-rather-long-name", "rank": 0, "world": 1})
OVERLAPS = """(() => {
  const boxes = [...document.querySelectorAll("svg text")].map(e => [e.ownerSVGElement, e.getBoundingClientRect(), e.textContent]);
  const out = [];
  boxes.forEach(([svg, a, text], i) => {
    if (a.left < -1 || a.right > innerWidth + 1) out.push([text, "is outside"]);
    for (const [other, b, words] of boxes.slice(i + 1))
      if (svg === other && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) out.push([text, words]);
  });
  return out;
})()"""


class Looks(Case):
    def serve(self, env=None, **top):
        write_shards(self.folder / "data", shards=6, records=50, classes=7, width=256, height=192)
        source = str(self.folder / "data/*.tar")
        self.config([{"name": "imagenet-train", "source": source, "transform": "train", "batch": 16, "shuffle": 100},
                     {"name": "val", "source": source, "transform": "eval", "batch": 16, "share": "mirror"}], workers=2, **top)
        self.start_daemon(env=env)

    def attach(self, *runs):
        for feed, options, sleep_us in runs:
            trainer = self.trainer()
            trainer.attach(feed, **options)
            trainer.send("run", batches=1 << 40, sleep_us=sleep_us, print=0)

    def shape(self, web, name, url):
        """No complaint, nothing asked of anybody, readable, nothing to scroll sideways for."""
        for scheme in ("light", "dark"):
            for width in (1280, 400):
                web.look(width, scheme)
                web.open(url)
                self.assertEqual(web.complaints, [], name)
                self.assertEqual([asked for asked in web.asked if not asked.startswith("data:image/png")], [url], name)
                self.assertLessEqual(web.value("document.documentElement.scrollWidth"), width, (name, scheme, width))
                self.assertEqual(web.value(OVERLAPS), [], (name, scheme, width))
                ratio, text = web.value(browser.CONTRAST)
                self.assertGreaterEqual(ratio, 4.5, (name, scheme, text))
                if SHOTS:
                    web.picture(SHOTS / f"{name}-{scheme}-{width}.png")
        if SHOTS and web.value("Boolean(document.querySelector('.strip'))"):  # as in docs/report.md
            web.look(900, "light")
            web.picture(SHOTS / f"{name}-feed.png", "section", "section .pair")
            web.picture(SHOTS / f"{name}-client.png", "section:last-of-type", "section:last-of-type")

    def situation(self, name, *runs, seconds=12, delay=None):
        self.serve({"DATALOADD_TEST_DELAY": delay} if delay else None)
        self.attach(*runs)
        time.sleep(seconds)  # of history
        file = self.folder / f"{name}.html"
        self.ctl("report", "--html", file)
        with browser.Browser() as web:
            self.shape(web, name, f"file://{file}")
            self.assertEqual(web.value("[...document.querySelectorAll('section h2')].map(e => e.textContent.trim())"), ["feed imagenet-train", "feed val"])
            charts = web.value("['.waterfall', '.strip', 'img'].map(kind => document.querySelectorAll(kind).length)")
            without = web.value("document.body.textContent.split('trainers go before those who only look').length - 1")
            used = len({feed for feed, _, _ in runs})
            self.assertEqual([*charts[:2], charts[2] + without], [used, len(runs), used])

    def test_nobody(self):
        self.situation("nobody", seconds=1)

    def test_storage(self):
        self.situation("storage", (*TRAIN, 0), delay="read_rate:2000000")

    def test_decode(self):
        self.situation("decode", (*TRAIN, 30000), delay="decode:10000")

    def test_trainer(self):
        self.situation("trainer", (*TRAIN, 150000))

    def test_many(self):
        self.situation("many", *(("imagenet-train", {"job": "pair", "rank": rank, "world": 2}, 20000) for rank in range(2)),
                       *(("val", {"group": "eval"}, pause) for pause in (50000, 200000, 100000)))

    def test_live(self):
        self.serve(metrics="127.0.0.1:0")
        url = self.status()["http"]
        if not url.startswith("http"):
            self.skipTest("built without an HTTP port")
        self.attach(("imagenet-train", {}, 20000))
        with browser.Browser() as web:
            self.shape(web, "live", url + "/")
            taken = "document.querySelector('header .dim').textContent"
            before = web.value(taken)
            web.value("scrollTo(0, 300)")
            wait_for("fresh figures", lambda: web.value(taken) != before)
            self.assertEqual(web.value("scrollY"), 300)
            self.assertEqual(web.complaints, [])
            self.stop_daemon()
            wait_for("the page to say that they are old", lambda: "the figures are old" in web.value("document.getElementById('live').textContent"))
            self.assertIn("feed imagenet-train", web.value("document.body.textContent"))


main()
