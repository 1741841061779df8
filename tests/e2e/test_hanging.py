"""A daemon that hangs or has died: dataloadctl says so, with what it wrote last."""
import signal

from harness import *


class Hanging(Case):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "data", shards=1, records=8)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2})
        self.counters = pathlib.Path(f"{self.socket}.counters")

    def written(self):
        """How many snapshots there are; 0 before the first."""
        return int.from_bytes(self.counters.read_bytes()[56:64], "little")

    def test_a_stopped_daemon(self):
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach()
        before = self.written()
        wait_for("a snapshot with the trainer", lambda: self.written() > before + 1)
        self.daemon.send_signal(signal.SIGSTOP)
        self.addCleanup(self.daemon.send_signal, signal.SIGCONT)
        begun = time.monotonic()
        done = self.ctl("status", check=False)
        self.assertLess(time.monotonic() - begun, 4 * SLACK)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertRegex(done.stderr, r"^dataloadctl: dataloadd does not answer: heartbeat \d+ s old; figures are of then; pid \d+: its process is stopped\n$")
        self.assertIn(str(trainer.pid), done.stdout.split())
        done = self.ctl("advise", "--json", check=False)
        said = json.loads(done.stdout)
        self.assertEqual((done.returncode, said["answers"], said["hangs"], said["feeds"][0]["name"]), (69, False, "its process is stopped", "feed"))
        self.assertGreaterEqual(said["heartbeat_age_s"], 2)
        self.assertGreaterEqual(said["figures_age_s"], 2)
        self.daemon.send_signal(signal.SIGCONT)
        self.assertTrue(self.status()["answers"])

    def test_a_killed_daemon(self):
        self.start_daemon()
        pid = self.daemon.pid
        self.stop_daemon(signal.SIGKILL)
        done = self.ctl("status", check=False)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, rf"no dataloadd listens at .*; the last one, pid {pid}, ended without a word: its last heartbeat was .* ago\n$")
        self.start_daemon()
        self.assertEqual(self.status()["pid"], self.daemon.pid)
        self.stop_daemon()
        self.assertFalse(self.counters.exists())
        self.assertEqual(self.ctl("status", check=False).stderr, f"dataloadctl: no dataloadd is running: there is no socket at {self.socket}\n")

    def serve_in(self, size):
        """A daemon whose socket lies in a file system of that size."""
        need_namespaces()
        run = self.folder / "run"
        run.mkdir(exist_ok=True)
        self.socket = run / "control.sock"
        self.start_daemon(wait=False, prefix=["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size={size} none {run} && exec \"$@\"", "sh"])
        self.socket = pathlib.Path(f"/proc/{self.daemon.pid}/root{run}/control.sock")
        self.counters = pathlib.Path(f"{self.socket}.counters")
        wait_for("the daemon", lambda: self.socket.exists() and self.answers())

    def test_a_file_system_that_becomes_full(self):
        self.serve_in("1m")
        with open(self.socket.parent / "full", "wb", buffering=0) as full:
            with self.assertRaises(OSError):
                while True:
                    full.write(bytes(4096))
        before = self.written()
        wait_for("snapshots to go on", lambda: self.written() > before + 1)
        self.assertTrue(self.status()["answers"])

    def test_a_file_system_without_room(self):
        self.serve_in("64k")
        self.assertFalse(self.counters.exists())
        self.assertIn("cannot be reserved", self.log())
        self.assertTrue(self.status()["answers"])


main()
