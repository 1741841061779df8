"""NVIDIA DALI's CPU operators in a pipeline without a GPU: decoding only the crop, as in its ResNet-50 example."""
import itertools

import nvidia.dali as dali
from nvidia.dali import fn, pipeline_def, types

SETTINGS = {"roi": {}, "fast": {"use_fast_idct": True}, "fancy": {"jpeg_fancy_upsampling": True}, "legacy": {"legacy": True},
            "static": {"exec_dynamic": False}, "deep": {"prefetch_queue_depth": 4}, "more": {"extra": 1}}
NAMES = {"roi": "DALI (CPU)"}
FILTER = "antialiased bilinear"


def version(**_):
    return f"nvidia-dali {dali.__version__}"


@pipeline_def
def pictures(files, train, legacy, jpeg):
    encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=1024, name="reader")
    decoders = fn.legacy.decoders if legacy else fn.decoders
    if train:
        image = decoders.image_random_crop(encoded, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10, **jpeg)
        image = fn.resize(image, size=(224, 224), interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.flip(image, horizontal=fn.random.coin_flip(probability=0.5))
    image = fn.resize(decoders.image(encoded, **jpeg), resize_shorter=256, interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.crop(image, crop=(224, 224))


def make(files, batch, workers, train, legacy=False, extra=0, prefetch_queue_depth=2, exec_dynamic=None, **jpeg):
    pipeline = pictures(files, train, legacy, jpeg, batch_size=batch, num_threads=workers + extra, device_id=None,
                        prefetch_queue_depth=prefetch_queue_depth, exec_dynamic=exec_dynamic)
    pipeline.build()
    return (pipeline.run()[0].as_array() for _ in itertools.count())
