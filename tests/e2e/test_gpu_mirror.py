"""A mirror group whose trainers use several GPUs: one decode, a copy to each GPU; joining, dying, a lost GPU, a restart."""
from gpu_case import *

RECORDS, BATCH, SLOTS = 80, 8, 4
STEPS = RECORDS // BATCH
GPUS = {"STANDIN_DEVICES": "3"}


def content(line):
    return line["epoch"], line["step"], line["index"], line["image"], line["label"], line["flags"]


class GpuMirror(GpuCase):
    def mirror(self, handoff="auto", **env):
        self.serve(env={**GPUS, **env}, share="mirror", slots=SLOTS, handoff=handoff)

    def member(self, gpu, **options):
        trainer = self.trainer(env={**GPUS, "CUDA_VISIBLE_DEVICES": str(gpu)})
        trainer.reply = trainer.attach(device="gpu", **options)
        return trainer

    def run_all(self, members, **options):
        """What each of them sees."""
        for trainer in members:
            trainer.send("run", print=2, **options)
        results = [trainer.results() for trainer in members]
        for lines in results:
            self.assertEqual(lines[-1]["rc"], 0, lines[-1])
        return [[content(line) for line in lines[:-1]] for lines in results]

    def test_one_decode(self):
        for handoff, memory in (("vmm", VMM), ("ipc", IPC)):
            with self.subTest(handoff):
                self.mirror(handoff)
                members = [self.member(gpu) for gpu in (0, 0, 1, 2)]
                self.assertEqual({trainer.reply["memory"] for trainer in members}, {memory})
                refused = self.trainer(env=GPUS).attach(expect=-19, device="host")["error"]
                self.assertIn("asks for shared memory", refused)
                seen = self.run_all(members, epochs=3)
                begins = [lines[0][:2] for lines in seen]
                for lines in seen:  # the later ones begin a few steps later
                    self.assertEqual(lines, seen[0][len(seen[0]) - len(lines):])
                self.assertEqual(begins[:2], [(0, 0)] * 2)
                self.assertLessEqual(max(begins), (0, 2 * SLOTS + 1))
                status = self.status()
                self.assertEqual(len({client["gpu"] for client in status["clients"]}), 3)
                self.assertLessEqual(status["feeds"][0]["decoded"], (3 * STEPS + SLOTS + 3) * BATCH)
                self.assertEqual(sum(lent > 0 for lent in self.lent().values()), 3)
                for trainer in members:
                    trainer.call("detach")
                wait_for("all memory back", lambda: not self.status()["memory_used"] and not any(self.lent().values()))
                self.stop_daemon()

    def test_killed_in_flight(self):
        self.mirror(STANDIN_OP_US="1000")
        members = [self.member(gpu) for gpu in (0, 0, 1)]
        for trainer in members[:2]:
            trainer.send("run", epochs=3, print=2)
        members[2].send("run", print=0, sleep_us=1000)
        wait_for("its batches", lambda: self.client_status(members[2].pid)["batches"] > 5)
        members[2].kill()
        seen = [[content(line) for line in trainer.results()[:-1]] for trainer in members[:2]]
        self.assertEqual(seen[0], seen[1])
        self.assertEqual([line[:2] for line in seen[0]], [(epoch, step) for epoch in range(3) for step in range(STEPS)])

    def test_lost_gpu(self):
        """Its trainer is told and ends; those on other GPUs see every batch."""
        self.mirror(STANDIN_FAULTS="cuMemcpyHtoDAsync_v2:40:!700", STANDIN_STRICT="0")
        members = [self.member(0), self.member(1)]
        for trainer in members:
            trainer.send("run", epochs=12, print=2)
        results = [trainer.results() for trainer in members]
        lost, left = sorted(results, key=lambda lines: lines[-1]["rc"])
        self.assertEqual((lost[-1]["rc"], left[-1]["rc"]), (-19, 0), (lost[-1], left[-1]))
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", lost[-1]["error"])
        places = [(line["epoch"], line["step"]) for line in left[:-1]]
        every = [(epoch, step) for epoch in range(12) for step in range(STEPS)]
        self.assertEqual(places, every[len(every) - len(places):])

    def test_daemon_restarts(self):
        """Each comes back on its own GPU, at its own step, without gap or repeat."""
        self.mirror()
        members = [self.member(gpu) for gpu in (0, 1, 2)]
        for number in (signal.SIGTERM, signal.SIGKILL):
            before = self.run_all(members, batches=3)
            self.stop_daemon(number)
            self.start_daemon(env=GPUS)
            after = self.run_all(members, epochs=2)
            for first, then in zip(before, after):
                self.assertEqual(then[0][:2], (first[-1][0], first[-1][1] + 1) if first[-1][1] + 1 < STEPS else (first[-1][0] + 1, 0))
                places = [line[:2] for line in then]
                self.assertEqual(places, sorted(set(places)))


main()
