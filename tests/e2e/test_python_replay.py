"""A Loader that allows replays: what the loop sees of one, and that its epochs, length and state are as ever."""
import itertools

from python_case import *

numpy = need("numpy")
RECORDS, BATCH = 100, 8
STEPS = -(-RECORDS // BATCH)


class Replay(PythonCase):
    def ask(self, *arguments):
        asked = subprocess.Popen([str(CTL), "--socket", str(self.socket), "replay", "j", *map(str, arguments)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(asked.stdout.close)
        self.addCleanup(asked.stderr.close)
        self.addCleanup(lambda: asked.poll() is None and asked.kill())
        return asked

    def passes(self, loader, asked):
        """Passes of all batches until one has ended after the answer: their rows, and how many batches came again."""
        found, again = [], 0
        while asked and asked.poll() is None or not found:
            rows, replayed, state = [], 0, loader.state_dict()
            for batch in loader:
                if loader.replaying:
                    self.assertEqual(loader.state_dict(), state)
                    self.assertEqual(len(loader), STEPS)
                    replayed += 1
                else:
                    self.assertNotEqual(loader.state_dict(), state)
                    rows.append(batch["index"].tolist())
                state = loader.state_dict()
            self.assertFalse(loader.replaying)
            self.assertEqual(len(rows), STEPS)
            found.append(rows)
            again += replayed
        return found, again

    def test_epochs_are_as_ever(self):
        self.serve()
        plain = self.loader(job="plain", names={"index": "index"})
        for number, options in enumerate(({}, {"copy": True})):
            loader = self.loader(job="j", names={"index": "index"}, allow_replay=True, **options)
            asked = self.ask("--batches", 30)
            found, again = self.passes(loader, asked)
            self.assertEqual(asked.returncode, 0, asked.stderr.read())
            self.assertEqual(again, 30)
            stats = loader.stats()
            self.assertEqual((stats["replayed"], stats["batches"]), (30, STEPS * len(found)))
            plain.set_epoch(0)
            for epoch, rows in enumerate(found):
                self.assertEqual(rows, [batch["index"].tolist() for batch in plain], (number, epoch))
            loader.close()
            self.assertEqual(loader.epoch, len(found))

    def test_a_break_in_the_middle(self):
        """The next pass is the next epoch, and the replay is over."""
        self.serve()
        loader = self.loader(job="j", names={"index": "index"}, allow_replay=True)
        asked = self.ask("--seconds", 600)
        batches = itertools.chain.from_iterable(itertools.repeat(loader))
        wait_for("the replay", lambda: next(batches) and loader.replaying, every=0)
        epoch = loader.epoch
        rows = [(loader.epoch, loader.replaying) for _ in loader]
        self.assertEqual(rows, [(epoch + 1, False)] * STEPS)
        self.assertEqual(asked.wait(60 * SLACK), 69)
        self.assertIn("has chosen another epoch", asked.stderr.read())

    def test_not_allowed(self):
        self.serve()
        self.loader(job="j")
        asked = self.ask()
        self.assertEqual(asked.wait(60 * SLACK), 69)
        self.assertIn(f"pid {os.getpid()}; attach with allow_replay", asked.stderr.read())


main()
