"""dataloadd --check-config: what each feed takes, all feeds looked at, notes that help."""
import re

from harness import *


class CheckConfig(Case):
    def check(self, *feeds, world=3, expect=0, **top):
        path = self.config(list(feeds), **top)
        done = subprocess.run([str(DAEMON), "--user", "--config", str(path), "--check-config", "--world", str(world)],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout

    def feed(self, **settings):
        data = self.folder / "data"
        if not data.exists():
            write_shards(data, shards=2, records=40)
        return {"source": str(data / "*.tar"), **settings}

    def memory(self, output):
        """MB of a trainer, its slots, MB of each, MB of its shuffle buffer."""
        found = re.search(r"a trainer: ([\d.]+) MB = (\d+) slots x ([\d.]+) MB \+ shuffle ([\d.]+) MB", output)
        return [float(group) for group in found.groups()]

    def test_memory_of_a_trainer(self):
        total, slots, slot, shuffle = self.memory(self.check(self.feed(batch=8, slots=3), world=1))
        self.assertEqual(slots, 3)
        self.assertAlmostEqual(slot, 8 * 224 * 224 * 3 / 1e6, delta=0.1)
        self.assertAlmostEqual(total, slots * slot + shuffle, delta=0.3)
        self.assertLess(shuffle, 1)  # the whole data set has less

    def test_a_feed_without_batch_says_what_is_reckoned_with(self):
        self.assertIn("reckoned with 256", self.check(self.feed()))
        self.assertNotIn("reckoned with", self.check(self.feed(batch=4)))

    def test_lanes_are_spoken_of_where_there_are_some(self):
        self.assertIn("its share of the 64 lanes", self.check(self.feed(batch=5)))
        self.assertNotIn("lanes", self.check(self.feed(batch=5, shuffle=0)))
        self.assertNotIn("batch 0", self.check(self.feed(batch=256)))

    def test_where_the_workers_run(self):
        allowed = sorted(os.sched_getaffinity(0))
        self.assertRegex(self.check(self.feed(batch=4), workers=3), r"workers: 3, on any of CPUs [\d,-]+\n")
        self.assertIn(f"workers: 1, pinned to CPUs {allowed[0]}\n", self.check(self.feed(batch=4), workers=1, pin_workers=True))

    def test_every_feed_is_looked_at(self):
        output = self.check({"source": "/no/such.tar", "batch": 1, "name": "first"}, {**self.feed(batch=5), "name": "second"}, expect=78)
        self.assertIn("/no/such.tar", output)
        self.assertIn("80 records in 2 shards", output)

    def test_more_than_the_limit(self):
        self.assertIn("more than the limit", self.check(self.feed(batch=256), memory="64MiB"))
        self.assertNotIn("more than the limit", self.check(self.feed(batch=4), memory="64MiB"))

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_root_leaves_nothing_in_the_cache_of_others(self):
        cache = self.folder / "cache"
        cache.mkdir()
        self.check(self.feed(batch=4), cache={"path": str(cache)})
        self.assertTrue((cache / "index").exists())
        shutil.rmtree(cache / "index")
        os.chown(cache, 61007, 61007)
        self.check(self.feed(batch=4), cache={"path": str(cache)})
        self.assertFalse((cache / "index").exists())


main()
