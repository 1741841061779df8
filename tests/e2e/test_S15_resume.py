"""S15: a run that stops in the middle of an epoch goes on from its token exactly, twice, and over the epoch's end."""
from harness import *

RECORDS, BATCH = 100, 8
STEPS = -(-RECORDS // BATCH)


def content(line):
    return line["epoch"], line["step"], line["index"], line["label"], line["image"], line["flags"]


def rows(lines):
    """What was seen, without the numbers of steps, which count from where a run began."""
    return [content(line)[2:] for line in lines]


class Resume(Case):
    def serve(self, **feed):
        if not (self.folder / "data").exists():
            write_shards(self.folder / "data", shards=4, records=25)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "shuffle": 32, "seed": 7, **feed})
        self.start_daemon()

    def attached(self, **options):
        trainer = self.trainer()
        self.reply = trainer.attach(job="run", **options)
        return trainer

    def restart(self, trainer, number=signal.SIGKILL):
        """Neither the trainer nor the daemon is left."""
        trainer.kill()
        self.stop_daemon(number)
        self.start_daemon()

    def unbroken(self, **options):
        trainer = self.attached(**options)
        lines = trainer.run(epochs=2, print=3)
        trainer.call("detach")
        return lines

    def test_stop_twice_and_go_on(self):
        self.serve()
        want = self.unbroken()
        trainer = self.attached()
        got = trainer.run(batches=3, print=3)
        first = trainer.call("token")["token"]
        self.assertEqual(first, got[-1]["token"])  # of the handle: of the last batch handed out
        self.restart(trainer, signal.SIGTERM)
        trainer = self.attached(resume=first)
        self.assertIn("resumed from token: epoch 0, record 24", self.reply["started"])
        self.assertEqual(self.client_status(trainer.pid)["started"], self.reply["started"])
        self.assertEqual(trainer.call("token")["token"], first)  # before any batch: where it began
        self.assertEqual((self.reply["first_steps"], self.reply["steps"]), (STEPS - 3, STEPS))
        got += trainer.run(batches=3, print=3)
        second = got[-1]["token"]
        self.assertEqual(json.loads(second)["next"], 6 * BATCH)
        self.restart(trainer)
        trainer = self.attached(resume=second)
        got += trainer.run(epochs=1, print=3)
        self.assertEqual([line["epoch"] for line in got], [0] * STEPS)
        got += trainer.run(epochs=1, print=3)  # from its first batch: the place is not applied again
        self.assertEqual([line["step"] for line in got[STEPS:]], list(range(STEPS)))
        self.assertEqual(rows(got), rows(want))
        self.assertEqual([line["token"] for line in got], [line["token"] for line in want])

    def test_at_the_end_of_an_epoch(self):
        self.serve()
        want = self.unbroken()
        trainer = self.attached()
        token = trainer.run(batches=STEPS, print=3)[-1]["token"]
        self.assertEqual((json.loads(token)["epoch"], json.loads(token)["next"]), (1, 0))
        self.restart(trainer)
        trainer = self.attached(resume=token)
        got = trainer.run(epochs=1, print=3)
        self.assertEqual([content(line) for line in got], [content(line) for line in want[STEPS:]])

    def test_every_place(self):
        """Each tail; a token of each batch begins with the next one."""
        for tail, shuffle in (("wrap", 32), ("drop", 1000), ("partial", 0)):
            with self.subTest(tail=tail):
                self.serve(tail=tail, shuffle=shuffle)
                want = self.unbroken()
                for at in range(0, len(want) - 2, 3):
                    trainer = self.attached(resume=want[at]["token"])
                    got = trainer.run(batches=2, print=3)
                    self.assertEqual(rows(got), rows(want[at + 1:at + 3]), at)
                    self.assertEqual([line["token"] for line in got], [line["token"] for line in want[at + 1:at + 3]])
                    trainer.call("detach")
                self.stop_daemon()

    def test_choosing_an_epoch(self):
        self.serve()
        want = self.unbroken()
        trainer = self.attached(resume=want[4]["token"])
        self.assertEqual(trainer.call("seek", epoch=0)["rc"], 0)  # the epoch in which it is: changes nothing
        got = trainer.run(batches=2, print=3)
        self.assertEqual(rows(got), rows(want[5:7]))
        self.assertEqual(trainer.call("seek", epoch=1)["rc"], 0)
        token = trainer.call("token")["token"]
        self.assertEqual((json.loads(token)["epoch"], json.loads(token)["next"]), (1, 0))
        self.assertEqual(rows(trainer.run(epochs=1, print=3)), rows(want[STEPS:]))
        self.assertEqual(trainer.call("seek", epoch=0)["rc"], 0)  # again: the rest that this run began with
        self.assertEqual(rows(trainer.run(epochs=1, print=3)), rows(want[5:STEPS]))
        for epoch, steps in ((0, STEPS - 5), (1, STEPS), (7, STEPS)):
            self.assertEqual(trainer.call("steps", epoch=epoch)["steps"], steps)

    def test_daemon_alone_dies_in_the_rest(self):
        self.serve()
        want = self.unbroken()
        trainer = self.attached(resume=want[4]["token"])
        got = trainer.run(batches=2, print=3)
        self.stop_daemon(signal.SIGKILL)
        self.start_daemon()
        got += trainer.run(epochs=2, print=3)
        self.assertEqual(rows(got), rows(want[5:]))
        self.assertEqual(self.client_status(trainer.pid)["started"][:11], "reconnected")

    def test_refusals(self):
        self.serve()
        token = self.unbroken()[4]["token"]
        fields = json.loads(token)

        def refused(*words, resume=None, **changes):
            reply = self.trainer().attach(job="other", resume=resume or json.dumps({**fields, **changes}, separators=(",", ":")), expect=-22)
            for word in words:
                self.assertIn(word, reply["error"])
        refused("shuffle 77", "has 32", shuffle=77)
        refused("lanes 3", "has 64", lanes=3)
        refused("tail drop", "has wrap", tail="drop")
        refused("data set 00ff", fields["fingerprint"], fingerprint="00ff")
        refused("order_version 2", "has 1", order_version=2)
        refused("schema 9", schema=9)
        refused("record 101", "100 records", next=101)
        refused("damaged", resume="{}")
        refused("damaged", resume=token[:-1])
        self.trainer().attach(job="other", resume="x" * 1024, expect=-22)
        self.assertEqual(self.status()["clients"], [])

    def test_seed_and_epoch_of_the_token_go_first(self):
        self.serve()
        want = self.unbroken(seed=12345)
        trainer = self.attached(resume=want[4]["token"], seed=1, epoch=9)
        self.assertEqual(self.reply["seed"], 12345)
        self.assertEqual(rows(trainer.run(batches=3, print=3)), rows(want[5:8]))

    def test_another_transform_is_noted(self):
        self.serve()
        want = self.unbroken()
        self.stop_daemon()
        self.serve(transform="eval", tail="wrap", shuffle=32)
        trainer = self.attached(resume=want[4]["token"])
        self.assertTrue(any("transform has changed" in note["note"] for note in self.reply["notes"]), self.reply)
        got = trainer.run(batches=1, print=3)
        self.assertEqual(got[0]["index"], want[5]["index"])
        self.assertNotEqual(got[0]["image"], want[5]["image"])
        self.assertFalse(self.trainer().attach(job="same", resume=got[0]["token"])["notes"])

    def test_token_of_any_place(self):
        self.serve()
        want = self.unbroken()
        token = self.ctl("token", "feed", "--epoch", 0, "--step", 5).stdout.strip()
        self.assertEqual(token, want[4]["token"])
        self.assertEqual(self.ctl("token", "feed", "--step", STEPS).stdout.strip(), want[STEPS - 1]["token"])
        wide = json.loads(json.loads(self.ctl("token", "feed", "--epoch", 3, "--step", 2, "--world", 4, "--batch", 2, "--seed", 9, "--json").stdout)["token"])
        self.assertEqual((wide["epoch"], wide["next"], wide["seed"]), (3, 16, 9))
        for words in (("--step", STEPS + 1), ("--step", 1, "--epoch", 1 << 24), ("--step", 1, "--world", 100000)):
            self.assertNotEqual(self.ctl("token", "feed", *words, check=False).returncode, 0, words)
        self.assertIn("13 steps", self.ctl("token", "feed", "--step", 14, check=False).stderr)
        self.assertEqual(self.ctl("token", "none", "--step", 1, check=False).returncode, 4)

    def test_no_room_for_the_text(self):
        self.serve()
        trainer = self.attached()
        length = trainer.call("token")["rc"]
        self.assertEqual(trainer.call("token", size=length)["rc"], -28)
        self.assertEqual(trainer.call("token", size=length + 1)["rc"], length)


main()
