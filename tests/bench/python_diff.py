"""The two scripts of the README, before and after: rates and costs with the same folder, on the same cores, by turns.

  tests/bench/python_diff.py [--rounds N] [--build DIR] [--lock FILE]     prints a Markdown table

Both run as they are, but with a model of one layer, so that the input is what limits. The folder is the handed photographs
(shared/data/imagenet-300) three times over, in one class each; pictures of the sample generator where there are none. The first
epoch of each turn is not counted: in it DataLoader starts its workers, and the daemon records its marks.
"""
import argparse
import contextlib
import fcntl
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--build", default=str(HERE.parent.parent / "build/release"))
parser.add_argument("--lock", help="held (flock) during each turn, where others measure on the same machine")
OPTIONS = parser.parse_args()
os.environ["DATALOADD_BUILD"] = OPTIONS.build
sys.path.insert(0, str(HERE.parent / "e2e"))
from harness import *  # noqa: E402

EXAMPLES = HERE.parent.parent / "client/examples/python"
CORES = len(os.sched_getaffinity(0))
TIMES = 3
EPOCHS = {"imagenet_before.py": 3, "imagenet_after.py": 9}
# The script, with a model that takes no time.
RUN = """
import runpy, sys, torch, torchvision
torchvision.models.resnet18 = lambda: torch.nn.Sequential(torch.nn.AvgPool2d(32), torch.nn.Flatten(), torch.nn.Linear(147, 1000))
torch.set_num_threads(1)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def pictures(folder):
    files = sorted((SHARED / "data/imagenet-300").glob("*.JPEG"))
    if not files:
        subprocess.run([PACK, "sample", folder / "made", "--images", "300", "--folder"], check=True, stdout=subprocess.DEVNULL)
        files = sorted((folder / "made").rglob("*.jpg"))
    for number, path in enumerate(files):
        (folder / f"train/{number:03d}").mkdir(parents=True)
        for copy in range(TIMES):
            (folder / f"train/{number:03d}/{copy}.jpg").symlink_to(path)
    return len(files) * TIMES


class Bench(Case):
    def runTest(self):
        pass


def cpu_seconds(pid):
    """Of a process and its children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, children))


def turn(case, script, pictures):
    """Images/s of its epochs but the first, and processor time of all that takes part, in microseconds an image."""
    env = dict(os.environ, EPOCHS=str(EPOCHS[script]), PYTHONPATH=f"{BUILD}/client/python", DATALOADD_SOCKET=str(case.socket))
    with contextlib.ExitStack() as stack:
        if OPTIONS.lock:
            fcntl.flock(stack.enter_context(open(OPTIONS.lock, "w", encoding="utf-8")), fcntl.LOCK_EX)
        process = stack.enter_context(subprocess.Popen([sys.executable, "-c", RUN, EXAMPLES / script], cwd=case.folder, env=env, text=True,
                                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        said, used = [], []
        for line in process.stdout:
            used.append(cpu_seconds(process.pid) + cpu_seconds(case.daemon.pid))
            said.append(float(line.split()[2]))
            if len(said) == EPOCHS[script]:
                break  # before its workers end, whose time counts
    if len(said) != EPOCHS[script]:
        raise SystemExit(f"{script} ended with {process.returncode}")
    return statistics.median(said[1:]), (used[-1] - used[0]) * 1e6 / (pictures * (EPOCHS[script] - 1))


def measure(case):
    number = pictures(case.folder)
    case.config({"name": "imagenet", "folder": str(case.folder / "train"), "transform": "train", "output": "float32_nchw", "batch": 64,
                 "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}, workers=CORES)
    case.start_daemon()
    turns = {script: [] for script in EPOCHS}
    for round_ in range(OPTIONS.rounds):
        for script in sorted(EPOCHS, reverse=round_ % 2 == 0):
            turns[script].append(turn(case, script, number))
    (before, cost), (after, ours) = (zip(*turns[script]) for script in EPOCHS)
    print("| what | median | spread |")
    print("|---|---|---|")
    for name, values, digits in (("imagenet_before.py (ImageFolder, DataLoader), images/s", before, 0),
                                 ("imagenet_after.py (dataload.Loader), images/s", after, 0),
                                 ("after / before", [b / a for a, b in zip(before, after)], 1),
                                 ("processor time before, us an image", cost, 0), ("processor time after, the daemon's with it, us an image", ours, 0),
                                 ("before / after", [a / b for a, b in zip(cost, ours)], 1)):
        print(f"| {name} | {statistics.median(values):.{digits}f} | {min(values):.{digits}f}-{max(values):.{digits}f} |")
    print(f"\n{OPTIONS.rounds} rounds, {number} pictures an epoch, {CORES} cores: as many workers of the DataLoader, as many of the daemon")


case = Bench()
case.setUp()
try:
    measure(case)
finally:
    case.doCleanups()
