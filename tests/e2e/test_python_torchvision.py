"""The evaluation transform gives the tensors that torchvision gives, bit for bit: made by the feed, and made by the Loader."""
from python_case import *

torch, torchvision = need("torch"), need("torchvision")
from torchvision import transforms

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PHOTOGRAPHS = sorted((SHARED / "data/imagenet-300").glob("*.JPEG"))
USUAL = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


class Equal(PythonCase):
    def setUp(self):
        super().setUp()
        for number in range(24):
            folder = self.folder / f"pictures/{number % 4}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.jpg").write_bytes(jpeg(100 + 37 * number, 700 - 23 * number, number, 50 + 2 * number))
        for number, path in enumerate(PHOTOGRAPHS):
            (folder / f"photograph-{number}.jpg").symlink_to(path)
        feed = {"folder": str(self.folder / "pictures"), "transform": "eval", "batch": 16, "shuffle": 0}
        self.config([{"name": "bytes", **feed}, {"name": "floats", "output": "float32_nchw", "mean": MEAN, "std": STD, **feed}])
        self.start_daemon()
        self.usual = torchvision.datasets.ImageFolder(self.folder / "pictures", USUAL)

    def test_equal(self):
        for loader in (self.loader("floats", as_="torch", names={"index": "index"}),
                       self.loader("bytes", as_="torch", names={"index": "index"}, mean=MEAN, std=STD)):
            seen = set()
            for batch in loader:
                for image, label, valid, index in zip(*(batch[name] for name in ("image", "label", "valid", "index"))):
                    want, target = self.usual[int(index)]
                    self.assertTrue(valid)
                    self.assertEqual((label, image.dtype), (target, want.dtype))
                    self.assertTrue(torch.equal(image, want), self.usual.samples[int(index)])
                    seen.add(int(index))
            self.assertEqual(len(seen), 24 + len(PHOTOGRAPHS))


class Readme(unittest.TestCase):
    def test_difference(self):
        """What the README shows is what differs between the two examples."""
        examples = SOURCE / "client/examples/python"
        done = subprocess.run(["diff", "-U0", examples / "imagenet_before.py", examples / "imagenet_after.py"], capture_output=True, text=True)
        changed = [line for line in done.stdout.splitlines()[2:] if line[0] in "-+" and line != "+" and '"""' not in line]
        block = (SOURCE / "README.md").read_text(encoding="utf-8").split("```diff\n")[1].split("```")[0]
        self.assertEqual([line for line in textwrap.dedent(block).splitlines() if line], changed)


if __name__ == "__main__":
    main()
