"""S29: a held batch does not change; giving back twice or what one never had is an error to that client only."""
from harness import *


class Reuse(Case):
    def test_held_bytes_stay(self):
        write_shards(self.folder / "data", shards=4, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64})
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach(slots=4)
        held = trainer.next()
        trainer.run(batches=60, print=0)
        view = trainer.call("view", handle=held["handle"])
        self.assertEqual((view["image"], view["index"]), (held["image"], held["index"]))
        self.assertEqual(trainer.call("release", handle=held["handle"], keep=1)["rc"], 0)
        trainer.run(batches=20, print=0)

    def test_fork_is_refused(self):
        write_shards(self.folder / "data", shards=1, records=16)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4})
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach()
        reply = trainer.call("fork")
        self.assertEqual(reply["rc"], -37, reply)  # ENOLCK
        self.assertIn(str(trainer.pid), reply["error"])
        trainer.next()


main()
