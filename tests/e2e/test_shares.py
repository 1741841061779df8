"""What two users get of workers and of storage when there is not enough: parts by weight, however many trainers each has."""
import os
import time

from harness import *

MANY, ONE = 61031, 61032
RECORD = 100_000


class Shares(Case):
    def setUp(self):
        need_root()
        super().setUp()
        os.chmod(self.folder, 0o755)
        (self.folder / "data").mkdir()
        for shard in range(8):
            write_tar(self.folder / f"data/data-{shard}.tar", [(f"{shard}-{i:03d}.bin", bytes(RECORD)) for i in range(40)])

    def write(self, weight):
        fields = [{"name": "raw", "from": ["bin"], "kind": "bytes"}]
        self.config({"source": str(self.folder / "data/*.tar"), "fields": fields, "batch": 4, "shuffle": 32, "lanes": 4},
                    workers=2, memory="1GiB", users=[{"name": str(ONE), "weight": weight}])

    def serve(self, delay):
        """Five trainers of one user and one of another, that take all they can get."""
        self.write(1)
        self.start_daemon(env={"DATALOADD_TEST_DELAY": delay})
        os.chmod(self.socket, 0o666)
        for number in range(6):
            trainer = self.trainer(preexec_fn=become(ONE if number == 5 else MANY))
            trainer.attach(job=f"job{number}")
            trainer.send("run", batches=1_000_000, print=0)

    def taken(self):
        sums = {MANY: 0, ONE: 0}
        for client in self.status()["clients"]:
            sums[client["uid"]] += client["samples"]
        return sums

    def part(self, seconds):
        """Of the user with one trainer, of what both get from now on."""
        before, _ = self.taken(), time.sleep(seconds)
        after = self.taken()
        more = {uid: after[uid] - before[uid] for uid in after}
        self.assertGreater(sum(more.values()), 0)
        return more[ONE] / sum(more.values())

    def reaches(self, least, most):
        wait_for(f"a part of {least} to {most}", lambda: least < self.part(0.7) < most, 30)

    def test_workers(self):
        self.serve("decode:2000")
        self.reaches(0.35, 0.65)  # by trainers it were 0.17
        shares = {c["job"]: c["share"] for c in self.status()["clients"]}
        self.assertAlmostEqual(shares["job5"], 0.5)
        self.assertAlmostEqual(shares["job0"], 0.1)
        self.write(4)
        self.ctl("reload")
        self.reaches(0.65, 0.95)
        wait_for("the verdict to say so", lambda: "are its share, 4 %" in self.status()["clients"][0]["verdict"] or
                 "are its share, 80 %" in self.status()["clients"][0]["verdict"], 30)

    def test_storage(self):
        self.serve("storage_rate:60000000")
        self.reaches(0.32, 0.68)

        def said():
            crowd = [c for c in self.status()["clients"] if c["uid"] == MANY]
            return any("its share of this storage is used up" in c["reason"] and "1 other user" in c["reason"] for c in crowd) and \
                all(c["share_wait_s"] > 0 for c in crowd)

        wait_for("the wait to be said", said)
        wait_for("the verdict to say so", lambda: any("its share beside other users" in c["verdict"] for c in self.status()["clients"]), 30)
        start = time.monotonic()
        self.stop_daemon()  # though reads wait for their turn
        self.assertLess(time.monotonic() - start, 5.5 * SLACK)


main()
