"""The daemon and its trainers on a GPU, whichever driver is found: throughput against the limit, sharing between trainers,
time to attach and to hand on, what a killed trainer costs. One row a line: name, figure, unit. Usage: load.py GB_PER_S
"""
import concurrent.futures
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from harness import *  # noqa: E402

LIMIT = float(sys.argv.pop(1)) if len(sys.argv) > 1 else 0
ROW = 1_000_000
SECONDS = float(os.environ.get("GPU_SECONDS", "4"))


def row(name, figure, unit=""):
    print(f"{name}\t{figure:.4g}\t{unit}" if isinstance(figure, float) else f"{name}\t{figure}\t{unit}", flush=True)


def total_lent(case):
    return sum(gpu["lent"] for gpu in json.loads(case.ctl("gpu", "--json").stdout)["gpus"])


class Load(Case):
    def serve(self, rows, size, **top):
        """Rows that need no decoding, in the page cache."""
        data = self.folder / "data"
        if not data.exists():
            data.mkdir()
            for shard in range(4):
                write_tar(data / f"{shard}.tar", [(f"{shard}-{i:03d}.bin", random.Random(i).randbytes(size)) for i in range(64)])
        fields = [{"name": "raw", "from": ["bin"], "kind": "bytes", "max_bytes": size}]
        self.config({"source": str(data / "*.tar"), "fields": fields, "batch": rows, "shuffle": 0, "slots": 4}, **top)
        self.start_daemon()

    def attached(self, number):
        trainer = self.trainer()
        begin = time.monotonic()
        trainer.attach(job=f"job-{number}", device="gpu")
        row(f"attach of trainer {number}", (time.monotonic() - begin) * 1e3, "ms")
        return trainer

    def rates(self, trainers, size):
        """Bytes a second of each, all at the same time."""
        def one(trainer):
            begin, seen = time.monotonic(), 0
            while time.monotonic() - begin < SECONDS:
                trainer.send("run", batches=20, print=0)
                seen += trainer.results()[-1]["batches"]
            return seen * size / (time.monotonic() - begin)
        with concurrent.futures.ThreadPoolExecutor(len(trainers)) as pool:
            return list(pool.map(one, trainers))

    def test_throughput(self):
        rows = 32
        self.serve(rows, ROW, memory="8GiB")
        for count in (1, 2, 4, 8):
            trainers = [self.attached(number) for number in range(count)]
            rates = self.rates(trainers, rows * ROW)
            row(f"{count} trainers, all", sum(rates) / 1e9, "GB/s")
            if LIMIT:
                row(f"{count} trainers, of the pinned limit", 100 * sum(rates) / 1e9 / LIMIT, "%")
            row(f"{count} trainers, largest share by smallest", max(rates) / min(rates), "")
            for trainer in trainers:
                trainer.call("detach")
                trainer.close()
            self.trainers.clear()
            wait_for("the GPU's memory", lambda: total_lent(self) == 0)

    def test_handing_on(self):
        """A batch of 4 KiB: given back, made anew, copied and told of."""
        self.serve(1, 4096)
        trainer = self.attached(0)
        trainer.run(batches=100, print=0)
        times = []
        for _ in range(300):
            begin = time.monotonic()
            line = trainer.call("next", rows=0)
            if line["rc"] == 0:  # else the end of an epoch
                times.append(time.monotonic() - begin)
                trainer.call("release", handle=line["handle"])
        times.sort()
        row("next of a small batch, median", statistics.median(times) * 1e6, "us")
        row("next of a small batch, 99 of 100", times[len(times) * 99 // 100] * 1e6, "us")

    def test_kills(self):
        """Killed at random, while three others' batches are compared."""
        write_shards(self.folder / "pictures", shards=2, records=40)
        self.config({"source": str(self.folder / "pictures/*.tar"), "batch": 8, "seed": 7})
        self.start_daemon()
        others = [self.trainer() for _ in range(3)]
        for number, trainer in enumerate(others):
            trainer.attach(job=f"stays-{number}", device="gpu")
            trainer.send("run", epochs=100, print=2)
        pool = concurrent.futures.ThreadPoolExecutor(3)
        results = [pool.submit(trainer.results) for trainer in others]
        rng, longest = random.Random(1), 0.0
        for number in range(20):
            victim = self.trainer()
            victim.attach(job=f"dies-{number}", device="gpu")
            victim.send("run", print=0)
            time.sleep(rng.random() * 0.1)
            victim.kill()
            begin = time.monotonic()
            wait_for("its end", lambda: not self.client_status(victim.pid))
            longest = max(longest, time.monotonic() - begin)
        seen = []
        for trainer, result in zip(others, results):
            lines = result.result()
            self.assertEqual(lines[-1]["rc"], 0, lines[-1])
            seen.append([(line["epoch"], line["step"], line["index"], line["image"]) for line in lines[:-1]])
            trainer.call("detach")
        pool.shutdown()
        row("batches that differ after 20 kills", sum(a != b for lines in seen[1:] for a, b in zip(seen[0], lines)), "")
        row("longest until a killed trainer is gone", longest, "s")
        wait_for("the GPU's memory", lambda: total_lent(self) == 0)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])

    def test_pictures(self):
        """JPEGs of 500 x 375, cropped to 224: what decoding gives, and what the daemon says is the limit."""
        write_shards(self.folder / "pictures", shards=4, records=128, width=500, height=375)
        for workers in sorted({1, 4, os.cpu_count()}):
            self.config({"source": str(self.folder / "pictures/*.tar"), "batch": 64, "shuffle": 64, "transform": "train"}, workers=workers)
            self.start_daemon()
            trainer = self.attached(0)
            trainer.run(batches=2, print=0)
            rate = self.rates([trainer], 64)[0]
            row(f"pictures, {workers} workers", rate, "a second")
            row(f"pictures, {workers} workers, last stall", self.client_status(trainer.pid)["last_cause"], "")
            trainer.call("detach")
            self.stop_daemon()


main()
