"""S07: descriptors are passed once at attach, not per batch; a limit reached is named."""
import os
import resource

from harness import *


def limit(number):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


class Descriptors(Case):
    def test_constant(self):
        write_shards(self.folder / "data", shards=4, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64})
        self.start_daemon(preexec_fn=limit(1024))
        trainer = self.trainer(preexec_fn=limit(256))
        trainer.attach(slots=4)
        for _ in range(4):
            trainer.next()
        reply = trainer.call("next")  # all slots are held: back-pressure, long before descriptors
        self.assertEqual(reply["rc"], -35, reply)  # EDEADLK
        self.assertIn("4", reply["error"])
        for handle in range(4):
            trainer.call("release", handle=handle)
        count = lambda: len(os.listdir(f"/proc/{trainer.pid}/fd"))
        client, daemon = count(), self.daemon_fds()
        trainer.run(batches=500, print=0)
        self.assertLessEqual(abs(count() - client), 2)
        self.assertLessEqual(abs(self.daemon_fds() - daemon), 2)

    def test_cut_descriptor_is_named(self):
        write_shards(self.folder / "data", shards=1, records=8)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2})
        self.start_daemon()
        seen = []
        for number in range(4, 12):  # some of these leave room for the socket and not for the arena
            trainer = self.trainer(preexec_fn=limit(number))
            reply = trainer.call("attach", feed="feed", reconnect=0)
            seen.append((reply["rc"], reply.get("error", "")))
            trainer.close()
        self.assertEqual(seen[-1][0], 0, seen)
        named = (0, -24, -19) if CUDA else (0, -24)  # EMFILE; the driver needs descriptors too, and says so
        self.assertTrue(all(rc in named for rc, _ in seen), seen)
        self.assertTrue(any(rc == -24 and "descriptor" in error for rc, error in seen), seen)


main()
