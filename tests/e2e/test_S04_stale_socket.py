"""S04: a stale socket is replaced, a living daemon and a regular file are left alone."""
import signal
import subprocess

from harness import *


class Socket(Case):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "data", shards=1, records=8)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2})

    def second(self):
        return subprocess.run([str(DAEMON), "--user", "--socket", str(self.socket), "--config", str(self.folder / "dataloadd.yaml")],
                              capture_output=True, text=True, timeout=20 * SLACK)

    def test_stale_is_replaced(self):
        self.start_daemon()
        self.stop_daemon(signal.SIGKILL)
        self.assertTrue(self.socket.exists())
        self.start_daemon()
        self.trainer().attach()

    def test_living_is_kept(self):
        first = self.start_daemon()
        done = self.second()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("running", done.stderr)
        self.assertIn(str(first.pid), done.stderr)
        self.assertIsNone(first.poll())
        self.trainer().attach()

    def test_regular_file_is_kept(self):
        self.socket.write_text("precious")
        done = self.second()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(self.socket), done.stderr)
        self.assertEqual(self.socket.read_text(), "precious")

    def test_socket_is_gone_after_stop(self):
        self.start_daemon()
        self.stop_daemon()
        self.assertFalse(self.socket.exists())


main()
