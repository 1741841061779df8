"""S22: a cached index made for another shard is not used."""
import os
import shutil

from harness import *


class Foreign(Case):
    def shard(self, path, labels):
        write_tar(path, [member for i, label in enumerate(labels)
                         for member in ((f"{i}.jpg", jpeg(40 + label, 40, label)), (f"{i}.cls", str(label).encode()))])

    def labels(self):
        trainer = self.trainer()
        trainer.attach()
        lines = trainer.run(epochs=1, print=2)
        trainer.close()
        self.assertEqual(sum(line["valid"] for line in lines), 8)
        return sorted(label for line in lines for label in line["label"])

    def test_swapped(self):
        data = self.folder / "data"
        data.mkdir()
        self.shard(data / "a.tar", range(8))
        self.config({"source": str(data / "a.tar"), "batch": 8})
        self.start_daemon()
        self.assertEqual(self.labels(), list(range(8)))
        self.stop_daemon()
        stamp = os.stat(data / "a.tar")
        size = stamp.st_size
        self.shard(data / "a.tar", range(20, 28))  # same count, other offsets, other bytes
        with open(data / "a.tar", "ab") as file:
            file.truncate(max(size, file.tell()))
        os.utime(data / "a.tar", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        self.start_daemon()
        self.assertEqual(self.labels(), list(range(20, 28)))

    def test_damaged_cache(self):
        data = self.folder / "data"
        data.mkdir()
        self.shard(data / "a.tar", range(8))
        self.config({"source": str(data / "a.tar"), "batch": 8})
        self.start_daemon()
        self.labels()
        self.stop_daemon()
        files = [p for p in (self.folder / "cache").rglob("*") if p.is_file() and p.stat().st_size > 200]
        self.assertTrue(files)
        for path in files:
            raw = bytearray(path.read_bytes())
            for at in range(64, len(raw), 97):
                raw[at] ^= 0xFF
            path.write_bytes(raw)
        self.start_daemon()
        self.assertEqual(self.labels(), list(range(8)))


main()
