"""What limits a run, by measuring: the stage that was made slow is the one that is named."""
import io

from python_case import *

numpy = need("numpy")


class Measuring(PythonCase):
    def measured(self, delay, step_fn, **options):
        write_shards(self.folder / "data", shards=4, records=25)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "shuffle": 32, "seed": 7}, workers=2)
        self.start_daemon(env={"DATALOADD_TEST_DELAY": delay} if delay else None)
        self.made, out = self.loader(job="mine"), io.StringIO()
        state = self.made.state_dict()
        found = dataload.measure(self.made, step_fn, file=out, **options)
        self.assertEqual(out.getvalue(), f"{found}\n")
        self.assertEqual(self.made.state_dict(), state)
        wait_for("the Loader that measured to be gone", lambda: [client["job"] for client in self.clients()] == ["mine"])
        return found

    def test_slow_step(self):
        found = self.measured(None, lambda batch: time.sleep(0.5), steps=4, seconds=3)
        self.assertEqual(found.limit, "trainer")
        self.assertLess(found.compute, 8 / 0.5 * 1.01)
        self.assertIn("trainer limits: 1 worker would be enough", str(found))
        self.assertGreater(self.made.input_only(1), found.compute)

    def test_slow_decode(self):
        """Each picture takes 20 ms on average, so each of the two workers decodes under 50 a second."""
        found = self.measured("7:40000", lambda batch: time.sleep(0.002), steps=12, seconds=3)
        self.assertEqual(found.limit, "decode")
        self.assertLess(found.input, found.compute)
        self.assertLess(found.per_worker, 80)
        self.assertGreater(found.enough, 2)
        self.assertIn(f"decode limits: {found.enough} workers would be enough", str(found))

    def test_slow_storage(self):
        found = self.measured("read:400", lambda batch: None, steps=12, seconds=3)
        self.assertEqual(found.limit, "storage")
        self.assertIn("/s that storage gives", str(found))

    def test_replay(self):
        """The batch stays as it is, whatever the Loader does meanwhile."""
        self.serve()
        loader = self.loader()
        again, first = loader.replay(), None
        for one, _ in zip(again, loader):
            self.assertIs(one, first or one)
            first = first or one
        want = numpy.array(first["image"])
        for _ in loader:
            pass
        numpy.testing.assert_array_equal(next(again)["image"], want)


class Arithmetic(unittest.TestCase):
    def report(self, **changes):
        return str(dataload.Measurement(**{"compute": 1200, "input": 360, "real": 350, "stage": "decode", "workers": 4, "per_worker": 90, "storage": 0,
                                           "cores": 16, **changes})).splitlines()

    def test_workers(self):
        self.assertEqual(self.report(), ["compute only       1200 samples/s  (one batch again and again)",
                                         "input only          360 samples/s  (4 workers at 90/s each)",
                                         "real loop           350 samples/s",
                                         "decode limits: 14 workers would be enough for the 1200/s that the trainer takes (there are 4), and more "
                                         "would buy nothing"])
        self.assertRegex(self.report(ranks=2)[3], "27 workers .* on each of 2 ranks .*; this process sees 16 cores")
        self.assertRegex(self.report(storage=500)[3], "decode limits: 6 workers would be enough for the 500/s that storage gives")
        self.assertRegex(self.report(storage=370, stage="storage")[3], "storage limits: 5 workers")
        self.assertRegex(self.report(compute=100)[3], "trainer limits: 2 workers would be enough for the 100/s that the trainer takes")

    def test_workers_that_others_have(self):
        lines = self.report(input=180)
        self.assertEqual(lines[1], "input only          180 samples/s  (4 workers at 90/s each, 180/s of it for other jobs)")
        self.assertRegex(lines[3], "16 workers would be enough for the 1200/s that the trainer takes beside what other jobs have now")
        self.assertNotIn("other", self.report(input=180, stage="storage")[1])

    def test_others(self):
        self.assertRegex(self.report(stage="trainer")[3], "conversion limits: .*output:")
        self.assertRegex(self.report(stage="copy")[3], "copy limits: a larger batch")
        self.assertRegex(self.report(per_worker=0)[3], "no figures of the workers")
        self.assertRegex(self.report(real=200)[4], "together they are slower than either")


if __name__ == "__main__":
    main()
