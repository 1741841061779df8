"""Tensors on a GPU of the stand-in: where they say that they are, whose streams they go back behind, how they end."""
import hashlib

from python_case import *

need("numpy")
START = """
import atexit, ctypes, hashlib
U64, SIZE = ctypes.c_ulonglong, ctypes.c_size_t
driver = ctypes.CDLL("libcuda.so.1")

def call(name, *arguments):
    code = getattr(driver, name)(*arguments)
    assert code == 0, (name, code)

def enter(number=0):
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
    call("cuCtxPushCurrent_v2", context)
    atexit.register(leave, number)

def leave(number):
    call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
    call("cuDevicePrimaryCtxRelease_v2", number)

def new_stream():
    stream = ctypes.c_void_p()
    call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
    atexit.register(driver.cuStreamDestroy_v2, stream)
    return stream.value

def read(address, size, stream):
    to = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoHAsync_v2", to, U64(address), SIZE(size), ctypes.c_void_p(stream))
    call("cuStreamSynchronize", ctypes.c_void_p(stream))
    return to.raw

api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

def address(capsule):
    return int.from_bytes(ctypes.string_at(api.PyCapsule_GetPointer(capsule, b"dltensor"), 8), "little")

def digest(data):
    return hashlib.sha256(data).hexdigest()
"""


class OnGpu(PythonCase):
    standin = True

    def serve(self, env=None, **feed):
        write_shards(self.folder / "data", shards=2, records=40)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "seed": 7, "handoff": "auto", **feed})
        self.start_daemon(env=env)

    def on_gpu(self, text, env=None):
        return self.run_script(textwrap.dedent(START) + textwrap.dedent(text), env=with_device(env, True))[0]

    def epoch(self):
        """Digests of the pictures of one epoch, in shared memory."""
        return [hashlib.sha256(batch["image"].tobytes()).hexdigest() for batch in self.loader(device="cpu", job="host")]

    def test_values(self):
        self.serve()
        want = self.epoch()
        for handoff in ("vmm", "ipc"):
            out = self.on_gpu("""
                enter()
                stream = new_stream()
                made = loader(as_="dlpack", device="cuda", job="gpu")
                assert made.info["memory"] != "host" and made.info["device"] == 0, made.info
                for batch in made:
                    image, label = batch["image"], batch["label"]
                    assert image.__dlpack_device__() == label.__dlpack_device__() == (2, 0)
                    print(digest(read(address(image.__dlpack__(stream=stream)), 8 * 224 * 224 * 3, stream)))
                    assert not hasattr(image, "__array_interface__")
                    for refused in ({"copy": True, "stream": stream}, {"dl_device": (1, 0)}):
                        try:
                            image.__dlpack__(**refused)
                        except BufferError:
                            continue
                        raise AssertionError(refused)
                    import numpy
                    try:
                        numpy.asarray(image)
                    except TypeError as error:
                        assert "GPU" in str(error)
                    else:
                        raise AssertionError("numpy")
                """, env={"STANDIN_VMM": "0"} if handoff == "ipc" else None)
            self.assertEqual(out.split(), want, handoff)

    def test_streams(self):
        """Slots go back behind what the streams do: more batches than slots, several streams, texts for numbers, one destroyed."""
        self.serve(slots=3)
        out = self.on_gpu("""
            enter()
            streams = [new_stream() for _ in range(3)]
            made = loader(as_="dlpack", device="cuda", job="gpu")
            for step, batch in enumerate(made):
                to = ctypes.create_string_buffer(8 * 224 * 224 * 3)
                batch["label"].__dlpack__(stream=str(streams[0]))  # as PyTorch 1.13
                batch["valid"].__dlpack__(stream=streams[1])
                capsule = batch["image"].__dlpack__(stream=streams[2])
                call("cuMemcpyDtoHAsync_v2", to, U64(address(capsule)), SIZE(len(to)), ctypes.c_void_p(streams[2]))
                del batch, capsule  # the copy has not ended
                call("cuStreamSynchronize", ctypes.c_void_p(streams[2]))
                print(digest(to.raw[:]))
            gone = new_stream()
            for batch in made:
                batch["label"].__dlpack__(stream=gone)
                if gone in streams:
                    continue
                call("cuStreamDestroy_v2", ctypes.c_void_p(gone))
                gone = streams[0]
            del batch
            print(made.stats()["held"])
            """, env={"STANDIN_OP_US": "2000"})
        self.assertEqual(out.split(), [*self.epoch(), "0"])

    def test_convert(self):
        """By the library's kernel into memory of the trainer, as the feed itself converts."""
        write_shards(self.folder / "data", shards=2, records=40)
        feed = {"source": str(self.folder / "data/*.tar"), "batch": 8, "seed": 7}
        scale = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.25]}
        self.config([{"name": "feed", "handoff": "auto", **feed}, {"name": "float", "output": "float32_nchw", **scale, **feed}])
        self.start_daemon()
        out = self.on_gpu("""
            enter()
            stream, planes = new_stream(), U64()
            made = loader(as_="dlpack", device="cuda", job="gpu")
            room = 8 * 3 * 224 * 224 * 4
            call("cuMemAlloc_v2", ctypes.byref(planes), SIZE(room))
            for _ in made:
                made._batch.convert("image", planes.value, room, 7, (0.5, 0.4, 0.3), (0.2, 0.3, 0.25), stream)
                print(digest(read(planes.value, room, stream)))
            try:
                for _ in made:
                    made._batch.convert("image", planes.value, room - 1, 7, (0.5, 0.4, 0.3), (0.2, 0.3, 0.25), stream)
            except dataload.Error as error:
                print("room" in str(error))
            call("cuMemFree_v2", planes)
            """)
        want = [hashlib.sha256(batch["image"].tobytes()).hexdigest() for batch in self.loader("float", device="cpu", job="host")]
        self.assertEqual(out.split(), [*want, "True"])

    def test_choice(self):
        """Of the GPU: by number, the current one; auto falls back, cuda does not."""
        self.serve(env={"STANDIN_DEVICES": "2"})
        out = self.on_gpu("""
            for device in ("cuda:1", "cuda", "auto"):
                made = loader(as_="dlpack", device=device, job=device.replace(":", "-"))
                print(made.info["device"], next(iter(made))["image"].__dlpack_device__())
                made.close()
            enter(1)
            made = loader(as_="dlpack", device="cuda", job="current")
            print(made.info["device"])
            try:
                loader(as_="dlpack", device="cuda:7")
            except dataload.Error as error:
                print(type(error).__name__)
            print(loader(device="auto", as_="numpy", job="numpy").info["device"])
            """, env={"STANDIN_DEVICES": "2"})
        self.assertEqual(out.splitlines(), ["1 (2, 1)", "0 (2, 0)", "0 (2, 0)", "1", "Error", "-1"])
        out = self.on_gpu("""
            print(loader(as_="dlpack", device="auto", job="auto").info["memory"])
            try:
                loader(as_="dlpack", device="cuda")
            except dataload.Error as error:
                print("GPU" in str(error))
            """, env={"STANDIN_DEVICES": "0"})
        self.assertEqual(out.split(), ["host", "True"])

    def test_closed_with_tensors_alive(self):
        """Memory of a GPU stays the daemon's: the attachment ends with the last tensor."""
        self.serve()
        process = self.script(textwrap.dedent(START) + textwrap.dedent("""
            enter()
            made = loader(as_="dlpack", device="cuda", job="gpu")
            image = next(iter(made))["image"]
            stream = new_stream()
            capsule = image.__dlpack__(stream=stream)
            made.close()
            first = digest(read(address(capsule), 8 * 224 * 224 * 3, stream))
            print(digest(read(address(image.__dlpack__(stream=stream)), 8 * 224 * 224 * 3, stream)) == first, flush=True)
            sys.stdin.readline()
            del image, capsule
            print("gone", flush=True)
            sys.stdin.readline()
            """), env=with_device(None, True))
        self.assertEqual(process.stdout.readline(), "True\n", process.poll() is not None and process.stderr.read())
        self.assertEqual(len(self.clients()), 1)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "gone\n")
        self.until_gone()
        self.assertIsNone(process.poll())


main()
