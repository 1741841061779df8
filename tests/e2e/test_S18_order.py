"""S18: the same order, labels, draws and pixels with 1, 2, 8 and 16 decode threads, run after run, under random delays in reads
and decodes; at another world with the same rows a step; and with less of the machine's vector code."""
import hashlib

from harness import *

RUNS = 5 if LONG else 1 if SANITIZE else 3
RECORDS, ROWS = 48 if SANITIZE else 120, 8


def pictures():
    """Photographs where there are some, and odd sizes, colours and kinds of JPEG."""
    found = sorted((SHARED / "data/imagenet-300").glob("*.JPEG"))[:RECORDS // 3]
    made = [jpeg(61 + 5 * (i % 23), 50 + 7 * (i * i % 19), i, 60 + i % 40, "L" if i % 7 == 3 else "RGB", progressive=i % 5 == 2, subsampling=i % 3)
            for i in range(RECORDS - len(found))]
    return [path.read_bytes() for path in found] + made


class Order(Case):
    def setUp(self):
        super().setUp()
        data, images = self.folder / "data", pictures()
        data.mkdir()
        for shard in range(4):
            numbers = range(shard * RECORDS // 4, (shard + 1) * RECORDS // 4)
            write_tar(data / f"{shard}.tar", [m for i in numbers for m in ((f"{i:04d}.jpg", images[i * 7 % RECORDS]), (f"{i:04d}.cls", str(i % 10).encode()))])
        self.feed = {"source": str(data / "*.tar"), "batch": ROWS, "shuffle": 48, "lanes": 4, "seed": 5,
                     "transform": [{"random_resized_crop": 64}, {"flip": 0.5}]}

    def run_of(self, workers=2, env=None, world=1, epochs=2, **feed):
        """The global batches of a daemon of its own: (epoch, step, token, rows), rows being (id, label, valid, hash of the
        bytes), rank after rank."""
        self.config({**self.feed, **feed}, workers=workers)
        (self.folder / "daemon.log").unlink(missing_ok=True)
        self.start_daemon(env=env)
        try:
            return self.steps(world, epochs)
        finally:
            self.stop_all()
            self.trainers.clear()

    def steps(self, world, epochs):
        ranks = [self.trainer() for _ in range(world)]
        for rank, trainer in enumerate(ranks):
            trainer.attach(job="run", rank=rank, world=world, batch=ROWS // world)
            trainer.send("run", epochs=epochs, print=3)
        lines = [trainer.results()[:-1] for trainer in ranks]
        rows = lambda line: list(zip(line["index"], line["label"], line["flags"], line["image"]))
        return [(step[0]["epoch"], step[0]["step"], step[0]["token"], sum(map(rows, step), [])) for step in zip(*lines, strict=True)]

    def test_threads_and_delays(self):
        want = self.run_of()
        for workers in (1, 2, 8, 16):
            for run in range(RUNS):
                with self.subTest(workers=workers, run=run):
                    self.assertEqual(self.run_of(workers, {"DATALOADD_TEST_DELAY": f"{workers * 10 + run}:2000"}), want)
        epochs = [[row for step in want if step[0] == epoch for row in step[3]] for epoch in (0, 1)]
        for rows in epochs:
            self.assertEqual(sorted(i for i, _, valid, _ in rows if valid), list(range(RECORDS)))
            self.assertTrue(all(i % 10 == label for i, label, _, _ in rows))  # labels belong to their samples
        self.assertNotEqual([row[0] for row in epochs[0]], [row[0] for row in epochs[1]])
        bytes_of = [{row[0]: row[3] for row in rows} for rows in epochs]
        self.assertGreater(sum(bytes_of[0][i] != bytes_of[1][i] for i in range(RECORDS)), 0.95 * RECORDS)  # other draws
        digest = hashlib.sha256(repr(want).encode()).hexdigest()[:16]
        print(f"4 numbers of threads x {RUNS} runs x {len(want)} batches: all are {digest}")

    def test_worlds_of_the_same_rows(self):
        want = self.run_of()
        for world, workers in ((1, 16), (2, 3), (4, 8), (8, 2)):
            with self.subTest(world=world):
                self.assertEqual(self.run_of(workers, {"DATALOADD_TEST_DELAY": f"{world}:2000"}, world), want)

    def test_a_world_of_other_rows(self):
        """Other batches, but the same bytes for each sample."""
        pixels = lambda steps: {(epoch, row[0]): row[3] for epoch, _, _, rows in steps for row in rows if row[2]}
        want = self.run_of()
        got = self.run_of(8, {"DATALOADD_TEST_DELAY": "3:2000"}, world=3)
        self.assertNotEqual([step[3] for step in got], [step[3] for step in want])
        self.assertEqual(pixels(got), pixels(want))

    def test_vector_code(self):
        """Ours and libjpeg's, in every output type: the same bytes without."""
        normal = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
        outputs = {"uint8_nhwc": {}, "uint8_nchw": {}, "float32_nchw": normal, "float16_nchw": normal, "bfloat16_nchw": normal}
        levels, log = set(), ""
        for output, more in outputs.items():
            want = None
            for simd, jpeg_simd in (("avx2", {}), ("sse4", {"JSIMD_FORCESSE2": "1"}), ("none", {"JSIMD_FORCENONE": "1"})):
                with self.subTest(output=output, simd=simd):
                    got = self.run_of(2, {"DATALOADD_SIMD": simd, **jpeg_simd}, epochs=1, output=output, **more)
                    log = self.log()
                    levels |= {level for level in ("none", "sse4", "avx2") if f"vector code {level}" in log}
                    want = want or got
                    self.assertEqual(got, want)
        self.assertIn("vector code none", log)
        print(f"{len(outputs)} output types, vector code {', '.join(sorted(levels))}: the same bytes")


main()
