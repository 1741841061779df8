"""What the tests of batches on GPUs of the stand-in have in common."""
from harness import *

HOST, VMM, IPC = 0, 1, 2  # dataload_info.memory


class GpuCase(Case):
    standin = True

    def serve(self, env=None, **feed):
        write_shards(self.folder / "data", shards=2, records=40)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "seed": 7, "handoff": "auto", **feed})
        self.start_daemon(env=env)

    def epoch(self, trainer):
        """What a trainer sees in its next epoch."""
        lines = trainer.run(epochs=1, print=2, behind=1)
        return [(line["epoch"], line["step"], line["index"], line["image"], line["label"], line["flags"]) for line in lines]

    def lent(self):
        """Bytes lent of each GPU."""
        return {gpu["uuid"]: gpu["lent"] for gpu in json.loads(self.ctl("gpu", "--json").stdout)["gpus"]}
