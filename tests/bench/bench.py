"""The figures of docs/performance.md, each as a ratio or time measured in one run.

  tests/bench/bench.py [--rounds N] [--build DIR] [NAME ...]     prints a Markdown table

NAME: e2e, marks, memory, attach, resume, nodes, kill, status, mirror, handoff, ratios; default all. Needs a release build with tests.
handoff and ratios pin processes to the cores 0 and 1.
"""
import argparse
import io
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--build", default=str(HERE.parent.parent / "build/release"))
parser.add_argument("names", nargs="*")
OPTIONS = parser.parse_args()
os.environ["DATALOADD_BUILD"] = OPTIONS.build
sys.path.insert(0, str(HERE.parent / "e2e"))
from harness import *  # noqa: E402

THREADS = os.cpu_count() or 1
LOOP = BUILD / "tests/bench/bench_loop"
HANDOFF = BUILD / "tests/bench/bench_handoff"
SAMPLE = BUILD / "bench-sample"
PHOTOGRAPHS = SHARED / "data/imagenet-300"


def sample():
    """Photo-like shards of our own generator, made once."""
    if not (SAMPLE / "done").exists():
        subprocess.run([PACK, "sample", SAMPLE, "--images", "1000"], check=True, stdout=subprocess.DEVNULL)
        (SAMPLE / "done").touch()
    return sorted(SAMPLE.glob("*.tar"))


class Bench(Case):
    def runTest(self):
        pass

    def serve(self, shards, **feed):
        self.config({"source": [str(s) for s in shards], "batch": 64, **feed}, workers=THREADS)
        self.start_daemon()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate_of(case, job, seconds):
    """Of two null trainers of one job, after a warm-up: samples/s, and the daemon's CPU microseconds a sample."""
    pair = [case.trainer(), case.trainer()]
    for rank, trainer in enumerate(pair):
        trainer.attach(job=job, rank=rank, world=2)
    for trainer in pair:
        trainer.run(batches=4, print=0)
    start, before, samples = time.monotonic(), cpu_seconds(case.daemon.pid), 0
    while time.monotonic() - start < seconds:
        for trainer in pair:
            trainer.send("run", batches=2, print=0)
        samples += sum(trainer.results()[-1]["samples"] for trainer in pair)
    rate = samples / (time.monotonic() - start)
    cpu = (cpu_seconds(case.daemon.pid) - before) * 1e6 / samples
    for trainer in pair:
        trainer.call("detach")
    return rate, cpu


def bench_e2e(case):
    shards = sample()
    case.config({"source": [str(s) for s in shards], "batch": 64, "shuffle": 256}, workers=THREADS,
                cache={"path": str(case.folder / "cache"), "marks": "off"})  # the loop has none
    case.start_daemon()
    loops, rates = [], []

    def loop():
        out = subprocess.run([LOOP, str(THREADS), "3", *map(str, shards)], check=True, capture_output=True, text=True)
        loops.append([float(word) for word in out.stdout.split()])

    for number in range(OPTIONS.rounds):
        steps = [loop, lambda job=f"e2e-{number}": rates.append(rate_of(case, job, 3))]
        for step in steps if number % 2 else reversed(steps):  # what comes first on a noisy machine alternates
            step()
    ratios = [rate[0] / loop[0] for rate, loop in zip(rates, loops)]
    cpu = [rate[1] / loop[1] for rate, loop in zip(rates, loops)]
    fast, slow = statistics.median(r[0] for r in rates), statistics.median(r[0] for r in loops)
    yield ("2 trainers end to end / same decoder from memory in a loop", f"{statistics.median(ratios):.3f}", ">= 0.9",
           f"{fast:.0f}/s over {slow:.0f}/s, {THREADS} threads, {min(ratios):.2f}-{max(ratios):.2f}")
    yield ("the daemon's CPU time a sample / that of the loop", f"{statistics.median(cpu):.3f}", "<= 1.1", f"{min(cpu):.2f}-{max(cpu):.2f}")


def photographs(case):
    """Shards of the handed photographs, of our own generator's without them."""
    files = sorted((SHARED / "data/imagenet-300").glob("*.JPEG"))
    for shard in range(4 if files else 0):
        write_tar(case.folder / f"{shard}.tar", [member for number, path in list(enumerate(files))[shard::4]
                                                 for member in ((f"{number:04d}.jpg", path.read_bytes()), (f"{number:04d}.cls", b"0"))])
    return sorted(case.folder.glob("?.tar")) or sample()


def bench_marks(case):
    """With marks recorded in epochs before, and without, by turns; each with a daemon of its own."""
    shards = photographs(case)
    rates = {"on": [], "off": []}
    for number in range(-1, OPTIONS.rounds):
        for marks in ("on", "off") if number % 2 else ("off", "on"):
            case.config({"source": [str(s) for s in shards], "batch": 64, "shuffle": 64}, workers=THREADS,
                        cache={"path": str(case.folder / "cache"), "marks": marks})
            case.start_daemon()
            rates[marks].append(rate_of(case, f"marks-{number}", 3))
            status = case.status()["feeds"][0]
            case.stop_daemon()
            if marks == "on":
                share = status["marks_used"] / status["decoded"]
    pairs = list(zip(rates["on"], rates["off"]))[1:]
    rate, cpu = ([on[i] / off[i] for on, off in pairs] for i in (0, 1))
    yield ("2 trainers end to end with marks / without", f"{statistics.median(rate):.3f}", "",
           f"{min(rate):.2f}-{max(rate):.2f}; {100 * share:.0f} % of the pictures had marks")
    yield ("the daemon's CPU time a sample with marks / without", f"{statistics.median(cpu):.3f}", "",
           f"{min(cpu):.2f}-{max(cpu):.2f}; {statistics.median(on[1] for on, _ in pairs):.0f} us")


def bench_memory(case):
    memory = 256 << 20
    shards = sample()
    case.config({"source": [str(s) for s in shards], "batch": 32, "shuffle": 512}, workers=THREADS, memory="256MiB")
    case.start_daemon()
    trainer = case.trainer()
    trainer.attach()
    seen = []
    for _ in range(20):
        trainer.run(epochs=1, print=0)
        seen.append(case.daemon_memory())
    yield ("RssAnon + RssShmem after epoch 20 / memory + 64 MiB", f"{seen[-1] / (memory + (64 << 20)):.2f}", "<= 1",
           f"{seen[-1] / 1e6:.0f} MB of {(memory + (64 << 20)) / 1e6:.0f} MB")
    yield ("the same after epoch 20 / after epoch 3", f"{seen[-1] / seen[2]:.3f}", "flat", f"largest {max(seen) / 1e6:.0f} MB")


def bench_attach(case):
    case.serve(sample())
    trainer = case.trainer()
    trainer.attach()
    times = []
    for number in range(max(OPTIONS.rounds, 9)):
        trainer.call("detach")
        start = time.monotonic()
        trainer.attach(job=f"a{number}")
        trainer.next(rows=0)
        times.append(time.monotonic() - start)
    yield ("attach to first batch of 64, index in the cache", f"{statistics.median(times):.3f} s", "<= 0.5 s", f"worst {max(times):.3f} s")


def bench_resume(case):
    """From the middle of an epoch of ten million records; the shards are links to one."""
    shard, links = case.folder / "shard.tar", case.folder / "data"
    write_tar(shard, ((f"{i:06d}.cls", b"%d" % (i % 10)) for i in range(100_000)))
    links.mkdir()
    for i in range(100):
        (links / f"{i:03d}.tar").symlink_to(shard)
    case.config({"source": str(links / "*.tar"), "batch": 64, "shuffle": 16384,
                 "fields": [{"name": "label", "from": ["cls"], "kind": "int"}]}, workers=THREADS)
    case.start_daemon()
    trainer = case.trainer()
    records = trainer.attach(job="first", timeout=600000)["records"]
    token = json.loads(case.ctl("token", "feed", "--step", records // 128).stdout)
    times = {False: [], True: []}
    for number in range(10 * max(OPTIONS.rounds, 9)):
        resumed = number % 2 == 1
        trainer.call("detach")
        start = time.monotonic()
        trainer.attach(job=f"r{number}", resume=json.dumps(token, separators=(",", ":")) if resumed else None)
        trainer.next(rows=0)
        times[resumed].append(time.monotonic() - start)
    fresh, middle = (statistics.median(times[resumed]) for resumed in (False, True))
    yield (f"attach to first batch from the middle of {records} records / from the start", f"{middle / fresh:.2f}", "<= 1.2",
           f"{middle * 1000:.1f} ms over {fresh * 1000:.1f} ms, medians of {len(times[True])}")


def read_by_nodes(nodes, lanes, epochs):
    """Bytes that each daemon reads in so many epochs, its ranks being neighbours of a world of 6 x 8."""
    trainers = []
    for number, node in enumerate(nodes):
        node.config({"source": [str(s) for s in sample()], "batch": 8, "lanes": lanes, "shuffle": 192,
                     "fields": [{"name": "raw", "from": ["jpg"], "kind": "bytes"}]}, workers=THREADS)
        node.start_daemon()
        for rank in range(number * 6 // len(nodes), (number + 1) * 6 // len(nodes)):
            trainers.append(node.trainer())
            trainers[-1].attach(job="nodes", rank=rank, world=6)
    read = []
    for count in (1, epochs):
        for trainer in trainers:
            trainer.send("run", epochs=count, print=0)
        for trainer in trainers:
            trainer.results()
        read.append([node.daemon_bytes_read() for node in nodes])
    return [after - before for before, after in zip(*read)]


def bench_nodes(case):
    epochs, size = 3, sum(shard.stat().st_size for shard in sample())
    for count, lanes in ((2, 48), (3, 48), (3, 64)):
        nodes = [Bench() for _ in range(count)]
        try:
            for node in nodes:
                node.setUp()
            factors = [each * count / size / epochs for each in read_by_nodes(nodes, lanes, epochs)]
        finally:
            for node in nodes:
                node.doCleanups()
        yield (f"bytes read by each of {count} daemons / its ranks' share of the data, world 6 x 8, lanes {lanes}", f"{max(factors):.2f}", "<= 1.2",
               ", ".join(f"{factor:.3f}" for factor in factors) + f" in {epochs} epochs")


def bench_kill(case):
    case.serve(sample(), shuffle=256)
    used = case.status()["memory_used"]
    times = []
    for _ in range(100):
        trainer = case.trainer()
        trainer.attach()
        trainer.next(rows=0)
        trainer.process.kill()
        start = time.monotonic()
        while True:
            status = case.status()
            if not status["clients"] and status["memory_used"] <= used:
                break
        times.append(time.monotonic() - start)
        trainer.close()
        case.trainers.remove(trainer)
    yield ("kill -9 of a trainer to everything free", f"{statistics.median(times) * 1000:.0f} ms", "<= 100 ms", f"median of 100, worst {max(times) * 1000:.0f} ms")


def bench_status(case):
    case.serve(sample(), shuffle=256)
    trainer = case.trainer()
    trainer.attach()
    trainer.send("run", batches=400, print=0)
    times = []
    for _ in range(40):
        start = time.monotonic()
        case.ctl("status")
        times.append(time.monotonic() - start)
    trainer.results()
    yield ("dataloadctl status while all workers are busy", f"{statistics.median(times) * 1000:.0f} ms", "<= 100 ms", f"worst {max(times) * 1000:.0f} ms")


def member_rate(case, members, group, seconds):
    """Of so many null trainers of one group: samples/s of each; rows decoded, and the daemon's CPU microseconds, for each row that one of them got."""
    trainers = [case.trainer() for _ in range(members)]
    for trainer in trainers:
        trainer.attach(group=group)

    def turn(batches):
        for trainer in trainers:
            trainer.send("run", batches=batches, print=0)
        return sum(trainer.results()[-1]["samples"] for trainer in trainers) / members

    def decoded():
        return case.status()["feeds"][0]["decoded"]
    turn(8)
    start, before, cpu, samples = time.monotonic(), decoded(), cpu_seconds(case.daemon.pid), 0
    while time.monotonic() - start < seconds:
        samples += turn(8)
    rate, work = samples / (time.monotonic() - start), (decoded() - before) / samples
    cpu = (cpu_seconds(case.daemon.pid) - cpu) * 1e6 / samples
    for trainer in trainers:
        trainer.close()
        case.trainers.remove(trainer)
    wait_for("the group to end", lambda: not case.status()["clients"])
    return rate, work, cpu


def bench_mirror(case):
    case.serve(sample(), shuffle=256, share="mirror")
    seen = {1: [], 4: []}
    for number in range(OPTIONS.rounds):
        for members in (1, 4) if number % 2 else (4, 1):
            seen[members].append(member_rate(case, members, f"g{number}-{members}", 3))
    ratios = [four[0] / one[0] for four, one in zip(seen[4], seen[1])]
    rate, work = (statistics.median(four[i] for four in seen[4]) for i in (0, 1))
    cpu = [four[2] / one[2] for four, one in zip(seen[4], seen[1])]
    yield ("each of 4 mirror members / a trainer alone, decode limits", f"{statistics.median(ratios):.3f}", ">= 0.95",
           f"median of {len(ratios)} pairs, {min(ratios):.2f}-{max(ratios):.2f}; {rate:.0f}/s over {statistics.median(one[0] for one in seen[1]):.0f}/s, {THREADS} threads")
    yield ("rows decoded for each row that one of the 4 got", f"{work:.3f}", "1", f"{min(four[1] for four in seen[4]):.3f}-{max(four[1] for four in seen[4]):.3f}; alone {statistics.median(one[1] for one in seen[1]):.3f}")
    yield ("the daemon's CPU time for it / for a trainer alone", f"{statistics.median(cpu):.3f}", "1", f"{min(cpu):.2f}-{max(cpu):.2f}")


def spread(values, digits=2):
    return f"median of {len(values)}, {min(values):.{digits}f}-{max(values):.{digits}f}"


def on_core(core):
    return ["taskset", "-c", str(core)]


def handoff_rounds(case, feed, cores, count):
    """What bench_handoff prints, a list a column; cores: the daemon's, the trainer's."""
    case.start_daemon(prefix=on_core(cores[0]))
    try:
        done = subprocess.run([HANDOFF, case.socket, feed, str(case.daemon.pid), str(cores[1]), str(cores[0]), str(OPTIONS.rounds), str(count)],
                              check=True, capture_output=True, text=True)
    finally:
        case.stop_daemon()
    return [[float(word) for word in column] for column in zip(*(line.split() for line in done.stdout.splitlines()))]


def bytes_of_calls(case, feed, batches):
    """Bytes that a trainer reads and writes by system calls for each batch that it takes and gives back."""
    calls, trace = "read,readv,pread64,recvmsg,recvfrom,write,writev,pwrite64,sendmsg,sendto", case.folder / "calls"
    case.start_daemon()
    trainer = case.trainer()
    trainer.attach(feed=feed)
    trainer.run(batches=8, print=0)
    strace = subprocess.Popen(["strace", "-q", "-o", str(trace), "-e", f"trace={calls}", "-p", str(trainer.pid)], stderr=subprocess.DEVNULL)
    wait_for("strace", lambda: "t (tracing stop)" in pathlib.Path(f"/proc/{trainer.pid}/status").read_text() or trace.exists())
    time.sleep(0.5)
    trainer.run(batches=batches, print=0)
    strace.terminate()
    strace.wait()
    case.stop_daemon()
    returned = (line.rsplit(" = ", 1)[-1].split()[0] for line in trace.read_text().splitlines() if " = " in line)
    return sum(int(word) for word in returned if word.isdigit()) / batches


def bench_handoff(case):
    one, many = case.folder / "one.tar", case.folder / "many.tar"
    write_tar(one, ((f"{i:06d}.bin", bytes([i % 256]) * 1024) for i in range(8192)))
    write_tar(many, ((f"{i:06d}.bin", bytes([i % 256]) * 64) for i in range(65536)))
    raw = {"name": "raw", "from": ["bin"], "kind": "bytes"}
    case.config([{"name": "one", "source": str(one), "batch": 1, "fields": [{**raw, "max_bytes": 1024}]},
                 {"name": "many", "source": str(many), "batch": 16, "fields": [{**raw, "max_bytes": 64}]},
                 {"name": "pictures", "source": [str(shard) for shard in sample()], "batch": 256, "transform": "eval", "tail": "wrap", "slots": 3,
                  "fields": [{"name": "image", "from": ["jpg"], "kind": "image"}]}], workers=1)
    for feed, what, aim in (("one", "1 record of 1 KB", "<= 2"), ("many", "16 records of 64 bytes", "")):
        for cores, where in (((0, 0), "on one core"), ((0, 1), "on two cores")):
            trip, trip_cpu, batch, batch_cpu, own, mine, its = handoff_rounds(case, feed, cores, 5000)
            for name, over, under in (("wall", batch, trip), ("processor time", batch_cpu, trip_cpu)):
                ratios = [a / b for a, b in zip(over, under)]
                yield (f"a batch of {what} / round trip of 1 KB over a Unix socket, {where}: {name}", f"{statistics.median(ratios):.2f}", aim,
                       f"{spread(ratios)}; {statistics.median(over):.1f} us over {statistics.median(under):.1f} us")
            if feed == "one" and cores == (0, 0):
                small, trips = statistics.median(own), statistics.median(trip_cpu)
    trip, _, _, _, own, mine, its = handoff_rounds(case, "pictures", (0, 0), 8)
    yield ("the trainer's processor time for a batch of 38.5 MB that it takes and gives back", f"{statistics.median(own):.0f} us", "no copy",
           f"of 1 KB: {small:.0f} us; the same bytes there and back over a socket: {statistics.median(trip):.0f} us, of 1 KB {trips:.0f} us")
    yield ("page faults a batch of 38.5 MB: trainer, daemon", f"{statistics.median(mine) / 8:.1f}, {statistics.median(its) / 8:.1f}", "0, 0",
           f"median of {len(mine)} rounds of 8 batches; in the worst round {max(mine) / 8:.1f}, {max(its) / 8:.1f}")
    if shutil.which("strace"):
        yield ("bytes that the trainer's system calls read and write for a batch of 38.5 MB", f"{bytes_of_calls(case, 'pictures', 8):.0f}", "no copy", "by strace, 8 batches")


def photographs(case):
    """Shards of the photographs, else of our own generator; and the same pictures with a short side of 256."""
    from PIL import Image

    if PHOTOGRAPHS.is_dir():
        pictures = [path.read_bytes() for path in sorted(PHOTOGRAPHS.glob("*.JPEG"))]
    else:
        pictures = [tar.extractfile(member).read() for path in sample()[:1] for tar in [tarfile.open(path)]
                    for member in tar if member.name.endswith(".jpg")][:300]
    small = []
    for data in pictures:
        image, out = Image.open(io.BytesIO(data)).convert("RGB"), io.BytesIO()
        scale = 256 / min(image.size)
        image.resize([round(side * scale) for side in image.size], Image.BICUBIC).save(out, "JPEG", quality=90, subsampling="4:2:0")
        small.append(out.getvalue())
    for name, files in (("plain.tar", pictures), ("small.tar", small)):
        write_tar(case.folder / name, ((f"{i:06d}.jpg", data) for i, data in enumerate(files)))
    return case.folder / "plain.tar", case.folder / "small.tar"


# Feed of `ratios`: what sets it apart from the plain one, the feed it is compared with, aim, in words. None: libjpeg-turbo's full decode.
# With "+": by a daemon that keeps marks; all others have none.
RATIOS = [
    ("train", {}, None, ">= 1.35", "train, uint8 NHWC"),
    ("eval", {"transform": "eval"}, None, ">= 1.05", "eval, uint8 NHWC"),
    ("fast", {"pixels": "fast"}, None, ">= 1.65", "train, uint8 NHWC, pixels: fast"),
    ("fast_eval", {"pixels": "fast", "transform": "eval"}, None, ">= 1.5", "eval, uint8 NHWC, pixels: fast"),
    ("train+", {}, None, "", "train, uint8 NHWC, with marks"),
    ("eval+", {"transform": "eval"}, None, "", "eval, uint8 NHWC, with marks"),
    ("fast+", {"pixels": "fast"}, None, ">= 2.1", "train, uint8 NHWC, pixels: fast, with marks"),
    ("small", {}, "train", ">= 2.5", "train of pictures with a short side of 256, quality 90, 4:2:0"),
    ("u8", {"output": "uint8_nchw"}, "train", "", "train, uint8 NCHW"),
    ("f16", {"output": "float16_nchw"}, "u8", ">= 0.95", "train, float16 NCHW"),
    ("f32", {"output": "float32_nchw"}, "u8", ">= 0.92", "train, float32 NCHW"),
]


def trainer_rate(case, feed, seconds, **pinned):
    """Of one null trainer: samples/s, and processor time of daemon and trainer a sample, us."""
    trainer = case.trainer(**pinned)
    trainer.attach(feed=feed)
    trainer.run(batches=6, print=0)
    start = time.monotonic()
    trainer.run(batches=4, print=0)
    count = max(4, round(4 * seconds / (time.monotonic() - start)))
    start, before = time.monotonic(), cpu_seconds(case.daemon.pid) + cpu_seconds(trainer.pid)
    trainer.send("run", batches=count, print=0)
    samples = trainer.results()[-1]["samples"]
    rate = samples / (time.monotonic() - start)
    cpu = (cpu_seconds(case.daemon.pid) + cpu_seconds(trainer.pid) - before) * 1e6 / samples
    trainer.close()
    case.trainers.remove(trainer)
    wait_for("the trainer to be gone", lambda: not case.status()["clients"])
    return rate, cpu


def loop_rate(core, seconds, *arguments):
    out = subprocess.run([*on_core(core), LOOP, *map(str, arguments[:-1]), "1", str(seconds), str(arguments[-1])], check=True, capture_output=True, text=True)
    return tuple(float(word) for word in out.stdout.split())


def bench_ratios(case):
    plain, small = photographs(case)
    both, marked = Bench(), Bench()
    for other in (both, marked):
        other.setUp()
        case.addCleanup(other.doCleanups)
    feeds = [{"name": name.replace("+", ".marks"), "source": str(small if name == "small" else plain), "batch": 64, "shuffle": 256,
              "fields": [{"name": "image", "from": ["jpg"], "kind": "image"}], **settings} for name, settings, *_ in RATIOS]
    for daemon, workers, marks, prefix in ((case, 1, "off", on_core(0)), (marked, 1, "on", on_core(0)), (both, 2, "off", ())):
        daemon.config(feeds, workers=workers, cache={"path": str(daemon.folder / "cache"), "marks": marks})
        daemon.start_daemon(prefix=prefix)
    recorder = marked.trainer()
    recorder.attach(feed="train")
    recorder.run(epochs=10, print=0)
    recorder.call("detach")
    seen = {name: [] for name in [None, "two cores", *(row[0] for row in RATIOS)]}

    def take(name):
        if name is None:
            seen[name].append(loop_rate(0, 1, "full", plain))
        elif name == "two cores":
            seen[name].append(trainer_rate(both, "train", 1))
        elif "+" in name:
            seen[name].append(trainer_rate(marked, name.replace("+", ".marks"), 1, prefix=on_core(0)))
        else:
            seen[name].append(trainer_rate(case, name, 1, prefix=on_core(0)))
    for number in range(OPTIONS.rounds):
        for name in list(seen) if number % 2 else reversed(seen):  # what comes first on a noisy machine alternates
            take(name)
    marks = sum(path.stat().st_blocks * 512 for path in (marked.folder / "cache").rglob("*.marks"))
    if marks:
        yield ("marks / bytes of the pictures", f"{100 * marks / plain.stat().st_size:.2f} %", "<= 1.5 %", f"{marks} bytes on disk")
    source = f"{len(seen[None])} rounds of 1 s, {'photographs' if PHOTOGRAPHS.is_dir() else 'generated pictures'}"
    for name, base, aim, words in [(row[0], *row[2:]) for row in RATIOS] + [("two cores", "train", ">= 1.9", "train, uint8 NHWC, two cores")]:
        wall = [a[0] / b[0] for a, b in zip(seen[name], seen[base])]
        cpu = [b[1] / a[1] for a, b in zip(seen[name], seen[base])]
        against = next((row[4] for row in RATIOS if row[0] == base), "libjpeg-turbo's full decode from memory")
        yield (f"{words} / {against}", f"{statistics.median(wall):.2f}", aim,
               f"{min(wall):.2f}-{max(wall):.2f}; by processor time {statistics.median(cpu):.2f}, {min(cpu):.2f}-{max(cpu):.2f}; "
               f"{statistics.median(r[0] for r in seen[name]):.0f}/s over {statistics.median(r[0] for r in seen[base]):.0f}/s; {source}")


def run():
    names = OPTIONS.names or ["e2e", "marks", "memory", "attach", "resume", "nodes", "kill", "status", "mirror", "handoff", "ratios"]
    print("| what | measured | aim | details |\n|---|---|---|---|")
    for name in names:
        case = Bench()
        case.setUp()
        try:
            for row in globals()[f"bench_{name}"](case):
                print("| " + " | ".join(row) + " |", flush=True)
        finally:
            case.doCleanups()


run()
