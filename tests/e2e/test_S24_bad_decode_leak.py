"""S24: bad pictures leak neither memory nor descriptors."""
from harness import *

ROUNDS = 300 if LONG else 10 if SANITIZE else 30  # without its own memory figures


class Leak(Case):
    def test_memory_is_flat(self):
        good = jpeg(100, 80, 1)
        progressive = jpeg(100, 80, 2, progressive=True)
        bad = [good[:len(good) // 2], progressive[:len(progressive) // 2], b"", b"<html>404</html>", b"\x89PNG\r\n\x1a\n",
               good[:60], good[:20] + b"\xff" * 200, b"\xff\xd8\xff\xd9"]
        bad += [p.read_bytes() for p in sorted((SHARED / "cases/jpeg").glob("*")) if p.stat().st_size < 200000]
        data = self.folder / "data"
        data.mkdir()
        write_tar(data / "a.tar", [m for i, b in enumerate(bad + [good]) for m in ((f"{i:03d}.jpg", b), (f"{i:03d}.cls", b"1"))])
        self.config({"source": str(data / "a.tar"), "batch": 4}, memory="64MiB")  # each heap keeps 1/64 of it once freed
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach()

        def lowest():  # a sample taken while a huge picture is decoded says nothing
            seen = []
            for _ in range(5):
                trainer.run(epochs=1, print=0)
                seen.append(self.daemon_memory())
            return min(seen)

        trainer.run(epochs=10, print=0)
        memory, fds = lowest(), self.daemon_fds()
        trainer.run(epochs=ROUNDS, print=0)
        self.assertLessEqual(abs(self.daemon_fds() - fds), 1)
        if not SANITIZE:
            self.assertLess(lowest() - memory, 4 << 20)


main()
