"""The worked example: decoding at 90 samples/s a worker, a trainer that could take 1,200/s, and what the daemon says of it.

  tests/bench/worked_example.py [--build DIR] [--seconds S]     prints each step with the daemon's own words

With 4 workers input gives 360/s, and the trainer is busy for 30 % of its time; with 14 it gives what the trainer takes; with 24
nothing more. Then `workers: auto`: the trainer is slow first and fast after, and the daemon goes from as many workers as
the slow one needs to as many as the fast one does. Both stages sleep, so that two CPUs are enough. Exits 1 where a figure is
more than 5 % from what it should be, or the number of workers is another one.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(HERE.parent.parent / "build/release"))
    parser.add_argument("--seconds", type=float, default=8, help="of each step, at least")
    OPTIONS = parser.parse_args()
    os.environ["DATALOADD_BUILD"] = OPTIONS.build
from harness import *  # noqa: E402

TRAINER = BUILD / "tests/bench/steady_trainer"
EACH, SLOW, FAST = 90, 180, 1200  # samples/s: of a worker, of the trainer
BATCH, SLOTS, CEILING = 10, 16, 24
FOLLOWS = 3  # seconds in which a step in demand is followed


def step_us(rate):
    return str(1_000_000 * BATCH // rate)


class Example(Case):
    """A daemon with so many workers, and trainers of known speed at it."""

    def runTest(self):
        pass

    def serve(self, **workers):
        """Rows of small pictures: the time that decoding takes is that of the delay."""
        write_shards(self.folder / "data", shards=4, records=500, width=16, height=16)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "slots": SLOTS, "shuffle": 64, "transform": "eval"}, **workers)
        self.start_daemon(env={"DATALOADD_TEST_DELAY": f"decode:{1_000_000 // EACH}"})

    def train(self, rate):
        """Starts a trainer that could take so many samples/s."""
        process = subprocess.Popen([str(TRAINER), str(self.socket), "feed", "example", str(BATCH), str(SLOTS), step_us(rate), "1"],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        return process

    def changes(self):
        """Lines of the log about the number of workers: (moment, words)."""
        lines = [line.split(" notice: ", 1) for line in (self.folder / "daemon.log").read_text().splitlines() if " notice: workers " in line]
        return [(moment, words) for moment, words in lines]


def seconds_of(moment):
    """2026-01-02T03:04:05.678Z as seconds of the day."""
    hours, minutes, seconds = moment.rstrip("Z").split("T")[1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def words_of(example):
    """What the daemon says of its one client: rate, share of time that the trainer was busy, and the verdict."""
    status = example.status()
    client = status["clients"][0]
    return client["samples_per_s"], 1 - client["wait_share"], client["verdict"] or "-", status


def fixed(number):
    example = Example()
    example.setUp()
    try:
        example.serve(workers=number)
        example.train(FAST)
        time.sleep(OPTIONS.seconds)
        rate, busy, verdict, _ = words_of(example)
    finally:
        example.doCleanups()
    want = min(number * EACH, FAST)
    print(f"workers: {number}\n    {rate:,.0f} samples/s, the trainer is busy for {100 * busy:.0f} % of its time\n    {verdict}", flush=True)
    return abs(rate - want) <= 0.05 * want and abs(busy - want / FAST) <= 0.05


def followed(example, since, want):
    """Seconds from then until the last change of the number of workers, and whether it is the one wanted."""
    changes = [(seconds_of(moment) - since, words) for moment, words in example.changes() if seconds_of(moment) >= since]
    for after, words in changes:
        print(f"    after {after:.1f} s: {words}", flush=True)
    number = example.status()["workers"]
    return number == want and bool(changes) and changes[-1][0] <= FOLLOWS


def now():
    """Seconds of the day, as the log has them."""
    return time.time() % 86400


def settles():
    """One trainer, whose speed changes."""
    example = Example()
    example.setUp()
    try:
        example.serve(workers_max=CEILING)
        print(f"workers: auto, workers_max: {CEILING}")
        good, trainer = True, None
        for rate in (SLOW, FAST, SLOW):
            begin = now()
            if trainer:
                trainer.stdin.write(step_us(rate) + "\n")
                trainer.stdin.flush()
            trainer = trainer or example.train(rate)
            time.sleep(OPTIONS.seconds)
            print(f"  the trainer could take {rate:,}/s", flush=True)
            good &= followed(example, begin, -(-rate // EACH))
            got, busy, verdict, status = words_of(example)
            print(f"    {got:,.0f} samples/s with {status['workers']} workers, the trainer is busy for {100 * busy:.0f} % of its time\n"
                  f"    {status['workers_why']}\n    {verdict}", flush=True)
    finally:
        example.doCleanups()
    return good


if __name__ == "__main__":
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # sleeps end when they should
    except PermissionError:
        print("without the right to raise the priority: the machine had better be quiet")
    results = [fixed(number) for number in (4, 13, 14, CEILING)] + [settles()]
    sys.exit(0 if all(results) else 1)
