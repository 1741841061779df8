"""The examples of training loops with PyTorch and NumPy run, learn, and go on after a kill as if nothing had been."""
from examples_case import *

if SANITIZE:
    skip("what they use of the module is tested elsewhere; PyTorch under a sanitizer is slow")
need("torch")


class Examples(ExamplesCase):
    def test_numpy(self):
        losses = self.losses("train_numpy.py")
        self.assertEqual(len(losses), 3 * IMAGES // BATCH)
        self.falls(losses)

    def test_torch(self):
        losses = self.losses("train_torch.py")
        self.assertEqual(len(losses), 3 * IMAGES // BATCH)
        self.falls(losses)

    def test_torchrun(self):
        losses = self.losses("train_torch.py", "--epochs", 4, launcher=self.torchrun(2))
        self.assertEqual(len(losses), 4 * IMAGES // (2 * BATCH))
        self.falls(losses, epochs=4)

    def test_killed(self):
        """In the middle of the second epoch; what follows the checkpoint is equal to the run that nobody killed, digit by digit."""
        want = self.losses("train_torch.py")
        process = self.start("train_torch.py", "--checkpoint", self.folder / "run.pt", "--every", 5)
        got = {}
        for line in process.stdout:
            got.update(steps_of(line))
            if 18 in got:
                process.kill()
                break
        process.communicate()
        rest = self.losses("train_torch.py", "--checkpoint", self.folder / "run.pt", "--every", 5)
        self.assertIn(min(rest), (16, 21, 26, 31, 36))  # it may have run on until the kill
        self.assertEqual(max(rest), max(want))
        self.assertEqual({**got, **rest}, want)


if __name__ == "__main__":
    main()
