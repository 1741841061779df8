"""Signals and exit codes: the daemon ends in time also while storage hangs; a trainer's Ctrl-C is its own."""
import contextlib
import socket
import time

from harness import *

HANGS = {"DATALOADD_TEST_DELAY": "read:60000"}  # each read of the storage
OK, USAGE, UNAVAILABLE, CONFIG = 0, 64, 69, 78


class Signals(Case):
    def serve(self, **options):
        write_shards(self.folder / "data", shards=2, records=50)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "shuffle": 16})
        self.start_daemon(**options)

    def waiting(self, **options):
        """A trainer in dataload_next, for which no batch comes."""
        trainer = self.trainer()
        trainer.attach(**options)
        trainer.send("next", timeout=120000)
        wait_for("the wait to be seen", lambda: "storage" in self.client_status(trainer.pid)["reason"])
        return trainer

    def ends(self, within):
        begin = time.monotonic()
        code = self.daemon.wait(120)
        took = time.monotonic() - begin
        self.assertEqual(code, OK, self.log())
        self.assertLess(took, within)
        self.assertFalse(self.socket.exists())
        return took

    def test_term_while_storage_hangs(self):
        self.serve(env=HANGS)
        trainer = self.waiting(reconnect=0)
        self.daemon.send_signal(signal.SIGTERM)
        took = self.ends(within=7 * SLACK)
        self.assertGreater(took, 1)  # it did wait for its threads
        self.assertIn("stopping has taken too long", self.log())
        self.assertEqual(trainer.receive()["rc"], -104)  # ECONNRESET

    def test_a_second_signal_ends_it_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.serve(env=HANGS)
            self.waiting(reconnect=0)
            self.daemon.send_signal(number)
            time.sleep(0.5)
            self.assertIsNone(self.daemon.poll())
            self.daemon.send_signal(signal.SIGTERM)
            self.ends(within=2.5 * SLACK)

    def connects(self):
        with socket.socket(socket.AF_UNIX) as peer, contextlib.suppress(OSError):
            peer.connect(str(self.socket))
            return True

    def test_term_as_soon_as_it_listens(self):
        for _ in range(40):
            self.serve(wait=False)
            wait_for("the socket", self.connects, every=0)
            self.daemon.send_signal(signal.SIGTERM)
            self.ends(within=2 * SLACK)

    def test_term_and_interrupt_when_all_is_well(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.serve()
            trainer = self.trainer()
            trainer.attach(reconnect=0)
            trainer.next()
            self.daemon.send_signal(number)
            self.ends(within=2 * SLACK)

    def test_interrupt_of_a_waiting_trainer(self):
        self.serve(env=HANGS)
        trainer, other = self.waiting(job="a"), self.waiting(job="b")
        trainer.kill(signal.SIGINT)  # the library sets no handler: the default action
        self.assertEqual(trainer.process.wait(2 * SLACK), -signal.SIGINT)
        wait_for("its lease to end", lambda: self.state(trainer) in ("gone", "closing"), 2)
        self.waiting(job="a")  # the rank is free, whatever the storage does
        self.assertEqual(self.state(other), "streaming")

    def state(self, trainer):
        return (self.client_status(trainer.pid) or {"state": "gone"})["state"]

    def run_daemon(self, *arguments):
        return subprocess.run([str(DAEMON), "--user", "--socket", str(self.folder / "second.sock"), *map(str, arguments)],
                              capture_output=True, text=True, timeout=30 * SLACK)

    def refused(self, code, words, *arguments):
        done = self.run_daemon(*arguments)
        self.assertEqual(done.returncode, code, done)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_configuration(self):
        self.serve()
        file = self.folder / "wrong.yaml"
        self.refused(CONFIG, ["nowhere.yaml"], "--config", self.folder / "nowhere.yaml")
        for text, word in (("", "wrong.yaml"), ("feeds: [}", "wrong.yaml:1"), ("workers: 2\nfeedz: []\n", "feedz"),
                           ("workers: 010x\nfeeds: []\n", "workers")):
            file.write_text(text)
            self.refused(CONFIG, [word], "--config", file)
        self.assertFalse((self.folder / "second.sock").exists())

    def test_usage(self):
        for arguments in (["--no-such-option"], ["what"], ["--world", "0"], ["--config"]):
            self.refused(USAGE, ["dataloadd"], *arguments)
        for option in ("--help", "--version"):
            self.assertEqual(self.run_daemon(option).returncode, OK)

    def test_second_daemon(self):
        self.serve()
        self.refused(UNAVAILABLE, [str(self.socket), f"pid {self.daemon.pid}"], "--socket", self.socket,
                     "--config", self.folder / "dataloadd.yaml")
        trainer = self.trainer()
        trainer.attach()  # the first one is as it was
        trainer.next()


main()
