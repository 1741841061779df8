"""The examples with what Debian does not have: JAX, and the current PyTorch."""
from examples_case import *
from frameworks import environment

PYTHON = environment()


class Examples(ExamplesCase):
    def test_jax(self):
        self.falls(self.losses("train_jax.py", python=PYTHON))

    def test_torchrun(self):
        losses = self.losses("train_torch.py", "--epochs", 4, python=PYTHON, launcher=self.torchrun(2))
        self.assertEqual(len(losses), 4 * IMAGES // (2 * BATCH))
        self.falls(losses, epochs=4)


if __name__ == "__main__":
    main()
