"""What a Loader hands out: the values that the C client sees, in the shape that each framework likes."""
import ctypes
import ctypes.util
import itertools
import threading

from python_case import *

numpy, torch = need("numpy"), need("torch")
RECORDS, BATCH = 100, 8
STEPS = -(-RECORDS // BATCH)
xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
xxhash.XXH3_64bits.restype = ctypes.c_uint64


def xxh3(row):
    data = row.tobytes()
    return f"{xxhash.XXH3_64bits(data, ctypes.c_size_t(len(data))):016x}"


def content(batch):
    """As the test client prints it."""
    return batch["index"].tolist(), batch["label"].tolist(), [int(flag) for flag in batch["valid"]], [xxh3(row) for row in batch["image"]]


def seen(line):
    return line["index"], line["label"], line["flags"], line["image"]


class Values(PythonCase):
    def test_equal_to_the_c_client(self):
        """Every byte of two epochs, in all kinds."""
        self.serve()
        trainer = self.trainer()
        trainer.attach(job="c")
        want = [seen(line) for line in trainer.run(epochs=2, print=2)]
        for as_ in ("numpy", "torch", "dlpack"):
            loader, got = self.loader(as_=as_, names={"index": "index"}), []
            for _ in range(2):
                for batch in loader:
                    if as_ == "torch":
                        self.assertEqual(tuple(batch["image"].shape), (BATCH, 3, 224, 224))
                        self.assertTrue(batch["image"].is_contiguous(memory_format=torch.channels_last))
                        batch = {name: tensor.numpy() for name, tensor in batch.items()}
                        batch["image"] = batch["image"].transpose(0, 2, 3, 1)
                    batch = {name: numpy.asarray(field) for name, field in batch.items()}
                    got.append(content(batch))
            self.assertEqual(got, want, as_)
            loader.close()

    def test_dicts(self):
        self.serve()
        loader = self.loader()
        batch = next(iter(loader))
        self.assertEqual({name: (array.shape, array.dtype.name) for name, array in batch.items()},
                         {"image": ((8, 224, 224, 3), "uint8"), "label": ((8,), "int64"), "valid": ((8,), "bool")})
        renamed = next(iter(self.loader(names={"image": "pixel_values", "valid": None, "index": "ids"}, job="renamed")))
        self.assertEqual(set(renamed), {"pixel_values", "label", "ids"})
        with self.assertRaisesRegex(ValueError, "no field picture, only image, label, valid, index"):
            next(iter(self.loader(names={"picture": "x"}, job="wrong")))
        with self.assertRaisesRegex(ValueError, "image and label would both be label"):
            next(iter(self.loader(names={"image": "label"}, job="twice")))

    def test_keys(self):
        """Of each row, as dataloadctl lists them."""
        fields = [{"name": "image", "kind": "image", "from": "jpg"}, {"name": "key", "kind": "key"}]
        self.serve(feed={"fields": fields})
        for as_ in ("numpy", "torch", "dlpack"):
            loader = self.loader(as_=as_, job=as_)
            for step, batch in enumerate(loader):
                rows = json.loads(self.ctl("batch", "feed", "--batch", BATCH, "--step", step, "--json").stdout)["rows"]
                pair = batch["key"] if as_ != "dlpack" else tuple(numpy.asarray(field) for field in batch["key"])
                self.assertEqual(dataload.texts(pair), [row["key"] for row in rows])
            self.assertEqual(step, STEPS - 1)

    def test_float(self):
        """dtype, mean and std give what the feed itself makes, bit for bit."""
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        outputs = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
        write_shards(self.folder / "data", shards=1, records=16)
        feed = {"source": str(self.folder / "data/*.tar"), "batch": 8, "seed": 7}
        self.config([{"name": "raw", **feed}, {"name": "planes", "output": "uint8_nchw", **feed},
                     *({"name": name, "output": f"{name}_nchw", "mean": mean, "std": std, **feed} for name in outputs)])
        self.start_daemon()
        for name, dtype in outputs.items():
            done = next(iter(self.loader(name, as_="torch")))["image"]
            self.assertEqual(done.dtype, dtype)
            for source in ("raw", "planes"):
                made = next(iter(self.loader(source, as_="torch", dtype=dtype, mean=mean, std=std, job=f"{source}-{name}")))["image"]
                self.assertTrue(torch.equal(made, done), (source, name))
            if name != "bfloat16":
                made = next(iter(self.loader("raw", dtype=getattr(numpy, name), mean=mean, std=std, job=f"numpy-{name}")))["image"]
                self.assertTrue(numpy.array_equal(made.transpose(0, 3, 1, 2), done.numpy()))
        plain = next(iter(self.loader("raw", as_="torch", dtype="float32", job="plain")))["image"]
        raw = next(iter(self.loader("raw", as_="torch", job="raw")))["image"]
        self.assertTrue(torch.equal(plain, raw.to(torch.float32).div(255)))
        for options, words in (({"mean": mean}, "mean and std belong there"), ({"dtype": "float16"}, "not as float16")):
            with self.assertRaisesRegex(ValueError, words):
                next(iter(self.loader("float32", as_="torch", job="twice-" + "-".join(options), **options)))
        with self.assertRaisesRegex(TypeError, "no type bfloat16"):
            next(iter(self.loader("bfloat16", job="no-bfloat16")))
        for options in ({"dtype": "int8"}, {"dtype": "uint8", "mean": mean}, {"mean": [1]}, {"as_": "tensorflow"}, {"as_": "dlpack", "dtype": "float32"}, {"dtype": "bfloat16"},
                        {"device": "tpu"}, {"device": "cuda"}):
            with self.assertRaises(ValueError):
                self.loader("raw", job="refused", **options)

    def test_torchvision(self):
        """The tensors of an evaluation script, exactly."""
        need("torchvision")
        from PIL import Image
        from torchvision import transforms
        data = self.folder / "data"
        data.mkdir()
        pictures = [jpeg(320 + 11 * i, 270 + 7 * i, i) for i in range(12)]
        write_tar(data / "a.tar", [member for i, picture in enumerate(pictures) for member in ((f"{i:02d}.jpg", picture), (f"{i:02d}.cls", b"1"))])
        self.config({"source": str(data / "a.tar"), "batch": 5, "transform": "eval"})
        self.start_daemon()
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        steps = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), transforms.Normalize(mean, std)])
        want = [steps(Image.open(io.BytesIO(picture)).convert("RGB")) for picture in pictures]
        got = [image for batch in self.loader(as_="torch", mean=mean, std=std) for image in batch["image"]]
        self.assertEqual(len(got), len(want))  # tail: partial
        for ours, theirs in zip(got, want):
            self.assertTrue(torch.equal(ours, theirs))

    def test_ragged(self):
        rows = [bytes([i]) * (i % 5 * 7) for i in range(20)]
        (self.folder / "data").mkdir()
        write_tar(self.folder / "data/a.tar", [member for i, row in enumerate(rows) for member in ((f"{i:02d}.bin", row), (f"{i:02d}.cls", b"1"))])
        self.config({"source": str(self.folder / "data/a.tar"), "batch": 6, "fields": [{"name": "raw", "from": "bin", "kind": "bytes"}]})
        self.start_daemon()
        for as_ in ("numpy", "torch"):
            found = {}
            for batch in self.loader(as_=as_, names={"index": "index"}, job=as_):
                data, offsets = batch["raw"]
                self.assertEqual(len(data), int(offsets[-1]))
                self.assertEqual("int64", str(offsets.dtype).rpartition(".")[2])
                found.update({int(i): bytes(data[int(a):int(b)].tolist()) for i, a, b in zip(batch["index"], offsets, offsets[1:])})
            self.assertEqual([found[i] for i in range(20)], rows)


class Capsules(PythonCase):
    def test_both_kinds(self):
        """By the structures themselves: names, version, flags, deleters."""
        self.serve(feed={"slots": 2})
        pythonapi = ctypes.pythonapi
        pythonapi.PyCapsule_GetName.restype, pythonapi.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
        pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
        pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        loader = self.loader(as_="dlpack")
        iterator = iter(loader)
        field = next(iterator)["image"]
        self.assertEqual((field.shape, field.dtype, field.read_only, field.offsets, field.__dlpack_device__()), ((8, 224, 224, 3), "uint8", False, None, (1, 0)))

        def header(**options):
            capsule = field.__dlpack__(**options)
            name = pythonapi.PyCapsule_GetName(capsule)
            return name, ctypes.string_at(pythonapi.PyCapsule_GetPointer(capsule, name), 80)

        for options in ({}, {"stream": None}, {"max_version": (0, 8)}, {"max_version": None}):
            name, data = header(**options)
            self.assertEqual(name, b"dltensor")
            self.assertEqual(int.from_bytes(data[0:8], "little"), field.__array_interface__["data"][0])
        name, data = header(max_version=(1, 1), dl_device=(1, 0), copy=False)
        self.assertEqual((name, int.from_bytes(data[0:4], "little"), int.from_bytes(data[24:32], "little")), (b"dltensor_versioned", 1, 0))
        name, data = header(max_version=(1, 0), copy=True)
        self.assertEqual((name, int.from_bytes(data[24:32], "little")), (b"dltensor_versioned", 2))
        self.assertNotEqual(int.from_bytes(data[32:40], "little"), field.__array_interface__["data"][0])
        for options in ({"stream": 1}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                field.__dlpack__(**options)
        for options in ({"max_version": 1}, {"dl_device": 1}, {"stream": "x"}):
            with self.assertRaises((TypeError, ValueError, BufferError)):
                field.__dlpack__(**options)
        for kind in (type(field), type(loader._batch)):
            with self.assertRaises(TypeError):
                kind()
        copied = torch.from_dlpack(field.__dlpack__(copy=True))
        view = torch.from_dlpack(field)
        copied[0, 0, 0, 0] += 1
        self.assertEqual(int((copied != view).sum()), 1)

    def test_writable_or_not(self):
        self.serve(feed={"share": "mirror"})
        other = self.trainer()
        other.attach()
        loader = self.loader(as_="dlpack")
        field = next(iter(loader))["image"]
        self.assertTrue(field.read_only and field.__array_interface__["data"][1])
        array = numpy.asarray(field)
        with self.assertRaises(ValueError):
            array[0, 0, 0, 0] = 1
        before = array.copy()
        loader.close()
        with self.assertWarnsRegex(RuntimeWarning, "read-only.*copy=True"):
            self.loader(as_="torch", job="warned")
        mine = next(iter(self.loader(as_="torch", copy=True, job="mine")))["image"]
        mine.add_(1)  # a write that others would see, or that would end the process
        self.assertTrue(numpy.array_equal(array, before))
        seen = next(iter(self.loader(copy=True, job="numpy")))["image"]
        seen += 1

    def test_in_place(self):
        """Split mode: the trainer's own memory."""
        self.serve()
        batch = next(iter(self.loader(as_="torch")))
        batch["image"].fill_(7)
        self.assertEqual(int(batch["image"].sum()), 7 * batch["image"].numel())
        array = next(iter(self.loader(job="numpy")))["image"]
        array[:] = 9


class Passes(PythonCase):
    def steps(self, loader, most=None):
        """(epoch, step) of one pass, or of the first of it."""
        found = []
        for _ in loader:
            found.append((loader._batch.epoch, loader._batch.step))
            if len(found) == most:
                break
        return found

    def epoch(self, number, first=0):
        return [(number, step) for step in range(first, STEPS)]

    def test_passes(self):
        self.serve()
        loader = self.loader()
        self.assertEqual((len(loader), loader.epoch, loader.info["rank"], loader.info["world"]), (STEPS, 0, 0, 1))
        self.assertEqual(self.steps(loader), self.epoch(0))
        self.assertEqual((loader.epoch, len(loader)), (1, STEPS))
        self.assertEqual(self.steps(loader, 3), self.epoch(1)[:3])
        self.assertEqual(self.steps(loader), self.epoch(2))  # after a break: the next one
        loader.set_epoch(7)
        self.assertEqual(loader.epoch, 7)
        self.assertEqual(self.steps(loader, STEPS), self.epoch(7))  # all batches, but not the end
        self.assertEqual(self.steps(loader), self.epoch(8))
        found = []
        for _ in loader:
            loader.set_epoch(3)  # for the next pass
            found.append(loader._batch.epoch)
        self.assertEqual(set(found), {9})
        self.assertEqual(self.steps(loader, 2), self.epoch(3)[:2])
        loader.set_epoch(3)
        self.assertEqual(self.steps(loader), self.epoch(3))
        first, second = iter(loader), iter(loader)
        next(second)
        with self.assertRaisesRegex(dataload.Error, "another pass"):
            next(first)
        done = iter(loader)
        self.assertEqual(sum(1 for _ in done), STEPS)
        self.assertEqual(list(done), [])
        with self.assertRaises(dataload.Error):
            loader.set_epoch(1 << 24)

    def test_ranks(self):
        """Each record once."""
        self.serve()
        seen = []
        loaders = [self.loader(rank=rank, world=3, batch_size=4, job="ranks", names={"index": "index"}) for rank in range(3)]
        self.assertEqual({len(loader) for loader in loaders}, {9})
        for loader in loaders:
            for batch in loader:
                seen += batch["index"][batch["valid"]].tolist()
        self.assertEqual(sorted(seen), list(range(RECORDS)))

    def test_mirror(self):
        """Epochs of a group follow each other: a pass left by break goes on."""
        self.serve(feed={"share": "mirror"})
        loader, other = self.loader(), self.trainer()
        other.attach()
        other.send("run", epochs=2)
        self.steps(loader, 3)
        self.assertEqual(self.steps(loader), self.epoch(0, 3))
        loader.set_epoch(1)
        self.assertEqual(self.steps(loader), self.epoch(1))

    def test_state(self):
        """A run that stops in the middle and goes on gives what the unbroken one gives."""
        self.serve()
        whole = self.loader(names={"index": "index"}, job="whole")
        want = [[content(batch) for batch in whole] for _ in range(2)]
        loader = self.loader(names={"index": "index"})
        got, iterator = [], iter(loader)
        for _ in range(5):
            got.append(content(next(iterator)))
        state = json.loads(json.dumps(loader.state_dict()))
        next(iterator)  # after the state
        del iterator
        loader.close()
        self.assertEqual(loader.state_dict()["schema"], 1)  # that of the end is kept
        for go_on in ("resume", "load"):
            loader = self.loader(names={"index": "index"}, resume=state if go_on == "resume" else None, job=go_on)
            if go_on == "load":
                next(iter(loader))
                loader.load_state_dict(state)
            self.assertEqual((len(loader), loader.epoch), (STEPS - 5, 0))
            self.assertEqual(loader.state_dict(), state)
            loader.set_epoch(0)  # as training scripts do: the rest of it
            self.assertEqual(got + [content(batch) for batch in loader], want[0], go_on)
            self.assertEqual(len(loader), STEPS)
            self.assertEqual([content(batch) for batch in loader], want[1], go_on)
            loader.load_state_dict(loader.state_dict())  # where it is
            self.assertEqual(loader.epoch, 2)
            loader.close()
        for wrong in ({"schema": 2, "token": "x"}, {"token": "x"}, 5):
            with self.assertRaisesRegex(ValueError, "not a state"):
                self.loader(resume=wrong)

    def test_state_where_it_is(self):
        """Of a pass that was left: the next one is its rest, not the next epoch."""
        self.serve()
        loader, found = self.loader(names={"index": "index"}), []
        for taken in (5, 8):
            for batch in itertools.islice(loader, taken - len(found)):
                found.append(batch["index"].tolist())
            loader.load_state_dict(loader.state_dict())
            self.assertEqual((loader.epoch, len(loader)), (0, STEPS - taken))
        found += [batch["index"].tolist() for batch in loader]
        self.assertEqual(found, [batch["index"].tolist() for batch in self.loader(names={"index": "index"}, job="whole")])
        self.assertEqual(loader.epoch, 1)

    def test_state_after_an_interrupt(self):
        """A batch that came, but not to the loop, is still to come."""
        self.serve()
        loader = self.loader(names={"index": "index"})
        whole = [batch["index"].tolist() for batch in self.loader(names={"index": "index"}, job="whole")]
        iterator = iter(loader)
        found = [next(iterator)["index"].tolist() for _ in range(3)]
        state, convert = loader.state_dict(), loader._convert

        def interrupted(batch):
            raise KeyboardInterrupt

        loader._convert = interrupted
        with self.assertRaises(KeyboardInterrupt):
            next(iterator)
        loader._convert = convert
        self.assertEqual(loader.state_dict(), state)
        loader.load_state_dict(state)
        found += [batch["index"].tolist() for batch in loader]
        self.assertEqual(found, whole)
        loader._convert = interrupted
        with self.assertRaises(KeyboardInterrupt):
            next(iter(loader))
        loader.close()
        self.assertEqual(json.loads(loader.state_dict()["token"])["next"], 0)

    def test_state_in_another_world(self):
        """Loaders that are there already: each of two ranks loads the state of one, whoever comes first waits for the other."""
        self.serve()
        loader, seen = self.loader(names={"index": "index"}), []
        iterator = iter(loader)
        for _ in range(3):
            seen += next(iterator)["index"].tolist()
        pair = [self.loader(batch_size=7, rank=rank, world=2, job="pair", names={"index": "index"}) for rank in range(2)]
        threads = [threading.Thread(target=part.load_state_dict, args=[loader.state_dict()]) for part in pair]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
        for thread in threads:
            thread.join()
        for part in pair:
            self.assertEqual(len(part), 6)
            for batch in part:
                seen += batch["index"][batch["valid"]].tolist()
        self.assertEqual(sorted(seen), list(range(RECORDS)))

    def test_state_at_the_end_of_an_epoch(self):
        self.serve()
        loader = self.loader()
        iterator = iter(loader)
        for _ in range(STEPS):
            next(iterator)
        state = loader.state_dict()
        loader.close()
        self.assertEqual(json.loads(state["token"])["epoch"], 1)
        self.assertEqual(self.steps(self.loader(resume=state, job="next")), self.epoch(1))


main()
