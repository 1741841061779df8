"""What a batch costs in Python over what it costs the C client: processor time of the trainer, one run, by turns.

  tests/bench/bench_python.py [--rounds N] [--epochs N] [--build DIR]     prints a Markdown table

Batches of 4 pictures of 8 x 8 with label and flags, so that there is little else. Needs a release build, and python3-torch for its rows.
"""
import argparse
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--build", default=str(HERE.parent.parent / "build/release"))
OPTIONS = parser.parse_args()
os.environ["DATALOADD_BUILD"] = OPTIONS.build
sys.path.insert(0, str(HERE.parent / "e2e"))
from python_case import *  # noqa: E402

AIM_US = 20
STEPS, BATCH = 1024, 4  # of an epoch
KINDS = {'as_="torch"': {"as_": "torch"}, 'as_="numpy"': {"as_": "numpy"}, 'as_="dlpack"': {"as_": "dlpack"},
         'as_="torch", copy=True': {"as_": "torch", "copy": True}}
LOOP = """
made = loader(**{options!r})
for line in sys.stdin:
    for _ in range(int(line)):
        for batch in made:
            batch["image"], batch["label"]
    print("done", flush=True)
"""


def processor_us(pid):
    """Of all its threads."""
    return sum(int(path.read_text(encoding="utf-8").split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e3


class Bench(PythonCase):
    def runTest(self):
        pass

    def start(self, options):
        process = self.script(LOOP.format(options={**options, "job": f"python-{len(self.started)}"}))
        self.started.append(process)

        def run(epochs):
            process.stdin.write(f"{epochs}\n")
            process.stdin.flush()
            if process.stdout.readline() != "done\n":
                raise AssertionError(process.stderr.read())
        return process.pid, run

    def client(self):
        trainer = self.trainer()
        trainer.attach(job="c")
        return trainer.pid, lambda epochs: trainer.run(epochs=epochs, print=0)

    def rounds(self):
        """Microseconds of each kind, a list a kind."""
        self.started = []
        write_shards(self.folder / "data", shards=1, records=STEPS * BATCH, width=8, height=8)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "transform": [{"resize": 8}, {"center_crop": 8}], "output": "uint8_nhwc",
                     "slots": 8}, workers=1)
        self.start_daemon()
        runs = {"C": self.client(), **{name: self.start(options) for name, options in KINDS.items()}}
        for _, run in runs.values():
            run(2)  # what a process does once
        found = {name: [] for name in runs}
        for _ in range(OPTIONS.rounds):
            for name, (pid, run) in runs.items():
                before = processor_us(pid)
                run(OPTIONS.epochs)
                found[name].append((processor_us(pid) - before) / (OPTIONS.epochs * STEPS))
        return found


def main():
    case = Bench()
    case.setUp()
    try:
        found = case.rounds()
    finally:
        case.doCleanups()
    print("| what | measured | aim | details |\n|---|---|---|---|")
    for name in KINDS:
        over = [ours - theirs for ours, theirs in zip(found[name], found["C"])]
        print(f"| a batch in Python, `{name}`, over the C client: processor time | {statistics.median(over):.1f} us | <= {AIM_US} us | "
              f"median of {len(over)}, {min(over):.1f}-{max(over):.1f}; {statistics.median(found[name]):.1f} us over {statistics.median(found['C']):.1f} us |")


main()
