"""The report in Chromium: light and dark, wide and narrow, live. With DATALOADD_LONG=1; DATALOADD_PICTURES=FOLDER keeps the pictures."""
import browser
from harness import *

if not LONG:
    skip("needs Chromium, which is large: with DATALOADD_LONG=1")
if not browser.PROGRAM:
    skip("chromium is not installed")

SHOTS = pathlib.Path(os.environ["DATALOADD_PICTURES"]) if "DATALOADD_PICTURES" in os.environ else None
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
        trainers = []
        for feed, options, sleep_us in runs:
            trainers.append(self.trainer())
            trainers[-1].attach(feed, **options)
            trainers[-1].send("run", batches=1 << 40, sleep_us=sleep_us)
        return trainers

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

    def look(self, web, name, seconds=12):
        time.sleep(seconds)  # of history
        file = self.folder / f"{name}.html"
        self.ctl("report", "--html", file)
        self.shape(web, name, f"file://{file}")
        feeds = web.value("[...document.querySelectorAll('section h2')].map(e => e.textContent.trim())")
        self.assertEqual(feeds, ["feed imagenet-train", "feed val"])
        return web

    def test_situations(self):
        train = ("imagenet-train", {"job": "resnet50-a-job-with-a-rather-long-name", "rank": 0, "world": 1})
        with browser.Browser() as web:
            for name, env, runs in (
                    ("nobody", {}, []),
                    ("storage", {"DATALOADD_TEST_DELAY": "read_rate:2000000"}, [(*train, 0)]),
                    ("decode", {"DATALOADD_TEST_DELAY": "decode:10000"}, [(*train, 0)]),
                    ("trainer", {}, [(*train, 150000)]),
                    ("many", {}, [("imagenet-train", {"job": "pair", "rank": rank, "world": 2}, 20000) for rank in range(2)] +
                     [("val", {"group": "eval"}, pause) for pause in (50000, 200000, 100000)])):
                with self.subTest(name):
                    self.serve(env)
                    trainers = self.attach(*runs)
                    self.look(web, name, 12 if runs else 1)
                    charts = web.value("['.waterfall', '.strip', 'img'].map(kind => document.querySelectorAll(kind).length)")
                    used = len({run[0] for run in runs})
                    without = web.value("document.body.textContent.split('trainers go before those who only look').length - 1")
                    self.assertEqual([*charts[:2], charts[2] + without], [used, len(runs), used], name)
                    for trainer in trainers:
                        trainer.close()
                    self.trainers.clear()
                    self.stop_daemon()

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
