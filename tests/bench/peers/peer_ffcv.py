"""FFCV over a file of the same JPEG bytes, in its ImageNet recipe's pipeline without the conversion to float."""
import itertools
import pathlib
import tempfile
from importlib.metadata import version as release

import numpy
from ffcv.fields import RGBImageField
from ffcv.fields.rgb_image import IMAGE_MODES, CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip, ToTensor
from ffcv.writer import DatasetWriter
from PIL import Image

SETTINGS = {"same": {}, "ahead": {"batches_ahead": 6}}
NAMES = {"same": "FFCV"}
FILTER = "OpenCV's INTER_AREA; IFAST DCT"


def version(**_):
    return f"ffcv {release('ffcv')}"


class AsTheyAre(RGBImageField):
    """Stores the bytes of a file instead of encoding its picture anew."""

    def encode(self, destination, image, malloc):
        data = numpy.fromfile(image, numpy.uint8)
        with Image.open(image) as header:
            destination["width"], destination["height"] = header.size
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["data_ptr"], storage = malloc(data.nbytes)
        storage[:] = data


class Files(list):
    def __getitem__(self, number):
        return (super().__getitem__(number),)


def make(files, batch, workers, train, batches_ahead=3):
    folder = tempfile.TemporaryDirectory(prefix="peers-")
    path = str(pathlib.Path(folder.name) / "same.beton")
    one = list(dict.fromkeys(files))
    DatasetWriter(path, {"image": AsTheyAre()}, num_workers=1).from_indexed_dataset(Files(one))
    decoder = RandomResizedCropRGBImageDecoder((224, 224)) if train else CenterCropRGBImageDecoder((224, 224), 224 / 256)
    steps = [decoder, *([RandomHorizontalFlip()] if train else []), ToTensor()]
    loader = Loader(path, batch_size=batch, num_workers=workers, os_cache=True, order=OrderOption.RANDOM, drop_last=True,
                    indices=numpy.tile(numpy.arange(len(one)), len(files) // len(one)), custom_fields={"image": RGBImageField},
                    pipelines={"image": steps}, batches_ahead=batches_ahead)

    def batches():
        with folder:
            for _ in itertools.count():
                for (image,) in loader:
                    yield image
    return batches()
