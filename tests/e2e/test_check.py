"""dataloadctl check: what is wrong around a daemon, each with its remedy; exit status and first line as monitors want."""
import resource

from harness import *

OK, WARNING, CRITICAL = 0, 1, 2
NAMES = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL"}
OTHER = 61005


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


class Check(Case):
    def serve(self, feeds=(), **options):
        write_shards(self.folder / "data", shards=2, records=32)
        good = {"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16}
        self.config([good, *({**good, **feed} for feed in feeds)], **options.pop("top", {}), memory="64MiB")
        self.start_daemon(**options)

    def check(self, *arguments):
        """Findings by what was looked at."""
        done = self.ctl("check", "--json", *arguments, check=False)
        answer = json.loads(done.stdout)
        found = {finding["check"]: finding for finding in answer["findings"]}
        worst = max((code for code, name in NAMES.items() for it in found.values() if it["level"] == name), default=OK)
        self.assertEqual((done.returncode, answer["level"]), (worst, NAMES[worst]))
        for finding in found.values():
            self.assertEqual(finding["level"] != "OK", bool(finding["remedy"]), finding)
        return found

    def expect(self, finding, level, *words):
        self.assertEqual(finding["level"], NAMES[level], finding)
        for word in words:
            self.assertIn(word, finding["text"] + finding["remedy"])

    def test_all_is_well(self):
        self.serve()
        found = self.check()
        for name, word in (("socket", "mode 0600"), ("version", "as this program"), ("answer", "ms"), ("files", "descriptors"),
                           ("memlock", "lock"), ("workers", "move"), ("feed feed", "is open")):
            self.expect(found[name], OK, word)
        for name in ("driver", "memory", "cache"):  # the machine's affair
            self.assertIn(name, found)

    def test_first_line_for_a_monitor(self):
        self.serve(feeds=[{"name": "broken", "source": str(self.folder / "no|where/*.tar")}])
        done = self.ctl("check", "--nagios", check=False)
        self.assertEqual(done.returncode, CRITICAL)
        first = done.stdout.splitlines()[0]
        self.assertTrue(first.startswith("DATALOADD CRITICAL - feed broken: "), first)
        self.assertNotIn("|", done.stdout)
        plain = self.ctl("check", check=False)
        self.assertEqual(plain.returncode, CRITICAL)
        self.assertTrue(plain.stdout.startswith("OK        socket: "))

    def test_data_that_cannot_be_opened(self):
        self.serve(feeds=[{"name": "broken", "source": str(self.folder / "nowhere/*.tar")}])
        found = self.check()
        self.expect(found["feed broken"], CRITICAL, "nowhere", "No such file", "--check-config")
        self.expect(found["feed feed"], OK)

    def test_storage_that_hangs(self):
        if SANITIZE:
            self.skipTest("a preloaded library and a sanitizer do not get along")
        self.serve(env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_MS": "60000"})
        self.expect(self.check("--seconds", 1)["feed feed"], WARNING, "not open after 1 s", "hangs")
        self.stop_daemon(signal.SIGKILL)  # its threads hang

    def test_cache_that_cannot_be_written(self):
        (self.folder / "file").write_text("x")
        self.serve(top={"cache": {"path": str(self.folder / "file/cache")}})
        self.expect(self.check()["cache"], WARNING, "Not a directory", "cache.path")

    def test_few_descriptors(self):
        self.serve(preexec_fn=few_files)
        self.expect(self.check()["files"], WARNING, "of 1024", "LimitNOFILE")

    def test_a_drained_daemon(self):
        self.serve()
        self.ctl("drain")
        self.expect(self.check()["drain"], WARNING, "undrain")

    def test_no_daemon(self):
        self.expect(self.check()["socket"], CRITICAL, str(self.socket), "start")

    def test_a_daemon_that_does_not_answer(self):
        self.serve()
        self.daemon.send_signal(signal.SIGSTOP)
        self.expect(self.check("--seconds", 1)["answer"], CRITICAL, "did not answer")

    def test_a_socket_of_others(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        os.chmod(self.folder, 0o755)
        self.serve()
        done = subprocess.run([str(CTL), "--socket", str(self.socket), "check"], capture_output=True, text=True,
                              preexec_fn=become(OTHER), timeout=60 * SLACK)
        self.assertEqual(done.returncode, CRITICAL, done)
        self.assertIn("usermod", done.stdout)


main()
