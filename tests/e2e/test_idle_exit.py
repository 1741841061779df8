"""--idle-exit: a daemon without connections ends by itself; one that somebody uses, or comes back to, does not."""
import signal
import socket
import subprocess
import time

from harness import *


class IdleExit(Case):
    def serve(self, seconds):
        write_shards(self.folder / "data", shards=2, records=50, width=32, height=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16}, workers=1)
        self.start_daemon(arguments=("--idle-exit", str(seconds)), wait=False)
        wait_for("the daemon", self.answers)

    def ends(self):
        wait_for("the daemon to end", lambda: self.daemon.poll() is not None)
        self.assertEqual(self.daemon.returncode, 0, self.log())
        self.assertFalse(self.socket.exists())
        self.assertIn("no connection for", self.log())

    def connect(self):
        peer = socket.socket(socket.AF_UNIX)
        self.addCleanup(peer.close)
        peer.connect(str(self.socket))
        return peer

    def test_nobody_comes(self):
        self.serve(1)
        self.ends()

    def test_stays_while_somebody_is_attached(self):
        self.serve(1)
        trainer = self.trainer()
        trainer.attach(job="long")
        time.sleep(4)
        self.assertIsNone(self.daemon.poll(), self.log())
        trainer.next()
        trainer.kill()
        self.ends()

    def test_stays_for_one_that_comes_back(self):
        self.serve(10)
        for _ in range(3):
            trainer = self.trainer()
            trainer.attach(job="again")
            trainer.next()
            trainer.kill()
            time.sleep(1)
        self.assertIsNone(self.daemon.poll(), self.log())
        self.ends()

    def test_serves_one_that_comes_in_the_last_moment(self):
        self.serve(2)
        self.daemon.send_signal(signal.SIGSTOP)
        peer = self.connect()
        trainer = self.trainer()
        trainer.send("attach", feed="feed", job="late", timeout=60000)
        time.sleep(3)  # the time is over when it looks next
        self.daemon.send_signal(signal.SIGCONT)
        self.assertEqual(trainer.receive()["rc"], 0, self.log())
        trainer.next()
        peer.close()
        other = self.trainer()
        other.attach(job="later")
        trainer.kill()
        other.kill()
        self.ends()

    def test_no_number(self):
        for wrong in ("0", "-1", "soon", "86401"):
            done = subprocess.run([str(DAEMON), "--user", f"--idle-exit={wrong}"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"--idle-exit {wrong}: seconds from 1 to 86400 are wanted", done.stderr)


main()
