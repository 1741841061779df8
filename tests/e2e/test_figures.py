"""What limits is named, and the figures of status agree with it and with each other: storage, decoding and a trainer that are slow by
design. How exact they are, tests/bench/truth.py tells."""
from harness import *

RECORD = 1 << 20  # bytes: what is read at once, 16 MiB, is few of them
STAGES = ["read", "decode", "augment", "shuffle", "slots", "copy"]


class Planted(Case):
    def begin(self, delay, workers, batch_us):
        """A trainer that works so long on each batch of four."""
        write_tar(self.folder / "data.tar", [(f"{n:03d}.jpg", padded(jpeg(), RECORD)) for n in range(32)])
        self.config({"source": str(self.folder / "data.tar"), "fields": [{"name": "image", "from": "jpg", "kind": "image"}],
                     "transform": [{"random_resized_crop": 32}], "batch": 4, "shuffle": 0}, workers=workers)
        self.start_daemon(env={"DATALOADD_TEST_DELAY": delay})
        trainer = self.trainer()
        trainer.attach(slots=10)
        trainer.send("run", sleep_us=batch_us, print=0)

    def client(self):
        client = self.status()["clients"][0]
        self.last = {key: client[key] for key in ("limiting_stage", "wait_share", "ready_share", "causes", "samples_per_s", "verdict")}
        return client

    def until(self, condition):
        """The status of which it holds."""
        def holds():
            client = self.client()
            return client if client["window_s"] >= 2 and condition(client) else None

        try:
            return wait_for("figures as planted", holds, every=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.last}") from None

    def agree(self, client):
        """Figures of one moment."""
        self.assertEqual([stage["name"] for stage in client["stages"]], STAGES)
        self.assertEqual(sum(client["wait_counts"]), client["batches"])
        self.assertEqual(len(client["wait_counts"]), 13)
        self.assertLessEqual(client["wait_p50_s"], client["wait_p99_s"])
        self.assertLessEqual(client["wait_p99_s"], client["wait_max_s"])
        self.assertEqual(client["samples"], 4 * client["batches"])
        self.assertEqual(client["bytes"], client["samples"] * 32 * 32 * 3)
        self.assertGreaterEqual(client["read_bytes"], client["samples"] * RECORD)
        self.assertEqual(client["number"], 1)
        for time in ("wait_s", "hold_s"):  # each for itself: on a busy machine a release is heard of late
            self.assertLessEqual(client[time], client["attached_s"])
        self.assertGreaterEqual(client["compute_limit"], client["samples_per_s"])
        self.assertEqual(sum(cause["stalls"] for cause in client["causes"]), client["stalls"])
        feed = self.status()["feeds"][0]
        self.assertEqual([stage["name"] for stage in feed["stages"]], STAGES)
        self.assertGreaterEqual(feed["read_bytes"], client["read_bytes"])
        self.assertEqual(feed["read_errors"], 0)

    @staticmethod
    def worst(client):
        causes = sorted(client["causes"], key=lambda cause: cause["wait_s"])
        return causes[-1]["name"] if causes else ""

    def test_storage(self):
        self.begin(f"read_rate:{15 * RECORD}", 8, 10000)
        client = self.until(lambda it: it["limiting_stage"] == "storage" and it["wait_share"] > 0.5 and self.worst(it) == "storage")
        self.agree(client)
        self.assertLess(client["read_limit"], 30)

    def test_decode(self):
        self.begin("decode:150000", 2, 10000)
        client = self.until(lambda it: it["limiting_stage"] == "decode" and it["wait_share"] > 0.5 and self.worst(it) == "decode")
        self.agree(client)
        self.assertLess(client["decode_per_worker"], 12)
        self.assertGreater(next(stage for stage in client["stages"] if stage["name"] == "decode")["busy"], 1)

    def test_trainer(self):
        self.begin("decode:1000", 2, 400000)
        client = self.until(lambda it: it["limiting_stage"] == "trainer" and it["wait_share"] < 0.3 and it["ready_share"] > 0.7)
        self.agree(client)
        self.assertLess(client["compute_limit"], 15)
        self.assertGreater(client["hold_share"], 0.5)


main()
