"""The figures for Prometheus, by Debian's own: names and format, the rules, the dashboard, docs/metrics.md, the textfile."""
import re
import socket
import stat
import urllib.parse
import urllib.request

import wire
from harness import *

for program in ("promtool", "prometheus"):
    if not shutil.which(program):
        skip(f"{program} is not installed (package prometheus)")


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *map(str, arguments)], input=text, capture_output=True, text=True, timeout=60 * SLACK)
    return done.returncode, done.stdout + done.stderr


def samples(text):
    """{(name, labels): value} of a page."""
    found = {}
    for name, labels, value in re.findall(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$", text, re.M):
        key = name, labels
        assert key not in found, key
        found[key] = float(value)
    return found


def families(text):
    """{name: (type, help)}"""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    return {name: (kind, helps[name]) for name, kind in re.findall(r"^# TYPE (\S+) (.*)$", text, re.M)}


class Metrics(Case):
    def serve(self, feeds=None, **top):
        write_shards(self.folder / "data", shards=2, records=60, width=32, height=32)
        self.config(feeds or {"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16}, metrics="127.0.0.1:0", workers=1, **top)
        self.start_daemon(env=STANDIN)

    def page(self):
        return self.ctl("metrics").stdout

    def train(self, **options):
        trainer = self.trainer()
        trainer.attach(**options)
        trainer.send("run", batches=1 << 40, print=0, sleep_us=5000)
        return trainer


class Page(Metrics):
    def test_format(self):
        self.serve()
        first, second = self.train(job="a", rank=1, world=2), self.train(job="b")
        wait_for("both at work", lambda: all(self.client_status(t.pid)["batches"] > 10 for t in (first, second)))
        page = self.page()
        self.assertEqual(promtool("check", "metrics", text=page), (0, ""))
        values = samples(page)
        taken = [v for (name, _), v in values.items() if name == "dataload_client_batches_total"]
        self.assertEqual(values["dataload_feed_batches_total", 'feed="feed"'], sum(taken))
        self.assertEqual(values["dataload_batch_wait_seconds_count", 'feed="feed"'], sum(taken))
        self.assertEqual(values["dataload_batch_wait_seconds_bucket", 'feed="feed",le="+Inf"'], sum(taken))
        self.assertEqual(values["dataload_feed_samples_total", 'feed="feed"'], 4 * sum(taken))
        infos = [labels for name, labels in values if name == "dataload_client_info"]
        for trainer, rest in ((first, 'train_job="a",rank="1",world="2"'), (second, 'train_job="b",rank="0",world="1"')):
            mine = [labels for labels in infos if f'pid="{trainer.pid}"' in labels]
            self.assertEqual(len(mine), 1, infos)
            self.assertIn(rest, mine[0])
        self.assertEqual([v for (name, _), v in values.items() if name == "dataload_up"], [1])

    def test_totals_never_go_back(self):
        """Trainers come, wait, take and vanish; the counters of their feed only grow, and their own series go."""
        self.serve()
        last = {}

        def look():
            now = samples(self.page())
            for key, value in now.items():
                counts = re.search("_total$|_bucket$|_count$|_sum$", key[0])
                if counts and not key[0].startswith("dataload_client"):
                    self.assertGreaterEqual(value, last.get(key, 0), key)
                    last[key] = value
            return now

        for turn in range(6):
            trainers = [self.trainer() for _ in range(3)]
            for number, trainer in enumerate(trainers):
                trainer.attach(job=f"j{number}", slots=SLOTS_MIN)
                trainer.send("run", batches=1 << 40, print=0)
            look()
            wait_for("work", lambda: all(self.client_status(t.pid)["batches"] > 5 for t in trainers))
            for trainer in trainers:
                trainer.kill()
                look()
        wait_for("their end, in a page that may be a second old", lambda: not [key for key in look() if key[0].startswith("dataload_client_") and key[1]])
        self.assertGreater(last["dataload_feed_batches_total", 'feed="feed"'], 6 * 3 * 5)

    def test_documented(self):
        """docs/metrics.md has all that the page has, in the same words, and nothing else."""
        self.serve()
        trainer = self.train()
        wait_for("work", lambda: self.client_status(trainer.pid)["batches"] > 5)
        wait_for("the GPU", lambda: "dataload_gpu_lent_bytes{" in self.page())
        page = self.page()
        rows = re.findall(r"^\| `(\S+)` \| (\w+) \| (.*?) \| (.*) \|$", (SOURCE / "docs/metrics.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual({name: (kind, words) for name, kind, _, words in rows}, families(page))
        told = {name: labels for name, _, labels, _ in rows}
        for name, labels in samples(page):
            base = re.sub("_(bucket|sum|count)$", "", name) if name not in told else name
            names = [word for word in re.findall(r'(\w+)="', labels) if word != "le"]
            self.assertEqual(", ".join(f"`{word}`" for word in names), told[base], name)

    def test_labels_are_escaped(self):
        self.serve()
        peer = wire.Peer(self.socket, greet=False)
        self.addCleanup(peer.close)
        peer.send(wire.hello(program='a"b\\c\nd,e="f"}'))
        peer.attach(slots=SLOTS_MIN)
        page = self.page()
        self.assertIn('program="a\\"b\\\\c\\\\x0Ad,e=\\"f\\"}"', page)
        self.assertEqual(promtool("check", "metrics", text=page), (0, ""))

    def test_textfile(self):
        self.serve()
        folder = self.folder / "textfile"
        folder.mkdir()
        path = folder / "dataloadd.prom"
        self.assertEqual(self.ctl("metrics", "--textfile", folder).stdout, "")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o644)
        self.assertEqual(promtool("check", "metrics", text=path.read_text()), (0, ""))
        self.assertEqual(families(path.read_text()), families(self.page()))
        self.assertEqual(os.listdir(folder), [path.name])
        done = self.ctl("metrics", "--textfile", self.folder / "nowhere", check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (69, 1))
        self.assertEqual(self.ctl("metrics", "--json", check=False).returncode, 64)
        help_of_up = families(path.read_text())["dataload_up"]
        self.daemon.send_signal(signal.SIGSTOP)
        done = self.ctl("metrics", "--textfile", folder, check=False)
        self.daemon.send_signal(signal.SIGCONT)
        self.assertEqual((done.returncode, families(path.read_text())), (69, {"dataload_up": help_of_up}))
        self.ctl("metrics", "--textfile", folder)
        self.stop_daemon()
        done = self.ctl("metrics", "--textfile", folder, check=False)
        self.assertEqual(done.returncode, 3, done)
        self.assertEqual(promtool("check", "metrics", text=path.read_text()), (0, ""))
        self.assertEqual(samples(path.read_text()), {("dataload_up", ""): 0})
        self.assertEqual(self.ctl("metrics", check=False).stdout, "")


class Rules(Metrics):
    rules = SOURCE / "systemd/alerts.yml"

    def test_each_alert_fires_and_does_not(self):
        code, said = promtool("check", "rules", self.rules)
        self.assertEqual(code, 0, said)
        text = self.rules.read_text(encoding="utf-8")
        names = re.findall(r"- alert: (\w+)", text)
        for word in ("severity", "summary", "description", "runbook"):
            self.assertEqual(len(re.findall(rf"\b{word}: ", text)), len(names), word)
        cases = (SOURCE / "tests/e2e/alerts_firing.yml").read_text(encoding="utf-8")
        for name in names:
            self.assertRegex(cases, rf"alertname: {name}, eval_time: \w+, exp_alerts: \[\]")
            self.assertRegex(cases, rf"alertname: {name}\n")
        # promtool compares annotations word by word: left out here
        bare = self.folder / "bare.yml"
        bare.write_text(re.sub(r"^        annotations:\n(?:          .*\n)+", "", text, flags=re.M), encoding="utf-8")
        test = self.folder / "test.yml"
        test.write_text(cases.replace("ALERTS", str(bare)), encoding="utf-8")
        code, said = promtool("test", "rules", test)
        self.assertEqual(code, 0, said)

    def scraper(self):
        """A Prometheus that looks at the daemon; returns a function that gives the series of an expression."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        target = self.status()["http"].removeprefix("http://")
        (self.folder / "prometheus.yml").write_text(
            "global: { scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s }\n"
            f"rule_files: [ {self.rules} ]\n"
            f"scrape_configs: [ {{ job_name: dataloadd, static_configs: [ {{ targets: [ '{target}' ] }} ] }} ]\n")
        log = open(self.folder / "prometheus.log", "w", encoding="utf-8")
        process = subprocess.Popen(["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/tsdb",
                                    f"--web.listen-address={address}", "--log.level=warn"], stdout=log, stderr=log)
        log.close()

        def end():
            process.kill()
            process.wait()

        self.addCleanup(end)

        def ask(path, **query):
            try:
                with urllib.request.urlopen(f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=30) as reply:
                    return json.load(reply)["data"]
            except OSError as error:
                if getattr(error, "code", 503) != 503:
                    raise AssertionError(f"{query}: {error.read().decode()}") from error
                self.assertIsNone(process.poll(), (self.folder / "prometheus.log").read_text())
                return None  # it starts

        wait_for("Prometheus", lambda: ask("query", query="1"))
        return ask

    def dashboard(self):
        """(title, expression) of all panels, with its variables filled in."""
        board = json.loads((SOURCE / "docs/grafana.json").read_text(encoding="utf-8"))
        self.assertGreaterEqual(board["schemaVersion"], 36)
        self.assertEqual([v["name"] for v in board["templating"]["list"]], ["datasource", "instance", "feed"])
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        for panel in board["panels"]:
            self.assertEqual(panel["type"] == "row", not panel.get("targets"), panel["title"])
            for target in panel.get("targets", []):
                self.assertEqual((target["datasource"]["uid"], panel["datasource"]["uid"]), ("${datasource}",) * 2)
                expression = target["expr"]
                for name, value in (("$instance", ".*"), ("$feed", ".*"), ("$__rate_interval", "5s")):
                    expression = expression.replace(name, value)
                self.assertNotIn("$", expression)
                yield panel["title"], expression

    def test_each_expression_has_data(self):
        """Of the dashboard as it is; of the alerts without their bounds, since all is well."""
        self.serve(feeds=[{"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16, "slots": SLOTS_MIN}])
        ask = self.scraper()
        for number in range(2):
            self.train(job=f"j{number}")
        wanted = dict((expression, title) for title, expression in self.dashboard())
        for expression in re.findall(r"expr: (.*)", self.rules.read_text(encoding="utf-8")):
            bare = re.sub(r"\[\d+[mh]\]", "[5s]", re.sub(r" (>|==) [\d.]+", "", expression))
            wanted[bare] = "alert"
        empty = dict(wanted)

        def all_there():
            self.ctl("bad", "unknown", check=False)  # refused, and malformed:
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(self.socket))
                stranger.sendall(b"\xff" * 8)
            for expression in list(empty):
                reply = ask("query", query=expression)
                if reply and reply["result"]:
                    del empty[expression]
            return not empty

        try:
            wait_for("data", all_there, every=0.5)
        except AssertionError as error:
            raise AssertionError(f"no data for {json.dumps(empty, indent=1)}") from error
        rules = ask("rules")["groups"][0]["rules"]
        wait_for("the rules", lambda: all(rule["health"] == "ok" for rule in ask("rules")["groups"][0]["rules"]))
        self.assertEqual({rule["name"]: rule["state"] for rule in rules if rule["state"] == "firing"}, {})
        if LONG:
            self.stop_daemon()
            wait_for("the alarm", lambda: any(a["labels"]["alertname"] == "DataloadDown" and a["state"] == "firing" for a in ask("alerts")["alerts"]), 200)


main()
