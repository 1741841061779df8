"""dataloadctl top on a terminal of tmux: what it shows, its keys, and that it neither hangs nor leaves the terminal changed."""
import re

from harness import *

STAGES = ("read", "decode", "shuffle", "slots")


class Top(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("tmux"):
            skip("there is no tmux")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", str(self.screen), *map(str, words)],
                              capture_output=True, text=True, timeout=30 * SLACK)

    def page(self):
        return self.tmux("capture-pane", "-p").stdout

    def serve(self, trainers=4, **top):
        write_shards(self.folder / "data", shards=2, records=40)
        self.config([{"name": name, "source": str(self.folder / "data/*.tar"), "batch": 4} for name in ("first", "second")], **top)
        self.start_daemon()
        started = [self.trainer() for _ in range(trainers)]
        for number, trainer in enumerate(started):
            trainer.attach(("first", "second")[number // 2], job=f"job-{number // 2}", rank=number % 2, world=2)
            trainer.send("run", print=0, sleep_us=20000 * (number + 1), reconnect=300000, timeout=300000)
        return started

    def open(self, cols=80, rows=24, env="LC_ALL=C.UTF-8"):
        """A shell on a screen of this size, that says how top has ended and whether the terminal is as it was."""
        self.screen = self.folder / f"{cols}x{rows}-{env}"
        self.addCleanup(subprocess.run, ["tmux", "-S", str(self.screen), "kill-server"], capture_output=True)
        script = self.folder / "run.sh"
        script.write_text(f"trap : INT\nbefore=$(stty -g)\nenv {env} '{CTL}' --socket '{self.socket}' top --interval 0.2\n"
                          f"echo \"code=$?\"\n[ \"$before\" = \"$(stty -g)\" ] && echo same terminal\ncat\n", encoding="utf-8")
        made = self.tmux("new-session", "-d", "-x", cols, "-y", rows, "sh", script)
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.shows("SAMP/S")

    def shows(self, *texts, never=()):
        def found():
            page = self.page()
            return page if all(text in page for text in texts) and not any(text in page for text in never) else None

        try:
            return wait_for(texts, found)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{self.page()}") from error

    def pids(self, page=None):
        return [int(line.split()[0]) for line in (page or self.page()).splitlines() if re.match(r" *\d+ job-", line)]

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def leave(self, *keys):
        self.press(*keys)
        self.shows("code=0", "same terminal")

    def test_page_and_keys(self):
        trainers = self.serve()
        page = self.open()
        self.assertEqual(max(map(len, page.splitlines())) <= 80, True)
        self.assertIn(f"pid {self.daemon.pid}", page.splitlines()[0])
        page = self.shows("first  2 clients", "second  2 clients") if "more feed" not in page else page
        self.press("Tab")
        self.press("Tab")
        self.shows(*STAGES, "trainer", "limit")
        pids = sorted(trainer.pid for trainer in trainers)
        self.press("p")
        wait_for("the order by pid", lambda: self.pids() == pids[: len(self.pids())] and self.pids())
        self.press("p")
        wait_for("the reverse", lambda: self.pids() == pids[::-1][: len(self.pids())] and self.pids())
        self.press("h")
        self.shows("sort by wait, rate, pid, job, feed")
        self.press("h")
        self.shows("SAMP/S")
        self.tmux("resize-window", "-x", 140, "-y", 50)
        self.shows("CAUSE", "STEP/EPOCH", *(str(pid) for pid in pids))
        self.tmux("resize-window", "-x", 40, "-y", 10)
        page = self.shows("SAMP/S", never=["CAUSE"])
        self.assertLessEqual(max(map(len, page.splitlines())), 40)
        self.leave("q")

    def test_more_clients_than_rows(self):
        trainers = self.serve(trainers=4)
        self.open(rows=8)
        pids = sorted(trainer.pid for trainer in trainers)
        self.press("p")
        wait_for("the first", lambda: pids[0] in self.pids())
        seen = set()

        def all_seen():
            seen.update(self.pids())
            self.press("NPage")
            return seen == set(pids)

        wait_for("all clients, a page after another", all_seen, every=0.3)
        self.press("Home")
        wait_for("the first again", lambda: pids[0] in self.pids())
        self.leave("C-c")

    def test_daemon_that_hangs_and_one_that_is_new(self):
        self.serve(trainers=2)
        self.open()
        self.daemon.send_signal(signal.SIGSTOP)
        self.shows("the daemon does not answer for ", "SAMP/S")
        self.press("h")
        self.shows("the other way round")
        self.press("h")
        self.daemon.send_signal(signal.SIGCONT)
        self.shows("q quit", "SAMP/S")
        self.stop_daemon(signal.SIGKILL)
        self.shows("trying again: no dataloadd", "SAMP/S")
        old = f"pid {self.daemon.pid} "
        self.start_daemon()
        self.shows(f"pid {self.daemon.pid} ", "q quit", never=[old])
        self.daemon.send_signal(signal.SIGSTOP)
        self.shows("the daemon does not answer for ")
        self.leave("q")

    def test_plain_terminals(self):
        self.serve(trainers=1)
        page = self.open(env="LC_ALL=C NO_COLOR=1")
        self.assertTrue(page.isascii(), page)
        coloured = lambda: re.search(r"\033\[3[1-3]m", self.tmux("capture-pane", "-p", "-e").stdout)
        self.assertFalse(coloured())
        self.leave("q")
        self.open()
        wait_for("colours", coloured)
        self.leave("q")

    def test_without_a_terminal(self):
        self.serve(trainers=0)
        done = self.ctl("top", check=False)
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn("status --watch", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        for term, said in (("dumb", "TERM"), ("no-such-terminal", "not known")):
            # ncurses keeps memory of a terminal that it does not know
            done = subprocess.run(["script", "-qec", f"env TERM={term} ASAN_OPTIONS=detect_leaks=0 '{CTL}' --socket '{self.socket}' top", "/dev/null"],
                                  capture_output=True, text=True, timeout=30 * SLACK)
            self.assertEqual(done.returncode, 69, done)
            self.assertIn(said, done.stdout)
        self.stop_daemon()
        self.assertEqual(self.ctl("top", check=False).returncode, 3)


main()
