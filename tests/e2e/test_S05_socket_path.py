"""S05: a path of 107 bytes works; longer ones are refused by name and limit on both sides."""
import pathlib
import subprocess

from harness import *


class Path(Case):
    def test_lengths(self):
        write_shards(self.folder / "data", shards=1, records=8)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2})
        for length in (107, 108, 200):
            self.socket = pathlib.Path(str(self.folder) + "/" + "s" * (length - len(str(self.folder)) - 1))
            self.assertEqual(len(str(self.socket)), length)
            if length == 107:
                self.start_daemon()
                self.trainer().attach()
                self.stop_all()
                continue
            done = subprocess.run([str(DAEMON), "--user", "--socket", str(self.socket), "--config", str(self.folder / "dataloadd.yaml")],
                                  capture_output=True, text=True, timeout=20 * SLACK)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("107", done.stderr)
            self.assertIn(str(self.socket)[:60], done.stderr)
            reply = self.trainer().call("attach", feed="feed")
            self.assertEqual(reply["rc"], -36, reply)  # ENAMETOOLONG
            self.assertIn("107", reply["error"])
            self.assertEqual([p for p in self.folder.iterdir() if p.is_socket()], [])


main()
