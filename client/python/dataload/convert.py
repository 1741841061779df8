"""Fields of a batch as tensors of a framework, without a copy where none is asked for.

A kind (`as_`) is a class with one method for each thing to be done; fields are found out once, with the first
batch, and from then on each is one call. torch, numpy and jax are imported by the kind that needs them.
"""
import importlib
import sys
import warnings

FLOATS = {"float32": 7, "float16": 5, "bfloat16": 6}  # dataload_dtype
ZEROS, ONES = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


def dtype_name(dtype):
    """Of a text, a torch.dtype, a numpy type: "float32"."""
    if dtype is None:
        return None
    return str(getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or dtype).split(".")[-1]


class Scale:
    """The float conversion of pictures: (x / 255 - mean) / std by channel, in float32, then `dtype`."""

    def __init__(self, dtype, mean, std):
        self.dtype = dtype_name(dtype) or ("float32" if mean is not None or std is not None else None)
        if self.dtype not in (None, "uint8", *FLOATS):
            raise ValueError(f"dtype {dtype} is none of uint8, {', '.join(FLOATS)}")
        if self.dtype in (None, "uint8") and (mean is not None or std is not None):
            raise ValueError("mean and std need a float dtype: dtype=\"float32\"")
        self.normal = mean is not None or std is not None
        self.mean, self.std = (tuple(map(float, value if value is not None else other)) for value, other in ((mean, ZEROS), (std, ONES)))
        if len(self.mean) != 3 or len(self.std) != 3:
            raise ValueError("mean and std have one number for each of the 3 channels")

    def wanted(self, name, shape, dtype):
        """Is this field to be converted? It is a picture of uint8; one of another type has been scaled by the feed."""
        if self.dtype is None or len(shape) != 4:
            return False
        if dtype == "uint8":
            return self.dtype != "uint8"
        if self.normal:
            raise ValueError(f"field {name} comes as {dtype} from the feed (output:): mean and std belong there, or output: uint8_nhwc")
        if self.dtype != dtype:
            raise ValueError(f"field {name} comes as {dtype} from the feed (output:), not as {self.dtype}: set output: in the feed, or leave out dtype")
        return False


def texts(ragged):
    """Rows of a ragged field (data, offsets) as a list of str: of a field of kind key, or of texts."""
    data, offsets = bytes(ragged[0].tolist()), ragged[1].tolist()
    return [data[begin:end].decode(errors="surrogateescape") for begin, end in zip(offsets, offsets[1:])]


def is_nhwc(shape, dtype):
    return len(shape) == 4 and dtype == "uint8" and shape[3] == 3


class Dlpack:
    """The fields themselves, with __dlpack__ and __array_interface__."""

    def __init__(self, scale, copy, read_only):
        if scale.dtype not in (None, "uint8") or copy:
            raise ValueError('as_="dlpack" hands out memory as it is: dtype, mean, std and copy are the consumer\'s')

    def plain(self, batch, name):
        return batch.field(name)

    flags = image = plain

    def ragged(self, batch, name):
        field = batch.field(name)
        return field, field.offsets


class Torch:
    """Pictures NCHW-shaped: those that lie in the slot as NHWC are views in the memory format channels_last."""

    def __init__(self, scale, copy, read_only):
        import torch
        self.torch, self.scale, self.copy = torch, scale, copy
        self.from_capsule = torch.utils.dlpack.from_dlpack
        self.mean, self.std = (torch.tensor(value).view(1, 3, 1, 1) for value in (scale.mean, scale.std))
        if read_only and not copy:
            warnings.warn("this feed is shared (share: mirror): its tensors are read-only, and PyTorch does not know: writing into one ends "
                          "the process (SIGSEGV). Loader(..., copy=True) gives private copies", RuntimeWarning, stacklevel=4)

    def view(self, field, device):
        """In memory of the CPU by the capsule: there is no stream to be asked for."""
        return self.from_capsule(field.__dlpack__()) if device < 0 else self.torch.from_dlpack(field)

    def take(self, field, device):
        tensor = self.view(field, device)
        return tensor.clone() if self.copy else tensor

    def plain(self, batch, name):
        return self.take(batch.field(name), batch.device)

    def flags(self, batch, name):
        return self.plain(batch, name).view(self.torch.bool)

    def ragged(self, batch, name):
        field = batch.field(name)
        return self.take(field, batch.device), self.take(field.offsets, -1)

    def image(self, batch, name):
        tensor = self.view(batch.field(name), batch.device).permute(0, 3, 1, 2)
        return tensor.clone() if self.copy else tensor

    def scaled(self, batch, name):
        field = batch.field(name)
        nhwc = is_nhwc(field.shape, field.dtype)
        if nhwc and batch.device >= 0:
            return self.on_gpu(batch, name, field.shape)
        tensor = self.view(field, batch.device)
        tensor = (tensor.permute(0, 3, 1, 2) if nhwc else tensor).to(self.torch.float32).div_(255)
        if self.scale.normal:
            tensor.sub_(self.mean.to(tensor.device)).div_(self.std.to(tensor.device))
        return tensor.to(getattr(self.torch, self.scale.dtype))

    def on_gpu(self, batch, name, shape):
        """By the library's kernel, behind what PyTorch's current stream has to do."""
        rows, height, width, _ = shape
        device = self.torch.device("cuda", batch.device)
        out = self.torch.empty((rows, 3, height, width), dtype=getattr(self.torch, self.scale.dtype), device=device)
        stream = self.torch.cuda.current_stream(device).cuda_stream
        batch.convert(name, out.data_ptr(), out.numel() * out.element_size(), FLOATS[self.scale.dtype], self.scale.mean, self.scale.std, stream)
        return out


class Numpy:
    """Arrays laid out as the feed has them (output:)."""

    def __init__(self, scale, copy, read_only):
        import numpy
        if scale.dtype == "bfloat16":
            raise ValueError('NumPy has no bfloat16: use as_="torch", or dtype="float16"')
        self.numpy, self.scale, self.copy = numpy, scale, copy
        self.mean, self.std = (numpy.array(value, numpy.float32) for value in (scale.mean, scale.std))

    def take(self, field):
        return self.numpy.array(field) if self.copy else self.numpy.asarray(field)

    def plain(self, batch, name):
        return self.take(batch.field(name))

    image = plain

    def flags(self, batch, name):
        return self.plain(batch, name).view(bool)

    def ragged(self, batch, name):
        field = batch.field(name)
        return self.take(field), self.take(field.offsets)

    def scaled(self, batch, name):
        field = batch.field(name)
        by_channel = (3,) if is_nhwc(field.shape, field.dtype) else (3, 1, 1)
        array = self.numpy.asarray(field).astype(self.numpy.float32)
        array /= self.numpy.float32(255)
        if self.scale.normal:
            array -= self.mean.reshape(by_channel)
            array /= self.std.reshape(by_channel)
        return array.astype(self.scale.dtype, copy=False)


class Jax:
    """Arrays laid out as the feed has them (output:). JAX never writes into them."""

    def __init__(self, scale, copy, read_only):
        import jax
        import jax.numpy
        self.jax, self.jnp, self.scale, self.copy = jax, jax.numpy, scale, copy

    def take(self, field):
        array = self.jax.dlpack.from_dlpack(field)
        return self.jnp.array(array, copy=True) if self.copy else array

    def plain(self, batch, name):
        return self.take(batch.field(name))

    image = plain

    def flags(self, batch, name):
        return self.plain(batch, name) != 0

    def ragged(self, batch, name):
        field = batch.field(name)
        return self.take(field), self.take(field.offsets)

    def scaled(self, batch, name):
        field = batch.field(name)
        by_channel = (3,) if is_nhwc(field.shape, field.dtype) else (3, 1, 1)
        array = self.jax.dlpack.from_dlpack(field).astype(self.jnp.float32) / 255
        if self.scale.normal:
            mean, std = (self.jnp.array(value, self.jnp.float32).reshape(by_channel) for value in (self.scale.mean, self.scale.std))
            array = (array - mean) / std
        return array.astype(self.scale.dtype)


KINDS = {"torch": Torch, "numpy": Numpy, "jax": Jax, "dlpack": Dlpack}


def need(as_):
    """Imports the framework of a kind."""
    if as_ == "dlpack":
        return
    try:
        importlib.import_module(as_)
    except ModuleNotFoundError as missing:
        if missing.name != as_:
            raise
        raise ModuleNotFoundError(f'as_="{as_}" needs {as_}, which {sys.executable} has not: install it there, or choose another as_ of '
                                  f"{', '.join(KINDS)}", name=as_) from None


class Converter:
    """Makes the dict of a batch."""

    def __init__(self, as_, scale, copy, read_only, names):
        self.kind = KINDS[as_](scale, copy, read_only)
        self.scale, self.names, self.steps = scale, dict(names or {}), None

    def plan(self, batch):
        """(key in the dict, name of the field, what makes it) of each field; `index` only where names asks for it."""
        fields = batch.names()
        unknown = set(self.names) - set(fields)
        if unknown:
            raise ValueError(f"names: this feed has no field {', '.join(sorted(unknown))}, only {', '.join(fields)}")
        steps = []
        for name in fields:
            key = self.names.get(name, None if name == "index" else name)
            if key is not None:
                steps.append((key, name, self.maker(batch, name)))
        keys = {}
        for key, name, _ in steps:
            if keys.setdefault(key, name) != name:
                raise ValueError(f"names: the fields {keys[key]} and {name} would both be {key}; rename or leave out (None) one of them")
        return steps

    def maker(self, batch, name):
        field = batch.field(name)
        if name == "valid":
            return self.kind.flags
        if field.offsets is not None:
            return self.kind.ragged
        if self.scale.wanted(name, field.shape, field.dtype):
            return self.kind.scaled
        return self.kind.image if is_nhwc(field.shape, field.dtype) else self.kind.plain

    def __call__(self, batch):
        if self.steps is None:
            self.steps = self.plan(batch)
        return {key: make(batch, name) for key, name, make in self.steps}
