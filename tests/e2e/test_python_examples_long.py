"""The example with JAX, which Debian does not have."""
from examples_case import *
from frameworks import environment

PYTHON = environment()


class Examples(ExamplesCase):
    def test_jax(self):
        self.falls(self.losses("train_jax.py", python=PYTHON))


if __name__ == "__main__":
    main()
