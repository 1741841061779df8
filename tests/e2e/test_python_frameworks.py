"""Current releases of Lightning, Accelerate, transformers and JAX take a Loader as it is. In two processes the samples that
the training steps see are the epoch, each once; what would shard again is refused."""
from frameworks import *

PYTHON = environment()
RECORDS, BATCH, WORLD = 96, 8, 2

COMMON = f"""
import json, os, sys, warnings
sys.path.insert(0, {str(PACKAGE)!r})
import torch
from torch.utils.data import DataLoader
import dataload, dataload.torch
torch.set_num_threads(1)
torch.manual_seed(0)
names = {{"index": "index", "valid": None}}
seen = open(os.environ["SEEN"] + os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")), "w")

def see(batch, epoch):
    print(json.dumps([epoch, batch["index"].tolist()]), file=seen, flush=True)

def small(image):
    return image.float()[:, :, ::32, ::32].flatten(1) / 255

def model():
    return torch.nn.Linear(3 * 7 * 7, 10)
"""

# PyTorch 2.15 alone, with gloo, aborts in one of six ends of a process on a busy machine ("terminate called without an active exception").
END = """
seen.close()
loader = None
sys.stdout.flush()
os._exit(0)
"""

LIGHTNING = """
import lightning

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model()

    def training_step(self, batch, number):
        see(batch, self.current_epoch)
        return torch.nn.functional.cross_entropy(self.model(small(batch["image"])), batch["label"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
loader = dataload.Loader("feed", names=names)
trainer.fit(Model(), MADE)
"""

# It starts the second process itself, in fit().
LIGHTNING_ALONE = LIGHTNING.replace("    def configure_optimizers", """
    def train_dataloader(self):
        return dataload.Loader("feed", names=names, rank=self.trainer.global_rank, world=self.trainer.world_size)

    def configure_optimizers""").replace("loader = dataload.Loader(\"feed\", names=names)\n", "").replace("Model(), MADE", "Model()")

ACCELERATE = """
import accelerate

accelerator = accelerate.Accelerator(cpu=True)
net = model()
net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.01))
loader = dataload.Loader("feed", names=names)
batches = MADE
for epoch in range(2):
    for batch in batches:
        see(batch, epoch)
        loss = torch.nn.functional.cross_entropy(net(small(batch["image"])), batch["label"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""

TRANSFORMERS = """
import transformers

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model()

    def forward(self, pixel_values, labels, index):
        see({"index": index}, int(trainer.state.epoch or 0))
        logits = self.model(small(pixel_values))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

class Trainer(transformers.Trainer):
    def get_train_dataloader(self):
        return MADE if MADE is not None else super().get_train_dataloader()

loader = dataload.Loader("feed", names={"image": "pixel_values", "label": "labels", "index": "index", "valid": None})
arguments = transformers.TrainingArguments(output_dir=os.environ["SEEN"] + "out", use_cpu=True, num_train_epochs=2, report_to=[], save_strategy="no",
                                           disable_tqdm=True, learning_rate=0.01)
trainer = Trainer(model=Net(), args=arguments, train_dataset=dataload.torch.IterableDataset(loader))
trainer.train()
"""

JAX = """
import jax, jax.numpy as jnp, numpy

loader = dataload.Loader("feed", names={"index": "index"}, as_="jax")

@jax.jit
def step(weights, image, label):
    def loss(weights):
        logits = (image[:, ::32, ::32].reshape(len(image), -1) / 255.0) @ weights
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(label)), label])
    return weights - 0.01 * jax.grad(loss)(weights)

weights = jnp.zeros((3 * 7 * 7, 10))
held = []
for epoch in range(2):
    for number, batch in enumerate(loader):
        see(batch, epoch)
        weights = step(weights, batch["image"], batch["label"])
        if number == 0:
            held.append((batch["image"], numpy.array(batch["image"])))
        del batch
weights.block_until_ready()
for kept, was in held:
    numpy.testing.assert_array_equal(kept, was)
"""


class Frameworks(PythonCase):
    def setUp(self):
        super().setUp()
        self.serve(shards=4, records=RECORDS // 4)

    def run_ranks(self, text, made, world=WORLD):
        """Exit code and what was said."""
        script = self.folder / "train.py"
        script.write_text(COMMON + text.replace("MADE", made) + END, encoding="utf-8")
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={world}"] if text != LIGHTNING_ALONE else []
        env = {**os.environ, **PRELOADED, "DATALOADD_SOCKET": str(self.socket), "SEEN": f"{self.folder}/seen.", "OMP_NUM_THREADS": "1",
               "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run([PYTHON, "-B", *launcher, script], capture_output=True, text=True, env=env, timeout=120 * SLACK)
        return done.returncode, done.stdout + done.stderr

    def see_epochs(self, world=WORLD, epochs=2):
        lines = [[json.loads(line) for line in (self.folder / f"seen.{rank}").read_text().splitlines()] for rank in range(world)]
        self.assertEqual(len({len(of_rank) for of_rank in lines}), 1)
        for epoch in range(epochs):
            seen = [index for of_rank in lines for number, batch in of_rank if number == epoch for index in batch]
            self.assertEqual(sorted(seen), list(range(RECORDS)), f"epoch {epoch}")

    def takes(self, text, made="loader", world=WORLD):
        code, said = self.run_ranks(text, made, world)
        self.assertEqual(code, 0, said)
        self.see_epochs(world)

    def refuses(self, text, made, line):
        code, said = self.run_ranks(text, made)
        self.assertNotEqual(code, 0)
        self.assertRegex(said, line)

    def test_lightning(self):
        self.takes(LIGHTNING)
        self.takes(LIGHTNING_ALONE)
        self.takes(LIGHTNING, "DataLoader(dataload.torch.IterableDataset(loader), batch_size=None)")
        self.refuses(LIGHTNING, "DataLoader(dataload.torch.IterableDataset(loader), batch_size=None, num_workers=2)", "ShardedAgain: .*num_workers=0")

    def test_accelerate(self):
        dataset = "DataLoader(dataload.torch.IterableDataset(loader), batch_size=None)"
        self.takes(ACCELERATE)
        self.takes(ACCELERATE, "accelerator.prepare(loader)")
        self.takes(ACCELERATE, f"accelerator.prepare({dataset})", world=1)
        self.refuses(ACCELERATE, f"accelerator.prepare({dataset})", "ShardedAgain: Accelerate .*leave the loader out of accelerator.prepare")
        self.refuses(ACCELERATE.replace("cpu=True", "cpu=True, dataloader_config=accelerate.DataLoaderConfiguration(dispatch_batches=False)"),
                     f"accelerator.prepare({dataset})", "ShardedAgain: Accelerate .*leave the loader out of accelerator.prepare")

    def test_transformers(self):
        self.takes(TRANSFORMERS)
        self.refuses(TRANSFORMERS, "None", r"ShardedAgain: .*(batch_size=None|get_train_dataloader)")

    def test_jax(self):
        self.takes(JAX)


if __name__ == "__main__":
    main()
