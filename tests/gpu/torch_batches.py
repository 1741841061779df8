"""Batches as PyTorch's tensors: on its GPU, where it has one. Do they lie there, are they the bytes of shared memory, do they stay
while they are used? One row a line: name, figure, unit.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from python_case import *  # noqa: E402

torch = need("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def row(name, figure, unit=""):
    print(f"{name}\t{figure}\t{unit}", flush=True)


class TorchBatches(PythonCase):
    def epoch(self, job, device, **options):
        """Copies on the CPU of all pictures."""
        with self.loader(job=job, as_="torch", device=device, **options) as loader:
            return [batch["image"].cpu().clone() for batch in loader]

    def test_batches(self):
        self.serve(feed={"slots": 4})
        want = self.epoch("host", "cpu")
        row("PyTorch", torch.__version__, DEVICE)
        with self.loader(job="gpu", as_="torch", device=DEVICE) as loader:
            row("memory of the batches", loader.info["memory"])
            for seen, batch in enumerate(loader):
                self.assertEqual({tensor.device.type for tensor in batch.values()}, {DEVICE})
                self.assertTrue(torch.equal(batch["image"].cpu(), want[seen]))
        row("batches equal to those in shared memory", seen + 1)
        self.assertEqual(seen + 1, len(want))

    def test_kept(self):
        """What is kept does not change while the loop goes on; its slot goes back with it."""
        self.serve(feed={"slots": 4})
        want = self.epoch("host", "cpu")
        with self.loader(job="gpu", as_="torch", device=DEVICE) as loader:
            batches = iter(loader)
            kept = next(batches)["image"]
            for _ in range(8):
                next(batches)
            self.assertTrue(torch.equal(kept.cpu(), want[0]))

    def test_streams(self):
        """A batch let go of while another stream still works on it goes back behind that work."""
        if DEVICE == "cpu":
            self.skipTest("there are no streams")
        self.serve(feed={"slots": 4})
        want = [image.sum(dtype=torch.int64) for image in self.epoch("host", "cpu")]
        side, sums = torch.cuda.Stream(), []
        with self.loader(job="gpu", as_="torch", device=DEVICE) as loader, torch.cuda.stream(side):
            busy = torch.ones(4096, 4096, device=DEVICE)
            for batch in loader:
                busy = busy @ busy / 4096
                sums.append(batch["image"].sum(dtype=torch.int64))
        side.synchronize()
        self.assertEqual([int(each) for each in sums], [int(each) for each in want])

    def test_converted(self):
        """dtype, mean and std: by a kernel on a GPU; float32 within one unit in the last place of the CPU's."""
        self.serve()
        options = {"dtype": "float32", "mean": MEAN, "std": STD}
        pairs = list(zip(self.epoch("host", "cpu", **options), self.epoch("gpu", DEVICE, **options)))
        difference = max(float((a - b).abs().max()) for a, b in pairs)
        row("largest difference of converted pictures", f"{difference:.3g}")
        for a, b in pairs:
            self.assertTrue(torch.allclose(a, b, rtol=2 ** -23, atol=0))


main()
