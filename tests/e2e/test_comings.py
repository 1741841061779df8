"""The daemon's log: one line for each attach and each leave, with who, why and how it went; one for each refusal."""
import re

import wire
from harness import *

WHO = r"pid {pid} \(\S+\): feed feed, job {job}, rank {rank} of {world}: "
ATTACHED = WHO + r"attached \(from the start\) at epoch 0, step 0, [0-9.]+ MB"
LEFT = WHO + r"{why} after [0-9.]+ s, {batches} batch(?:es)?, {samples} samples, waited [0-9.]+ %"


class Comings(Case):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "data", shards=2, records=50)
        source = {"source": str(self.folder / "data/*.tar"), "batch": 8, "shuffle": 16}
        self.config([source, {"name": "closed", **source, "allow": {"users": [12345]}}])
        self.start_daemon()

    def expect(self, pattern, **words):
        """Exactly one such line, soon."""
        pattern = pattern.format(**words) + "\n"
        wait_for(pattern, lambda: re.search(pattern, self.log()), 10)
        self.assertEqual(len(re.findall(pattern, self.log())), 1, self.log())

    def lines_of(self, pid):
        return [line for line in self.log().splitlines() if f"pid {pid} " in line or f"pid {pid}," in line]

    def attached(self, job, batches, rank=0, world=1):
        trainer = self.trainer()
        trainer.attach(job=job, rank=rank, world=world)
        for _ in range(batches):
            trainer.next()
        self.expect(ATTACHED, pid=trainer.pid, job=job, rank=rank, world=world)
        return trainer, {"pid": trainer.pid, "job": job, "rank": rank, "world": world, "batches": batches,
                         "samples": 8 * batches}

    def test_each_way_to_leave(self):
        trainer, words = self.attached("a", 3)
        trainer.call("detach")
        self.expect(LEFT, why="detached", **words)
        trainer, words = self.attached("b", 1, rank=1, world=2)
        trainer.kill()
        self.expect(LEFT, why="(?:process ended|connection closed)", **words)
        self.assertEqual(len(self.lines_of(trainer.pid)), 2)
        trainer, words = self.attached("c", 2)
        self.stop_daemon()
        self.expect(LEFT, why="the daemon stops", **words)

    def test_a_peer_without_manners(self):
        words = {"pid": os.getpid(), "rank": 0, "world": 1, "batches": 0, "samples": 0}
        for job, last, why in (("x", wire.message(f1=1) * 3, "malformed frame"), ("y", b"", "connection closed")):
            peer = wire.Peer(self.socket)
            peer.send(wire.attach(job=job, rank=0, world=1, batch=8))
            self.expect(ATTACHED, job=job, **words)
            peer.send(last)
            peer.socket.close() if not last else None
            self.expect(LEFT, why=why, job=job, **words)
            peer.socket.close()

    def test_a_refusal_is_one_line(self):
        trainer = self.trainer()
        trainer.attach(feed="closed", expect=-13)
        self.assertEqual(len(self.lines_of(trainer.pid)), 1, self.log())
        self.assertIn("attach refused: uid ", self.lines_of(trainer.pid)[0])
        self.assertEqual(self.status()["refused"], 1)
        done = self.ctl("slices", "closed", "--world", "2", check=False)
        self.assertEqual(done.returncode, 77)
        self.assertEqual(self.log().count("slices refused: uid "), 1)


main()
