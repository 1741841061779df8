"""Indexing that takes long: reports each second keep an attach alive; storage that hangs does not."""
import time

import wire
from harness import *

if SANITIZE:
    skip("a preloaded library and a sanitizer do not get along")


class SlowIndex(Case):
    def serve(self, ms, shards=8):
        write_shards(self.folder / "data", shards=shards, records=8, width=32, height=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16}, workers=1)
        self.start_daemon(env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_MS": str(ms)})

    def test_time_out_counts_from_the_last_report(self):
        self.serve(60)
        trainer = self.trainer()
        start = time.monotonic()
        trainer.send("attach", feed="feed", timeout=2500)
        reply = trainer.receive()
        took = time.monotonic() - start
        self.assertEqual(reply["rc"], 0, reply)
        self.assertGreater(took, 4)  # longer than the time-out
        self.assertGreaterEqual(reply["progress"], int(took) - 2)  # about one a second

    def test_slices_report_too(self):
        self.serve(60)
        peer = wire.Peer(self.socket)
        self.addCleanup(peer.close)
        peer.send(wire.frame(wire.SLICES, wire.message(f5=wire.message(f1="feed", f2=wire.message(f1=2))), 7))
        reports = 0
        while (got := peer.next())[0] == wire.PROGRESS:
            self.assertEqual(got[2], 7)
            self.assertIn(b"index", got[1][1])
            reports += 1
        self.assertEqual(got[0], wire.SLICES_REPLY)
        self.assertGreaterEqual(reports, 2)

    def test_control_answers_meanwhile(self):
        self.serve(2000, shards=2)
        trainer = self.trainer()
        trainer.send("attach", feed="feed", timeout=60000)
        client = wait_for("the attach to be seen", lambda: self.client_status(trainer.pid))
        self.assertEqual(client["state"], "attaching")
        start = time.monotonic()
        self.ctl("ping")
        self.assertLess(time.monotonic() - start, SLACK)
        trainer.kill()  # nobody waits for the index any more
        wait_for("the claim to be gone", lambda: not self.status()["clients"])
        start = time.monotonic()
        self.stop_daemon()
        self.assertLess(time.monotonic() - start, 5.5 * SLACK)


main()
