"""PyTorch's DataLoader over torchvision's transforms, on Pillow's images as in the official ImageNet example, or on
torchvision.io's tensors. Output stays uint8: converting to float would only add to their time."""
import torch
import torchvision
from PIL import Image, features
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

SETTINGS = {"pillow": {"decoder": "pillow"}, "pillow-simd": {"decoder": "pillow"}, "io": {"decoder": "io"},
            "pillow-ahead": {"decoder": "pillow", "ahead": 4}, "io-ahead": {"decoder": "io", "ahead": 4}}
NAMES = {"pillow": "DataLoader + torchvision (Pillow)", "pillow-simd": "the same with Pillow-SIMD", "io": "DataLoader + torchvision.io"}
FILTER = "antialiased bilinear"


def version(decoder, **_):
    name = "Pillow-SIMD" if Image.__version__.count("post") else "Pillow"
    turbo = f"{name} {Image.__version__} with libjpeg-turbo {features.version_feature('libjpeg_turbo')}, " if decoder == "pillow" else ""
    return f"{turbo}torch {torch.__version__}, torchvision {torchvision.__version__}"


def from_pillow(path):
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def from_io(path):
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


class Pictures(Dataset):
    def __init__(self, files, read, transform):
        self.files, self.read, self.transform = files, read, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, number):
        return self.transform(self.read(self.files[number]))


def make(files, batch, workers, train, decoder, ahead=2):
    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()] if train else [v2.Resize(256, antialias=True), v2.CenterCrop(224)]
    if decoder == "pillow":
        steps.append(v2.PILToTensor())
    pictures = Pictures(files, from_pillow if decoder == "pillow" else from_io, v2.Compose(steps))
    endless = RandomSampler(pictures, num_samples=1 << 30)
    return iter(DataLoader(pictures, batch_size=batch, sampler=endless, num_workers=workers, prefetch_factor=ahead,
                           persistent_workers=True))
