"""Other loaders and ours on the same JPEGs, crops of one distribution and the same cores, in one run.

  build/peers/bin/python tests/bench/peers/peers.py FOLDER [options] [PEER ...]     prints a Markdown table

FOLDER has JPEG files. PEER is MODULE or MODULE:SETTING of the peer_*.py beside this (their SETTINGS), or
dataloadd:{JSON}, feed settings of ours; default: each at its best setting. Each loader is a group of processes that
is stopped when it is not its turn, so what it has prefetched counts when it was made. Build first: venv.sh, and
`cmake --preset release && ninja -C build/release`.
"""
import argparse
import json
import os
import pathlib
import re
import select
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
BEST = ["dataloadd:exact", "torchvision:pillow", "torchvision:pillow-simd", "torchvision:io", "ffcv:same", "dali:roi", "spdl:batch"]
PATIENCE = 200  # seconds for a start, a turn
TICKS = os.sysconf("SC_CLK_TCK")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", default=",".join(map(str, range(min(2, os.cpu_count() or 1)))), help="e.g. 0,1: as many workers each; default the first two")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4, help="of each loader in each round, about")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--transform", choices=["train", "eval"], default="train")
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("folder")
    parser.add_argument("peers", nargs="*")
    return parser.parse_args()


class Failed(Exception):
    pass


class Peer:
    """A loader's process; stopped between its turns."""

    def __init__(self, what, args, cores):
        module, _, setting = what.partition(":")
        feed = setting if setting.startswith("{") else "{}"
        simd = str(ROOT / "build/peers-simd") if setting.endswith("simd") else ""
        command = [sys.executable, "-B", HERE / "peer_process.py", module, setting or "", args.folder, str(args.batch), str(len(cores)), args.transform, feed]
        self.log = open(ROOT / "build" / f"peer-{re.sub('[^a-z]+', '-', what)}.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=ROOT,
                                        start_new_session=True, env=dict(os.environ, DATALOADD_BUILD=args.build, DATALOADD_SOURCE=str(ROOT), PYTHONPATH=simd))
        self.rates, self.work = [], []
        try:
            self.facts = json.loads(self.line())
            self.batches = 8
            took = self.take()  # fills what it prefetches, and warms up
            self.batches = max(len(cores), round(args.seconds * self.batches / took / len(cores)) * len(cores))
            self.stop()
        except Failed:
            self.end()
            raise

    def line(self):
        text = self.process.stdout.readline() if select.select([self.process.stdout], [], [], PATIENCE)[0] else ""
        if not text:
            time.sleep(0.2)
            if self.process.poll() is None:
                raise Failed(f"no answer within {PATIENCE} s")
            self.log.seek(0)
            raise Failed(next((line for line in self.log.read().splitlines()[::-1] if line.strip()), f"ended with {self.process.returncode}"))
        return text

    def take(self):
        self.process.stdin.write(f"{self.batches}\n")
        self.process.stdin.flush()
        return float(self.line())

    def stop(self, number=signal.SIGSTOP):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def cpu(self):
        """Seconds that its processes have used."""
        used = 0
        for entry in pathlib.Path("/proc").iterdir():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[2]) == self.process.pid:
                used += int(fields[11]) + int(fields[12])
        return used / TICKS

    def turn(self):
        before = self.cpu()
        self.stop(signal.SIGCONT)
        try:
            took = self.take()
        finally:
            self.stop()
        samples = self.batches * self.facts["rows"]
        self.rates.append(samples / took)
        self.work.append((self.cpu() - before) / samples * 1e6)

    def end(self):
        self.stop(signal.SIGCONT)
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        self.stop(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def start(args, cores, peers, missing):
    for what in args.peers or BEST:
        try:
            peers.append(Peer(what, args, cores))
        except (Failed, OSError) as error:
            missing[what] = str(error)
        print(f"{what}: {missing.get(what, 'ready')}", file=sys.stderr, flush=True)


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def table(peers, missing):
    ours = peers[0]
    print("| loader | img/s | CPU us/img | ours over it, time | ours over it, CPU | output | filter; of noise left |\n|---|---|---|---|---|---|---|")
    for peer in peers:
        facts = peer.facts
        time_ratio = spread([one / other for one, other in zip(ours.rates, peer.rates)])
        cpu_ratio = spread([other / one for one, other in zip(ours.work, peer.work)])
        print(f"| {facts['name']}: {facts['version']} | {statistics.median(peer.rates):.0f} ({min(peer.rates):.0f}-{max(peer.rates):.0f}) "
              f"| {statistics.median(peer.work):.0f} | {time_ratio} | {cpu_ratio} | {facts['output']} | {facts['filter']}; {facts['left']} |")
    for what, reason in missing.items():
        print(f"| {what} | not measured: {reason} | | | | | |")


def main():
    args = options()
    cores = [int(core) for core in args.cores.split(",")]
    os.sched_setaffinity(0, cores)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without ending them
    began = time.monotonic()
    peers, missing = [], {}
    try:
        start(args, cores, peers, missing)
        if not peers:
            sys.exit(f"nothing to measure: {missing}")
        for number in range(args.rounds):
            for peer in peers if number % 2 else peers[::-1]:
                peer.turn()
        table(peers, missing)
    finally:
        for peer in peers:
            peer.end()
    print(f"\n{args.transform}, batch {args.batch}, {len(cores)} worker(s) on core(s) {args.cores}, {args.rounds} rounds, {time.monotonic() - began:.0f} s in all; "
          f"{' '.join(sys.argv)}")


main()
