"""S21: shards renamed over, truncated, deleted or appended to while an epoch runs."""
import json
import os

from harness import *


class Replaced(Case):
    def serve(self, shuffle=0):
        self.data = self.folder / "data"
        self.data.mkdir()
        self.names = [self.data / f"{s}.tar" for s in range(4)]
        for shard, name in enumerate(self.names):
            self.write(name, shard * 100)
        self.config({"source": str(self.data / "*.tar"), "batch": 4, "shuffle": shuffle, "tail": "partial", "slots": SLOTS_MIN})
        self.start_daemon()
        trainer = self.trainer()
        self.records = trainer.attach()["records"]
        self.first = trainer.run(batches=2, print=2)
        return trainer

    def write(self, path, first, records=100):
        # Large enough that no shard is read whole before the test changes it.
        members = []
        for i in range(first, first + records):
            members += [(f"{i:05d}.jpg", jpeg(64, 48, i) + os.urandom(60000)), (f"{i:05d}.cls", str(i % 10).encode())]
        write_tar(path, members)

    def classes(self):
        return {entry["class"] for entry in json.loads(self.ctl("bad", "feed", "--json").stdout)["bad"]}

    def rest(self, trainer):
        lines = self.first + trainer.run(epochs=1, print=2)
        self.assertEqual(sum(line["rows"] for line in lines), self.records)
        return [flag for line in lines for flag in line["flags"]]

    def test_renamed_over(self):
        trainer = self.serve()
        for name in self.names:
            self.write(self.folder / "new.tar", 900)
            os.rename(self.folder / "new.tar", name)
        flags = self.rest(trainer)
        self.assertTrue(all(flags[:8]))  # what was open is read as it was
        self.assertFalse(any(flags[-100:]))  # what was opened later is another file
        self.assertIn("SHARD-CHANGED", self.classes())

    def test_truncated(self):
        trainer = self.serve()
        for name in self.names:
            os.truncate(name, name.stat().st_size // 2)
        flags = self.rest(trainer)
        self.assertFalse(all(flags))
        self.assertTrue(self.classes() & {"SHARD-TRUNC", "SHARD-CHANGED"})
        self.assertIsNone(self.daemon.poll())

    def test_deleted(self):
        trainer = self.serve()
        os.unlink(self.names[3])
        flags = self.rest(trainer)
        self.assertFalse(any(flags[-100:]))
        self.assertTrue(all(flags[:300]))
        self.assertIn("SHARD-MISSING", self.classes())

    def test_appended(self):
        trainer = self.serve()
        fingerprint = trainer.attach()["fingerprint"]
        trainer.run(batches=1)
        self.write(self.names[0], 0, 110)
        reply = self.trainer().attach(job="new")  # seen by new jobs
        self.assertNotEqual(reply["fingerprint"], fingerprint)
        self.assertEqual(reply["records"], self.records + 10)


main()
