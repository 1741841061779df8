"""What figures cost: two builds, or one with and without somebody who looks, in turns.

  tests/bench/cost.py BUILD_A BUILD_B [--rounds N] [--seconds S] [--watch COMMAND] [--every S] [NAME ...]

A daemon of each build serves `dataloadctl bench` by turns, A first in one round and B in the next. Prints a Markdown table: samples
a second and the daemon's processor time a sample of B over those of A, the median of all rounds and its spread (the middle half).
--watch: a command that runs each second beside B alone, {ctl} and {socket} replaced, for instance
"{ctl} --socket {socket} status --json"; BUILD_A and BUILD_B may be the same then. NAME: pictures, records (tiny ones, batch 64), default both.
"""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("builds", nargs=2, type=lambda path: pathlib.Path(path).resolve())
parser.add_argument("names", nargs="*", default=["pictures", "records"])
parser.add_argument("--rounds", type=int, default=15)
parser.add_argument("--seconds", type=float, default=2)
parser.add_argument("--watch")
parser.add_argument("--every", type=float, default=1)
OPTIONS = parser.parse_args()
os.environ["DATALOADD_BUILD"] = str(OPTIONS.builds[1])
from harness import wait_for, write_shards, write_tar  # noqa: E402

FEEDS = {
    "pictures": {"transform": "train", "batch": 32, "shuffle": 256},
    "records": {"fields": [{"name": "text", "from": "txt", "kind": "bytes", "max_bytes": 100}, {"name": "label", "from": "cls", "kind": "int"}],
                "batch": 64, "shuffle": 256},
}
TICK = os.sysconf("SC_CLK_TCK")


def write_data(folder):
    write_shards(folder / "pictures", shards=4, records=100, width=320, height=240)
    (folder / "records").mkdir()
    for shard in range(4):
        numbers = range(shard * 5000, (shard + 1) * 5000)
        write_tar(folder / f"records/{shard}.tar", [member for n in numbers for member in ((f"{n}.txt", b"x" * 100), (f"{n}.cls", b"1"))])


class Daemon:
    def __init__(self, build, folder, name):
        self.build, self.socket = build, folder / f"{name}.sock"
        feeds = [{"name": feed, "source": str(folder / feed / "*.tar"), **FEEDS[feed]} for feed in OPTIONS.names]
        config = folder / f"{name}.yaml"
        config.write_text(json.dumps({"cache": {"path": str(folder / f"cache-{name}"), "bytes": "64MiB"}, "feeds": feeds}))
        self.process = subprocess.Popen([build / "daemon/dataloadd", "--user", "--socket", self.socket, "--config", config],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("the daemon", lambda: subprocess.run(self.ctl("ping"), capture_output=True).returncode == 0)

    def ctl(self, *arguments):
        return [str(self.build / "client/dataloadctl"), "--socket", str(self.socket), *map(str, arguments)]

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def measure(self, feed):
        before = self.cpu()
        said = json.loads(subprocess.run(self.ctl("bench", feed, "--seconds", OPTIONS.seconds, "--json"), capture_output=True, check=True).stdout)
        return said["samples_per_s"], (self.cpu() - before) / said["samples"]

    def end(self):
        self.process.terminate()
        self.process.wait(20)


class Watcher:
    """Looks at a daemon while it is measured."""

    def __init__(self, daemon):
        words = {"ctl": str(daemon.build / "client/dataloadctl"), "socket": str(daemon.socket)}
        self.command = [word.format(**words) for word in shlex.split(OPTIONS.watch)] if OPTIONS.watch else None
        self.over = threading.Event()

    def look(self):
        while not self.over.wait(OPTIONS.every):
            subprocess.run(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    def __enter__(self):
        self.thread = threading.Thread(target=self.look)
        if self.command:
            self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        if self.command:
            self.thread.join()


def one_round(daemons, feed, number):
    order = (0, 1) if number % 2 == 0 else (1, 0)
    result = {}
    for which in order:
        if which:
            with Watcher(daemons[which]):
                result[which] = daemons[which].measure(feed)
        else:
            result[which] = daemons[which].measure(feed)
    (rate_a, cpu_a), (rate_b, cpu_b) = result[0], result[1]
    return rate_b / rate_a, cpu_b / cpu_a


def text(ratios):
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{100 * (middle - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f})"


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dl-cost-"))
    write_data(folder)
    daemons = [Daemon(build, folder, name) for build, name in zip(OPTIONS.builds, "ab")]
    print("| feed | samples/s, B over A | processor time a sample, B over A | rounds |\n|---|---|---|---|")
    for feed in OPTIONS.names:
        for daemon in daemons:
            daemon.measure(feed)  # into the page cache
        ratios = [one_round(daemons, feed, number) for number in range(OPTIONS.rounds)]
        print(f"| {feed} | {text([rate for rate, _ in ratios])} | {text([cpu for _, cpu in ratios])} | {OPTIONS.rounds} |", flush=True)
    for daemon in daemons:
        daemon.end()
    shutil.rmtree(folder)


main()
