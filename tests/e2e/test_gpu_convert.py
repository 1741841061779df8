"""Pictures converted on the GPU by the trainer are those that the feed converts, bit for bit; on the stand-in, whose
kernels are CPU functions."""
from gpu_case import *

OUTPUTS = {"uint8_nchw": (1, 1), "float32_nchw": (7, 4), "float16_nchw": (5, 2), "bfloat16_nchw": (6, 2)}  # dtype, width


class Convert(GpuCase):
    def serve_all(self):
        write_shards(self.folder / "data", shards=1, records=16)
        feed = {"source": str(self.folder / "data/*.tar"), "batch": 8, "seed": 7, "transform": "train"}
        scale = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
        self.config([{"name": output, "output": output, **feed, **({} if "uint8" in output else scale)}
                     for output in ("uint8_nhwc", *OUTPUTS)])

    def check(self, env=None):
        self.serve_all()
        self.start_daemon()
        raw = self.trainer(env=env)
        raw.attach(feed="uint8_nhwc", device="gpu")
        batch = raw.next(rows=0)["handle"]
        for output, (dtype, width) in OUTPUTS.items():
            done = self.trainer()
            done.attach(feed=output, device="gpu")
            ours = raw.call("convert", handle=batch, dtype=dtype, width=width)
            self.assertEqual(ours["rc"], 0, ours)
            self.assertEqual(ours["image"], done.next()["image"])
        short = raw.call("convert", handle=batch, dtype=7, width=3)
        self.assertEqual(short["rc"], -28)
        self.assertEqual(raw.call("convert", handle=batch, dtype=3, width=8)["rc"], -22)
        raw.call("detach")

    def test_values(self):
        self.check()

    def test_values_by_the_text(self):
        """The binaries are not for this GPU."""
        self.check(env={"STANDIN_FAULTS": "cuModuleLoadData:1:209"})


main()
