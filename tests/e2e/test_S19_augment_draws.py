"""S19: augmentation depends on seed, epoch and sample alone: not on rank, batch or thread."""
from harness import *


def pixels(lines):
    return {(line["epoch"], i): image for line in lines for i, image in zip(line["index"], line["image"])}


class Draws(Case):
    def test_pure_function(self):
        data = self.folder / "data"
        data.mkdir()
        picture = jpeg(200, 150, 1)  # one picture for all: equal pixels mean equal draws
        write_tar(data / "a.tar", [(f"{i:04d}.{s}", b) for i in range(250) for s, b in (("jpg", picture), ("cls", b"0"))])
        self.config({"source": str(data / "a.tar"), "batch": 10, "shuffle": 50, "seed": 9, "tail": "partial",
                     "transform": [{"random_resized_crop": 64}, {"flip": 0.5}]})
        self.start_daemon()
        one = self.trainer()
        one.attach(job="one")
        alone = pixels(one.run(epochs=2, print=2))
        pair = [self.trainer(), self.trainer()]
        for rank, trainer in enumerate(pair):
            trainer.attach(job="pair", rank=rank, world=2, batch=7)
            trainer.send("run", epochs=2, print=2)
        split = {}
        for trainer in pair:
            split.update(pixels(trainer.results()[:-1]))
        self.assertEqual(split, alone)
        first = [alone[0, i] for i in range(250)]
        self.assertGreater(len(set(first)), 245)  # no lockstep between samples
        self.assertGreater(sum(alone[0, i] != alone[1, i] for i in range(250)), 245)  # nor between epochs
        other = self.trainer()
        other.attach(job="other", seed=10)
        self.assertNotEqual(pixels(other.run(epochs=1, print=2))[0, 0], alone[0, 0])


main()
