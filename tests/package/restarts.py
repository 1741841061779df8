"""Runs in the system that boot.sh boots, as root: the service is restarted and killed again and again under four trainers,
who see what they would have seen without, and nobody who connects meanwhile is refused; at last all are killed at once, and
other trainers go on by resume=last.

    restarts.py USER RESTARTS       of USER are the trainers: restarts.py --train RANK JOB RESUME FILE BATCHES (0: until it is ended)
"""
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

WORLD = 4
SOCKET = "/run/dataloadd/control.sock"
MORE = 10  # batches by resume=last
SLOTS = 4  # of the feed: so many may be taken and not released
PAUSE = 1.3  # s; the socket unit gives up where the service has to be started 5 times in 10 s


def train(rank, job, resume, path, batches):
    import dataload

    taken = 0
    with open(path, "w", encoding="ascii") as file:
        loader = dataload.Loader("sample", batch_size=8, rank=rank, world=WORLD, job=job, resume=resume or None, as_="numpy",
                                 names={"index": "index"})
        while not batches or taken < batches:
            for batch in loader:
                picture = hashlib.sha256(batch["image"].tobytes()).hexdigest()[:16]
                print(batch["index"].tolist(), batch["label"].tolist(), picture, file=file, flush=True)
                taken += 1
                time.sleep(0.005)
                if taken == batches:
                    break


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return [line for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


class Probe:
    def __init__(self):
        self.count, self.refused, self.ended = 0, [], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                try:
                    peer.connect(SOCKET)
                    self.count += 1
                except OSError as error:
                    self.refused.append(str(error))
            time.sleep(0.005)

    def end(self):
        self.ended = True
        self.thread.join()


def start(user, job, batches, resume=""):
    """Four trainers and their files."""
    paths = [f"/tmp/{job}{resume}-{rank}" for rank in range(WORLD)]
    command = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "python3", __file__, "--train"]
    return paths, [subprocess.Popen([*command, str(rank), job, resume, path, str(count)])
                   for rank, (path, count) in enumerate(zip(paths, batches))]


def finish(user, job, batches, resume=""):
    """What four trainers see in so many batches."""
    paths, trainers = start(user, job, batches, resume)
    codes = [trainer.wait(120) for trainer in trainers]
    if any(codes):
        sys.exit(f"FAILED: trainers of job {job} have ended with {codes}")
    return [read(path) for path in paths]


def show(what):
    return subprocess.run(["systemctl", "show", "--value", "-p", what, "dataloadd.service"], capture_output=True, text=True,
                          check=True).stdout.strip()


def wait_for(what, condition):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"FAILED: waited 30 s for {what}")
        time.sleep(0.02)


def main(user, restarts):
    paths, trainers = start(user, "restarts", [0] * WORLD)
    wait_for("the first batches", lambda: all(read(path) for path in paths))
    probe, kept = Probe(), []
    for turn in range(restarts):
        before = [len(read(path)) for path in paths]
        if turn % 10 == 0:  # as many starts within a minute as this would look like a service that cannot run
            subprocess.run(["systemctl", "reset-failed", "dataloadd.service"], check=True)
        pid = show("MainPID")
        how = ["restart", "dataloadd"] if turn % 2 else ["kill", "-s", "KILL", "dataloadd"]
        subprocess.run(["systemctl", *how], check=True)
        wait_for("another daemon", lambda: show("MainPID") not in ("0", pid))
        wait_for("all trainers to go on", lambda: all(len(read(path)) > count for path, count in zip(paths, before)))
        kept.append(int(show("NFileDescriptorStore")))
        time.sleep(PAUSE)
    probe.end()
    for trainer in trainers:
        if trainer.poll() is not None:
            sys.exit(f"FAILED: a trainer has ended with {trainer.returncode}")
    subprocess.run(["systemctl", "kill", "-s", "KILL", "dataloadd"], check=True)
    for trainer in trainers:
        trainer.kill()
        trainer.wait()
    seen = [read(path) for path in paths]
    last = finish(user, "restarts", [MORE] * WORLD, "last")
    want = finish(user, "unbroken", [len(lines) + MORE for lines in seen])
    if [lines[:len(before)] for lines, before in zip(want, seen)] != seen:
        sys.exit("FAILED: not what an unbroken run sees")
    released = range(min(map(len, seen)) - SLOTS, min(map(len, seen)) + 1)
    if not any(all(lines[at:at + MORE] == after for lines, after in zip(want, last)) for at in released):
        sys.exit("FAILED: resume=last does not go on after what all had released")
    if probe.refused:
        sys.exit(f"FAILED: {len(probe.refused)} connections refused: {probe.refused[0]}")
    if min(kept) < 1:
        sys.exit(f"FAILED: descriptors kept over the restarts: {kept}")
    print(f"{restarts} restarts under {WORLD} trainers: {sum(map(len, seen))} batches as in an unbroken run, "
          f"none of {probe.count} connections refused; resume=last goes on")


if sys.argv[1] == "--train":
    os.nice(5)
    train(int(sys.argv[2]), *sys.argv[3:6], int(sys.argv[6]))
else:
    main(sys.argv[1], int(sys.argv[2]))
