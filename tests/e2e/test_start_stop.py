"""Daemons that start at once, or while another stops: one at a time has the socket, and trainers find it."""
import signal
import subprocess
import time

from harness import *


class StartStop(Case):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "data", shards=2, records=50, width=32, height=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16}, workers=1)

    def start(self):
        daemon = subprocess.Popen([str(DAEMON), "--user", "--socket", str(self.socket), "--config", str(self.folder / "dataloadd.yaml")],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=with_device(None))
        self.addCleanup(lambda: (daemon.poll() is None and daemon.kill(), daemon.wait(), daemon.stderr.close()))
        return daemon

    def test_many_at_once(self):
        for stale in (False, True, True):
            if stale:  # left by one that was killed
                self.start_daemon()
                self.stop_daemon(signal.SIGKILL)
            daemons = [self.start() for _ in range(8)]
            wait_for("all but one to end", lambda: sum(d.poll() is None for d in daemons) == 1)
            alive, = [d for d in daemons if d.poll() is None]
            for daemon in daemons:
                if daemon is not alive:
                    self.assertEqual(daemon.returncode, 69)
                    self.assertRegex(daemon.stderr.read(), f"running at .*pid {alive.pid}|another dataloadd is starting")
            self.assertIn(f"pid {alive.pid}", self.ctl("ping").stdout)
            self.trainer().attach(job=f"job{stale}")
            alive.terminate()
            self.assertEqual(alive.wait(10 * SLACK), 0)
            self.assertFalse(self.socket.exists())

    def test_start_while_the_old_one_stops(self):
        trainer = self.trainer()
        self.start_daemon()
        trainer.attach(job="long")
        trainer.send("run", batches=1 << 40, print=0, sleep_us=1000)
        for turn in range(10):
            old = self.daemon
            old.terminate()
            time.sleep(turn * 0.002)
            while True:  # the old one may still have the socket
                self.start_daemon(wait=False)
                ended = wait_for("it to start or to give up", lambda: self.daemon.poll() is not None or
                                 f"pid {self.daemon.pid}," in self.ctl("ping", check=False).stdout)
                if self.daemon.poll() is None:
                    break
                self.assertEqual(self.daemon.returncode, 69)
            self.assertTrue(ended)
            self.assertEqual(old.wait(10 * SLACK), 0)
            time.sleep(0.05)
            self.assertIn(f"pid {self.daemon.pid},", self.ctl("ping").stdout)  # the old one left the new socket alone
            wait_for("the trainer to come back", lambda: (self.client_status(trainer.pid) or {"batches": 0})["batches"] > 0)

    def test_attach_while_it_stops(self):
        outcomes = set()
        for turn in range(12):
            self.start_daemon()
            trainer = self.trainer()
            trainer.send("attach", feed="feed", timeout=5000 * SLACK, reconnect=0)
            time.sleep(turn * 0.003)
            start = time.monotonic()
            self.stop_daemon()
            self.assertLess(time.monotonic() - start, 5 * SLACK)
            reply = trainer.receive()
            outcomes.add(reply["rc"])
            if reply["rc"]:
                self.assertIn("dataloadd", reply["error"])
            trainer.close()
        self.assertLessEqual(outcomes, {0, -104, -111}, outcomes)  # ECONNRESET, ECONNREFUSED; ENOENT would be: no such feed


main()
