"""The pool of decode threads: the figures of docs/performance.md, "The pool".

  tests/bench/pool.py [--rounds N] [--seconds S] [--build DIR] [--pictures FOLDER] [NAME ...]     prints a Markdown table

NAME: cores, trainer, rows, tiny, pinned, memory; default all. Needs a release build with tests and two CPUs. FOLDER: JPEGs; default: the
sample generator's. Rounds of what is compared take turns; medians are told where nothing else is said. `ready` is the share of time in which a worker
had work and no processor, because others had it; `waited` that in which it had no work.
"""
import argparse
import io
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile

from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--seconds", type=float, default=2)
parser.add_argument("--build", default=str(HERE.parent.parent / "build/release"))
parser.add_argument("--pictures")
parser.add_argument("names", nargs="*")
OPTIONS = parser.parse_args()
os.environ["DATALOADD_BUILD"] = OPTIONS.build
sys.path.insert(0, str(HERE.parent / "e2e"))
from harness import *  # noqa: E402

POOL = BUILD / "tests/bench/bench_pool"
DATA = BUILD / "bench-pool"
CPUS = sorted(os.sched_getaffinity(0))[:2]
SIDE = 256


def pictures():
    if OPTIONS.pictures:
        return [path.read_bytes() for path in sorted(pathlib.Path(OPTIONS.pictures).iterdir()) if path.suffix.lower() in (".jpg", ".jpeg")]
    if not (DATA / "sample").exists():
        subprocess.run([PACK, "sample", DATA / "sample", "--images", "300"], check=True, stdout=subprocess.DEVNULL)
    found = []
    for shard in sorted((DATA / "sample").glob("*.tar")):
        with tarfile.open(shard) as tar:
            found += [tar.extractfile(member).read() for member in tar if member.name.endswith(".jpg")]
    return found


def resized(data):
    """Short side 256, quality 90."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    scale = SIDE / min(picture.size)
    out = io.BytesIO()
    picture.resize([max(SIDE, round(side * scale)) for side in picture.size], Image.BILINEAR).save(out, "JPEG", quality=90)
    return out.getvalue()


def shard(name, suffix, records):
    """Made once."""
    path = DATA / f"{name}.tar"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        write_tar(path.with_suffix(".part"), ((f"{i:07d}.{suffix}", record) for i, record in enumerate(records())))
        path.with_suffix(".part").rename(path)
    return path


def whole():
    return shard("whole" + (pathlib.Path(OPTIONS.pictures).name if OPTIONS.pictures else ""), "jpg", pictures)


def small():
    return shard("small" + (pathlib.Path(OPTIONS.pictures).name if OPTIONS.pictures else ""), "jpg", lambda: map(resized, pictures()))


def tiny():
    return shard("tiny", "raw", lambda: map(random.Random(1).randbytes, [1024] * 200_000))


def run_pool(cores, *arguments):
    command = ["taskset", "-c", ",".join(map(str, CPUS[:cores])), POOL, *arguments]
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def feed(cores, field, threads, path):
    """rows/s, processor us a row, and the shares of the workers' time: ran, ready, waited."""
    return [float(word) for word in re.findall(r"[\d.]+", run_pool(cores, "feed", field, threads, OPTIONS.seconds, path))]


def take_turns(ways):
    """Results by way, rounds of them; every other round runs backwards."""
    seen = {way: [] for way in ways}
    for number in range(OPTIONS.rounds):
        for way in ways if number % 2 else reversed(ways):
            seen[way].append(feed(*way))
    return seen


def median(results, column):
    return statistics.median(result[column] for result in results)


def spread(values):
    return f"{min(values):.2f}-{max(values):.2f}"


def compare(what, aim, path, field="jpg"):
    one, two = (1, field, 1, path), (2, field, 2, path)
    seen = take_turns([one, two])
    ratios = [b[0] / a[0] / 2 for a, b in zip(seen[one], seen[two])]
    yield (f"{what}: rows/s of 2 cores / twice those of 1 core", f"{statistics.median(ratios):.3f}", aim,
           f"{spread(ratios)}; {median(seen[two], 0):.0f}/s over {median(seen[one], 0):.0f}/s; 2 cores: ready {median(seen[two], 3):.3f}, waited {median(seen[two], 4):.3f}")
    # What other programs took of the processors and of their caches is least in the best of the rounds.
    least = {way: [min(result[column] for result in seen[way]) for column in (1, 4)] for way in seen}
    yield (f"{what}: processor time a row with 1 core / with 2, least of the rounds", f"{least[one][0] / least[two][0]:.3f}", aim,
           f"{least[one][0]:.1f} us, {least[two][0]:.1f} us; waited, least: {least[one][1]:.3f}, {least[two][1]:.3f}")


class Trainers(Case):
    def runTest(self):
        pass

    def rate(self, cores):
        """Of a daemon and a trainer, both held on so many cores."""
        prefix = ["taskset", "-c", ",".join(map(str, CPUS[:cores]))]
        self.config({"source": str(whole()), "batch": 64, "fields": [{"name": "image", "from": ["jpg"], "kind": "image"}]}, workers=cores)
        self.start_daemon(prefix=prefix)
        trainer = self.trainer(prefix=prefix)
        trainer.attach()
        trainer.run(batches=4, print=0)
        start, samples = time.monotonic(), 0
        while time.monotonic() - start < OPTIONS.seconds:
            trainer.send("run", batches=2, print=0)
            samples += trainer.results()[-1]["samples"]
        rate = samples / (time.monotonic() - start)
        self.trainers.remove(trainer)
        trainer.close()
        self.stop_daemon()
        return rate


def bench_cores():
    yield from compare("train 224", ">= 0.95", whole())
    yield from compare(f"train 224 of pictures of {SIDE}", ">= 0.95", small())


def bench_trainer():
    case = Trainers()
    case.setUp()
    try:
        pairs = []
        for number in range(OPTIONS.rounds):
            rates = {cores: case.rate(cores) for cores in ((1, 2) if number % 2 else (2, 1))}
            pairs.append(rates[2] / rates[1])
    finally:
        case.doCleanups()
    yield ("daemon and one trainer, train 224: 2 cores / 1 core", f"{statistics.median(pairs):.2f}", ">= 1.9", f"{spread(pairs)}, {len(pairs)} pairs")


def bench_rows():
    for work in (0, 1000):
        lines = run_pool(2, "rows", work, 1, 2, 4, 8, 16).splitlines()
        found = [re.findall(r"[\d.]+", line) for line in lines]
        yield (f"pool alone, rows of {work} ns, 1, 2, 4, 8, 16 threads on 2 cores", " ".join(f"{float(row[2]) / 1e6:.2f}" for row in found) + " M/s", "flat",
               "overhead " + " ".join(row[1] for row in found) + " ns a row")


def bench_tiny():
    for what, field, path in (("records of 1 KB", "raw", tiny()), (f"pictures of {SIDE}, train 224", "jpg", small())):
        ways = [(2, field, threads, path) for threads in (1, 2, 4, 8, 16)]
        seen = take_turns(ways)
        yield (f"{what}: rows/s with 1, 2, 4, 8, 16 threads on 2 cores", " ".join(f"{median(seen[way], 0):.0f}" for way in ways), "flat or growing",
               "us a row of all threads: " + " ".join(f"{median(seen[way], 1):.2f}" for way in ways))


def bench_pinned():
    free, pinned = (2, "jpg", 2, small()), (2, "jpg", "2p", small())
    seen = take_turns([free, pinned])
    rate, cpu = ([b[column] / a[column] for a, b in zip(seen[free], seen[pinned])] for column in (0, 1))
    yield ("pinned / not pinned: rows/s", f"{statistics.median(rate):.3f}", "", spread(rate))
    yield ("pinned / not pinned: processor time a row", f"{statistics.median(cpu):.3f}", "", spread(cpu))


def bench_memory():
    with tarfile.open(whole()) as tar:
        folder = DATA / "pictures"
        folder.mkdir(exist_ok=True)
        for member in tar:
            (folder / member.name).write_bytes(tar.extractfile(member).read())
    for threads in (1, 4, 16):
        found = re.findall(r"[\d.]+", run_pool(2, "memory", threads, *sorted(folder.iterdir())))
        yield (f"RssAnon of each of {threads} workers", f"{found[1]} MiB", "<= 8 MiB",
               f"{found[2]} pictures; one of {found[4]}x{found[5]} takes {found[3]} MiB more, afterwards {found[6]} MiB each")


print("| what | measured | aim | details |\n|---|---|---|---|")
for name in OPTIONS.names or ["cores", "trainer", "rows", "tiny", "pinned", "memory"]:
    for line in globals()[f"bench_{name}"]():
        print("| " + " | ".join(line) + " |", flush=True)
