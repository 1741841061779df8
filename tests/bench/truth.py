"""The daemon's figures against the truth: sources, decoders and trainers of known speed.

  tests/bench/truth.py [--combinations N] [--seed S] [--jobs J] [--build DIR] [--verbose]

Each combination is a daemon whose reads and decoding take as long as they are told (DATALOADD_TEST_DELAY), and trainers that
work on each batch for a set time. What status says at the end is compared with what follows from these rates. They sleep, so
that a small machine carries many of them; one that misses is measured anew, at most twice. Prints a table of the largest
errors; exits 1 where a figure is further than 5 % from the truth (where that is more, shares: 0.02, waits: 3 ms, a trainer's time for a batch: 1 ms) or a limit
is not the one planted.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--combinations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--only", type=int, help="this one alone")
    parser.add_argument("--verbose", action="store_true", help="each figure of each combination")
    parser.add_argument("--build", default=str(HERE.parent.parent / "build/release"))
    OPTIONS = parser.parse_args()
    os.environ["DATALOADD_BUILD"] = OPTIONS.build
from harness import *  # noqa: E402

TRAINER = BUILD / "tests/bench/steady_trainer"
RECORD = 1 << 20  # bytes of a picture: what is read at once (16 MiB) is 16 records, few against what the slots hold
RECORDS = 128
SETTLE_MAX = 20  # seconds; what then still runs ahead is not judged by how busy it is
FAR = 1.15  # from there on the limit must be named right; nearer, the words say that it is close
SURE = 0.07  # so far from FAR the words must know on which side they are, with the errors that figures may have
ERROR = 0.05
SHARE_ERROR = 0.02
TIME_ERROR = 0.003  # seconds; a call that waits for nothing may be held up
WORK_ERROR = 0.001  # seconds a batch: a trainer does more than its work
STAGES = {"read": "storage", "decode": "decode", "trainer": "trainer"}


def write_data(folder):
    picture = padded(jpeg(16, 16), RECORD)
    folder.mkdir(parents=True)
    for shard in range(4):
        numbers = range(shard * RECORDS // 4, (shard + 1) * RECORDS // 4)
        write_tar(folder / f"data-{shard}.tar", [(f"{n:06d}.jpg", picture) for n in numbers])


class Combination:
    """What is planted. Rates in samples/s; the reader's is that of one stream, the decoders' of all workers."""

    def __init__(self, rng):
        self.read, self.decode, trainer = self.rates(rng)
        self.workers = rng.choice([1, 2, 3, 4, 6, 8, 12, 16])
        while self.workers / self.decode > 0.25:
            self.workers = rng.choice([1, 2, 3, 4, 6, 8, 12, 16])
        slowest = min(self.read, self.decode, trainer)
        # What is read at once must be little of a window, and a batch little of that, where reading may limit.
        most = slowest / 10 if self.read < 1.5 * slowest else 16
        self.batch = rng.choice([batch for batch in (1, 2, 4, 8, 16) if batch <= most])
        self.burst = rng.choice([1, 1, 1, 2])
        self.slots = max(4, 2 * self.burst + 2, self.burst + -(-max(48, 3 * self.workers) // self.batch))
        self.trainers = [trainer]
        while len(self.trainers) == 1 and self.burst == 1 and rng.random() < 0.4 or self.is_tight():
            others, factors = rng.choice([1, 2]), rng.choice([(1,), (0.5, 1, 2)])
            self.trainers = [trainer] + [trainer * rng.choice(factors) for _ in range(others)]

    @staticmethod
    def rates(rng):
        """One of the three is the slowest, the next one near to it or not."""
        near = rng.random() < 0.25
        rates = [1, 1 + 0.2 * rng.random() if near else 1.15 + 2 * rng.random(), 1.2 + 2 * rng.random()]
        rng.shuffle(rates)
        slowest = 40 * 2 ** rng.random() if rates[0] < 1.5 else 10 * 5 ** rng.random()
        return [slowest * rate for rate in rates]

    def is_tight(self):
        """Several want just what there is: who gets it would be settled after minutes only. Or they want more, and different rates: a
        trainer that works longer on each batch has one ready more often, and is served later."""
        wanted = sum(min(self.read, trainer) for trainer in self.trainers) / self.decode
        return len(self.trainers) > 1 and (0.9 < wanted < 1.15 or (wanted > 1 and len(set(self.trainers)) > 1))

    def delay(self):
        return f"read_rate:{round(self.read * RECORD)};decode:{round(self.workers / self.decode * 1e6)}"

    def settling(self, i):
        """Until what is before the limit has run ahead as far as it can."""
        truth = self.truth(i)
        ahead = min([rate for rate, _ in truth["limits"] if rate > truth["samples_per_s"]], default=0) - truth["samples_per_s"]
        return (self.slots * self.batch + 3 * 16) / ahead if ahead > 0 else float("inf")

    def seconds(self):
        """Until the window has nothing of the start, and at least some steps."""
        streams = range(len(self.trainers))
        rate = min(self.truth(i)["samples_per_s"] for i in streams)
        reads = min(16 * 16 / rate, 24 * (self.burst * self.batch / rate + 0.25))  # as far back as reads are looked at
        return 2 + max(6, 4 * self.burst * self.batch / rate, reads) + min(SETTLE_MAX, max(self.settling(i) for i in streams))

    def settles(self):
        return all(self.settling(i) <= SETTLE_MAX for i in range(len(self.trainers)))

    def level(self):
        """What each of those gets who are short of workers."""
        wants = sorted(min(self.read, trainer) for trainer in self.trainers)
        left = self.decode
        for number, want in enumerate(wants):
            level = left / (len(wants) - number)
            if want >= level:
                return level
            left -= want
        return float("inf")

    def truth(self, i):
        trainer = self.trainers[i]
        got = [min(self.read, t, self.level()) for t in self.trainers]
        rate = got[i]
        decode = max(self.decode - (sum(got) - rate), self.decode / len(got))
        one = self.decode / self.workers
        open_rows = (self.slots - rate / trainer) * self.batch
        workers = min(decode / one, open_rows)
        return {
            "samples_per_s": rate,
            "wait_share": 1 - rate / trainer,
            "hold_share": rate / trainer if self.burst == 1 else None,  # else while it waits for the others too
            "compute_limit": trainer,
            "read_limit": self.read,
            "read.busy": rate / self.read,
            "read.limit": self.read,
            "read_bytes_per_s": rate * RECORD,
            "decode_per_worker": one,
            "decode_limit": workers * one,
            "decode.busy": rate / one,
            "decode.limit": workers * one,
            "limits": sorted([(self.read, "read"), (workers * one, "decode"), (trainer, "trainer")]),
        }

    def __str__(self):
        trainers = ", ".join(f"{rate:.0f}" for rate in self.trainers)
        return (f"read {self.read:.0f}/s, decode {self.workers} x {self.decode / self.workers:.1f} = {self.decode:.0f}/s, "
                f"trainers {trainers}/s, batch {self.batch}, slots {self.slots}" + (f", {self.burst} at a time" if self.burst > 1 else ""))


class Waits:
    """What a trainer has measured itself, of its first batches."""

    def __init__(self, path, count):
        rows = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
        self.waits = sorted(wait for _, wait, _ in rows[:count])

    def quantile(self, share):
        return self.waits[max(0, -int(-share * len(self.waits) // 1) - 1)] / 1e9


class Run(Case):
    """One combination; unittest's fixtures, without its runner."""

    def runTest(self):
        pass

    def measure(self, combination, data):
        self.config({"source": str(data / "*.tar"), "fields": [{"name": "image", "from": "jpg", "kind": "image"}],
                     "transform": [{"center_crop": 16}],
                     "tail": "wrap", "batch": combination.batch, "shuffle": 0}, workers=combination.workers)
        self.start_daemon(env={"DATALOADD_TEST_DELAY": combination.delay()})
        trainers = []
        for i, rate in enumerate(combination.trainers):
            path = self.folder / f"trainer-{i}"
            step = round(combination.batch / rate * 1e6)
            with open(path, "w", encoding="utf-8") as out:
                trainers.append(subprocess.Popen([TRAINER, self.socket, "feed", f"job{i}", str(combination.batch), str(combination.slots),
                                                  str(step), str(combination.burst)], stdin=subprocess.PIPE, stdout=out))
            self.addCleanup(self.end, trainers[-1])
        time.sleep(combination.seconds())
        status = self.status()
        for trainer in trainers:
            self.end(trainer)
        return status

    @staticmethod
    def end(trainer):
        if trainer.poll() is None:
            trainer.stdin.close()
            try:
                trainer.wait(10)
            except subprocess.TimeoutExpired:
                trainer.kill()
                trainer.wait()


def reported(client, name):
    stage, _, field = name.rpartition(".")
    return next(s for s in client["stages"] if s["name"] == stage)[field] if stage else client[name]


def off(name, said, true, batch):
    """The error in parts of what is allowed."""
    allowed = abs(true) * ERROR
    if name == "compute_limit":
        allowed = max(allowed, WORK_ERROR * true * true / batch)
    if name.endswith("share"):
        allowed = max(allowed, SHARE_ERROR)
    elif name.endswith("_s") and name.startswith("wait_"):
        allowed = max(allowed, TIME_ERROR)
    elif name.endswith("busy"):
        allowed = max(allowed, 0.01)
    return abs(said - true) / allowed


def judge(combination, run, status):
    """(name, said, true, error in parts of what is allowed) of each figure, and what is said wrongly."""
    figures, wrong = [], []
    clients = [next(c for c in status["clients"] if c["job"] == f"job{i}") for i in range(len(combination.trainers))]
    shared = len(clients) > 1 and combination.level() < float("inf")  # among like ones: their mean is known
    for i, client in enumerate(clients):
        truth = combination.truth(i)
        waits = Waits(run.folder / f"trainer-{i}", client["batches"])
        truth.update({"wait_p50_s": waits.quantile(0.5), "wait_p99_s": waits.quantile(0.99)})
        limits = truth.pop("limits")
        for name, true in truth.items():
            ahead = name in ("read.busy", "read_bytes_per_s", "decode.busy", "decode.limit", "decode_limit")
            if true is not None and (combination.settles() or not ahead):
                said = reported(client, name)
                if shared and not name.startswith("wait_p"):
                    said = sum(reported(other, name) for other in clients) / len(clients)
                figures.append((name, said, true, off(name, said, true, combination.batch)))
        wrong += [f"job{i}: {text}" for text in misnamed(limits, client)]
    return figures, wrong


def misnamed(limits, client):
    (lowest, first), (next_one, second) = limits[:2]
    far = next_one / lowest >= FAR
    names = [STAGES[first]] if far else [STAGES[first], STAGES[second]]
    if client["limiting_stage"] not in names:
        yield f"{client['limiting_stage']} instead of {' or '.join(names)} ({next_one / lowest:.2f}): {client['verdict']}"
    told = "close to" in client["verdict"]
    if told != (not far) and abs(next_one / lowest - FAR) > SURE:
        yield f"the next limit is {next_one / lowest:.2f} times as high: {client['verdict']}"
    causes = sorted(client["causes"], key=lambda cause: -cause["wait_s"])
    if far and first != "trainer" and client["wait_share"] > 0.1 and (not causes or causes[0]["name"] != STAGES[first]):
        yield f"waits for {[c['name'] for c in causes]} instead of {STAGES[first]}"
    if far and first == "trainer" and client["ready_share"] < 0.9:
        yield f"ready_share {client['ready_share']:.2f} though the trainer limits"


def attempt(combination, data):
    run = Run()
    run.setUp()
    try:
        return judge(combination, run, run.measure(combination, data))
    finally:
        run.doCleanups()


def prove(combination, data, tries=3):
    for left in reversed(range(tries)):
        figures, wrong = attempt(combination, data)
        if not left or (not wrong and all(error <= 1 for *_, error in figures)):
            return figures, wrong, tries - left


def report(number, combination, figures, wrong, tries, verbose):
    missed = [figure for figure in figures if figure[3] > 1]
    if not (verbose or missed or wrong):
        return False
    print(f"{number}: {combination}{'' if tries == 1 else f' (measured {tries} times)'}")
    for name, said, true, error in figures if verbose else missed:
        print(f"    {'MISS' if error > 1 else '    '} {name:18} {said:12.4f}  true {true:12.4f}")
    for text in wrong:
        print(f"    WRONG {text}")
    sys.stdout.flush()
    return bool(missed or wrong)


def hurry():
    """Others on the machine must not keep them from their rates."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        print("without the right to raise the priority: the machine had better be quiet")


def main_truth():
    hurry()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dl-truth-"))
    write_data(folder / "data")
    combinations = [Combination(random.Random(f"{OPTIONS.seed} {number}")) for number in range(OPTIONS.combinations)]
    chosen = list(enumerate(combinations)) if OPTIONS.only is None else [(OPTIONS.only, combinations[OPTIONS.only])]
    largest, bad, again = {}, 0, 0
    with concurrent.futures.ThreadPoolExecutor(OPTIONS.jobs) as pool:
        jobs = [(number, it, pool.submit(prove, it, folder / "data")) for number, it in chosen]
        for number, combination, job in jobs:
            figures, wrong, tries = job.result()
            bad += report(number, combination, figures, wrong, tries, OPTIONS.verbose)
            again += tries > 1
            for name, said, true, error in figures:
                largest.setdefault(name, []).append((error, said, true))
    shutil.rmtree(folder)
    print(f"\n| figure | values | largest error, of what is allowed | said | true |\n|---|---|---|---|---|")
    for name, errors in largest.items():
        error, said, true = max(errors)
        print(f"| {name} | {len(errors)} | {error:.2f} | {said:.4g} | {true:.4g} |")
    print(f"\n{len(chosen)} combinations, {again} of them measured more than once, {bad} wrong")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main_truth())
