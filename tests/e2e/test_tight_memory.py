"""Memory with little room over the slots: what is read ahead gives way, so that whoever fitted in comes back after a restart."""
import time

from harness import *

RECORD = 600_000


class Tight(Case):
    def serve(self):
        data = self.folder / "data"
        data.mkdir()
        for shard in range(3):
            write_tar(data / f"{shard}.tar", [(f"{shard}-{i:02d}.bin", random.Random(shard * 16 + i).randbytes(RECORD)) for i in range(16)])
        fields = [{"name": "raw", "from": ["bin"], "kind": "bytes"}]
        self.config({"source": str(data / "*.tar"), "fields": fields, "shuffle": 48, "lanes": 3, "batch": 3, "slots": 4},
                    memory="64MiB", workers=2)
        self.start_daemon()

    def read_on(self, trainer):
        line = trainer.next(timeout=60000)
        self.assertEqual(trainer.call("release", handle=line["handle"])["rc"], 0)
        return line

    def memory_is_full(self):
        status = self.status()
        return status["memory_limit"] - status["memory_used"] < 3 * 4 * RECORD + (8 << 20)  # less than one more takes

    def test_all_come_back(self):
        self.serve()
        trainers = [self.trainer() for _ in range(4)]
        for number, trainer in enumerate(trainers):
            trainer.attach(job=f"job-{number}")
        seen = [[self.read_on(trainer) for _ in range(5)] for trainer in trainers]
        self.stop_daemon()
        self.start_daemon()
        for number, trainer in enumerate(trainers):  # one after the other, while those before fill their buffers
            seen[number] += [self.read_on(trainer) for _ in range(6)]
            if number == 1:
                wait_for("memory is full", self.memory_is_full)
            wait_for_rest("nothing more to be read ahead", lambda: self.status()["memory_used"])
        for lines in seen:
            self.assertEqual([line["step"] for line in lines], list(range(11)))
            self.assertEqual([line["raw"] for line in lines], [line["raw"] for line in seen[0]])

    def test_a_new_one_finds_room(self):
        self.serve()
        trainers = [self.trainer() for _ in range(4)]
        for number, trainer in enumerate(trainers):
            start = time.monotonic()
            trainer.attach(job=f"job-{number}")
            self.assertLess(time.monotonic() - start, 3 * SLACK)
            for _ in range(6):
                self.read_on(trainer)


main()
