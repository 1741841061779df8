"""A daemon, trainers and data sets for the end-to-end tests.

Each test is a unittest script; harness.main() runs it. Nothing outlives a test: processes are
killed and folders removed by cleanups.
"""
import io
import json
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ.get("DATALOADD_BUILD", "build/release")).resolve()
SOURCE = pathlib.Path(os.environ.get("DATALOADD_SOURCE", ".")).resolve()
SHARED = pathlib.Path(os.environ.get("DATALOADD_SHARED", SOURCE.parent / "shared"))
SANITIZE = os.environ.get("DATALOADD_SANITIZE", "")
# DATALOADD_TEST_DEVICE=cuda: batches lie on a GPU of the stand-in, handed on by DATALOADD_TEST_HANDOFF (auto, vmm, ipc).
CUDA = os.environ.get("DATALOADD_TEST_DEVICE") == "cuda"
# DATALOADD_TEST_APART=1: each trainer has a PID namespace of its own, so that its pid is not the one that the test knows.
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if os.environ.get("DATALOADD_TEST_APART") == "1" else []
SLOTS_MIN = 3 if CUDA else 2
HANDOFF = os.environ.get("DATALOADD_TEST_HANDOFF", "auto")
PICTURES = os.environ.get("DATALOADD_TEST_PICTURES")
LONG = os.environ.get("DATALOADD_LONG") == "1"
SLACK = 10 if SANITIZE else 4  # tests show that things end, not how fast: the machine may be busy
DAEMON = BUILD / "daemon/dataloadd"
CTL = BUILD / "client/dataloadctl"
PACK = BUILD / "daemon/dataload-pack"
HELD_STAYS = not (CUDA and HANDOFF == "ipc")  # memory by a handle goes with the daemon
# libcuda.so.1 of tests/support/cuda_standin, with GPUs of this test's own; DATALOADD_TEST_DRIVER=any: whichever is found
ANY_DRIVER = os.environ.get("DATALOADD_TEST_DRIVER") == "any"
STANDIN = {} if ANY_DRIVER else {"LD_LIBRARY_PATH": str(BUILD / "cuda_standin"), "STANDIN_DOMAIN": str(os.getpid())}
TESTCLIENT = BUILD / "tests/e2e/testclient"


def wait_for(what, condition, seconds=60.0, every=0.01):
    """The first true value of condition(), or a failure that names what was waited for."""
    seconds = max(seconds, min(seconds * SLACK, 120))
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(every)


def wait_for_rest(what, figure):
    """The value of figure() once it has not changed for a while; None is no value yet."""
    last, since = None, time.monotonic()

    def rests():
        nonlocal last, since
        value = figure()
        if value is None or value != last:
            last, since = value, time.monotonic()
        return time.monotonic() - since > 0.1 * SLACK

    wait_for(what, rests)
    return last


def jpeg(width=64, height=48, seed=0, quality=85, mode="RGB", **options):
    """A small photo-like JPEG; where there is no Pillow, one that was made before (DATALOADD_TEST_PICTURES)."""
    made = PICTURES and pathlib.Path(PICTURES) / f"{width}x{height}-{seed}-{quality}-{mode}.jpg"
    if made and not options and made.exists():
        return made.read_bytes()
    from PIL import Image

    rng = random.Random(seed)
    small = Image.new("RGB", (8, 8))
    small.putdata([tuple(rng.randrange(256) for _ in range(3)) for _ in range(64)])
    out = io.BytesIO()
    small.resize((width, height), Image.BICUBIC).convert(mode).save(out, "JPEG", quality=quality, **options)
    return out.getvalue()


def padded(picture, size):
    """The same JPEG with comments, so that it has just so many bytes."""
    lack = size - len(picture)
    comments = b""
    while lack > 0:
        part = lack if lack <= 60000 else min(60000, lack - 4)
        comments += b"\xff\xfe" + (part - 2).to_bytes(2, "big") + bytes(part - 4)
        lack -= part
    return picture[:2] + comments + picture[2:]


def write_tar(path, members, fmt=tarfile.USTAR_FORMAT):
    """members: (name, bytes) in order."""
    with tarfile.open(path, "w", format=fmt) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def write_shards(folder, shards=4, records=25, classes=10, width=64, height=48, pictures=16):
    """Shards of small pictures; label of record i (over all shards) is i % classes. Returns the list of labels."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    images = [jpeg(width, height, seed) for seed in range(pictures)]
    labels = []
    for shard in range(shards):
        members = []
        for record in range(records):
            number = shard * records + record
            labels.append(number % classes)
            members.append((f"{number:06d}.jpg", images[number % pictures]))
            members.append((f"{number:06d}.cls", str(labels[-1]).encode()))
        write_tar(folder / f"data-{shard:05d}.tar", members)
    return labels


def with_device(env, standin=CUDA):
    """Environment of a daemon or trainer whose driver is the stand-in."""
    found = dict(os.environ, **(env or {}))
    if standin and not ANY_DRIVER:
        found.update(STANDIN)
        found.setdefault("STANDIN_DOMAIN", str(os.getpid()))
        found.setdefault("STANDIN_MEMORY_MB", "8192")
        found.setdefault("STANDIN_PEER_DEATH", "keep")  # a trainer may be reading when its daemon is killed
    return found


class Trainer:
    """One trainer process (tests/e2e/testclient.c)."""

    def __init__(self, socket, env=None, preexec_fn=None, prefix=(), standin=CUDA):
        environment = dict(with_device(env, standin), DATALOADD_SOCKET=str(socket))
        self.process = subprocess.Popen([*APART, *map(str, prefix), str(TESTCLIENT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment, preexec_fn=preexec_fn)
        self.buffer = b""

    @property
    def pid(self):
        return self.process.pid

    def send(self, verb, **options):
        words = [verb] + [f"{key}={value}" for key, value in options.items() if value is not None]
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def take(self):
        """A reply that has come, or None. Reads once when there is none: to be called when there is something to read."""
        if b"\n" not in self.buffer:
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise AssertionError(f"trainer {self.pid} ended by itself: {self.process.wait()}")
            self.buffer += data
        line, end, rest = self.buffer.partition(b"\n")
        if not end:
            return None
        self.buffer = rest
        return json.loads(line)

    def receive(self, seconds=None):
        while True:
            if b"\n" not in self.buffer and not select.select([self.process.stdout], [], [], seconds)[0]:
                raise AssertionError(f"trainer {self.pid} has not answered within {seconds} s")
            reply = self.take()
            if reply is not None:
                return reply

    def call(self, verb, **options):
        self.send(verb, **options)
        return self.receive()

    def attach(self, feed="feed", expect=0, **options):
        reply = self.call("attach", feed=feed, **options)
        if reply["rc"] != expect:
            raise AssertionError(f"attach: {reply}")
        return reply

    def next(self, expect=0, **options):
        reply = self.call("next", **options)
        if reply["rc"] != expect:
            raise AssertionError(f"next: {reply}")
        return reply

    def results(self):
        """Lines of a run up to and with its summary."""
        lines = []
        while True:
            lines.append(self.receive())
            if "done" in lines[-1]:
                return lines

    def run(self, **options):
        """Batches of a run; a failed run is an error."""
        self.send("run", **options)
        lines = self.results()
        if lines[-1]["rc"]:
            raise AssertionError(f"run: {lines[-1]}")
        return lines[:-1]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Case(unittest.TestCase):
    """A test with a folder, a configuration, a daemon and trainers."""

    standin = CUDA  # their driver

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dl-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.socket = self.folder / "control.sock"
        self.daemon = None
        self.daemons = []
        self.trainers = []
        self.addCleanup(self.stop_all)

    def stop_all(self):
        for trainer in self.trainers:
            trainer.close()
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGCONT)
            self.stop_daemon()
        for daemon in self.daemons:  # of a part that failed
            daemon.kill()
            daemon.wait()

    def config(self, feeds, **top):
        """Writes the configuration: feeds is a list of dicts, or one dict with name feed."""
        feeds = [feeds] if isinstance(feeds, dict) else feeds
        top.setdefault("cache", {"path": str(self.folder / "cache"), "bytes": "64MiB"})
        handoff = {"handoff": HANDOFF} if CUDA else {}
        top["feeds"] = [{"name": "feed", **handoff, **feed} for feed in feeds]
        path = self.folder / "dataloadd.yaml"
        path.write_text(json.dumps(top, indent=1))  # JSON is YAML
        return path

    def start_daemon(self, env=None, preexec_fn=None, wait=True, arguments=(), prefix=(), pass_fds=()):
        log = open(self.folder / "daemon.log", "a", encoding="utf-8")
        self.daemon = subprocess.Popen(
            [*map(str, prefix), str(DAEMON), "--user", "--socket", str(self.socket), "--config", str(self.folder / "dataloadd.yaml"), *arguments],
            stdin=subprocess.DEVNULL, stderr=log, stdout=log, env=with_device(env, self.standin), preexec_fn=preexec_fn, pass_fds=pass_fds)
        log.close()
        self.daemons.append(self.daemon)
        if wait:
            wait_for("the daemon", self.answers)
        return self.daemon

    def answers(self):
        if self.daemon.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.daemon.returncode}: {self.log()}")
        return self.ctl("ping", check=False).returncode == 0

    def stop_daemon(self, number=signal.SIGTERM, seconds=20):
        """Ends the daemon; a sanitizer's report or a crash fails the test."""
        self.daemon.send_signal(number)
        code = self.daemon.wait(min(seconds * SLACK, 120))
        if number == signal.SIGTERM and code != 0:
            raise AssertionError(f"the daemon ended with {code}: {self.log()}")

    def log(self):
        """Its end, and before it what a sanitizer has found, however long ago: test.sh gives such a test no second chance."""
        text = (self.folder / "daemon.log").read_text(encoding="utf-8", errors="replace")
        found = [line + "\n" for line in text[:-6000].splitlines() if "Sanitizer" in line or "runtime error:" in line]
        return "".join(found) + text[-6000:]

    def trainer(self, **options):
        trainer = Trainer(self.socket, standin=self.standin, **options)
        self.trainers.append(trainer)
        return trainer

    def ctl(self, *arguments, check=True):
        done = subprocess.run([str(CTL), "--socket", str(self.socket), *map(str, arguments)], capture_output=True, text=True, timeout=60 * SLACK)
        if check and done.returncode:
            raise AssertionError(f"dataloadctl {arguments}: {done.returncode} {done.stderr}")
        return done

    def status(self):
        return json.loads(self.ctl("status", "--json").stdout)

    def client_status(self, pid):
        return next((c for c in self.status()["clients"] if c["pid"] == pid), None)

    def daemon_fds(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))

    def daemon_threads(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/task"))

    def daemon_memory(self):
        """RssAnon + RssShmem in bytes."""
        text = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text(encoding="utf-8")
        lines = dict(line.split(":", 1) for line in text.splitlines())
        return sum(int(lines[key].split()[0]) * 1024 for key in ("RssAnon", "RssShmem"))

    def daemon_bytes_read(self):
        """By read calls, once all slots are filled and the readers wait. It looks at the machine each second, too, so that its read
        calls never rest."""
        def count():
            status = self.status()
            filled = all(client["ready"] == client["slots"] for client in status["clients"])
            return sum(feed["read_bytes"] for feed in status["feeds"]) if filled else None

        wait_for_rest("filled slots and readers that wait", count)
        text = pathlib.Path(f"/proc/{self.daemon.pid}/io").read_text(encoding="utf-8")
        return int(text.split("rchar:")[1].split()[0])


def become(uid, groups=(), files=None):
    """What a child does to be another user (preexec_fn), one that may open so many files."""
    def apply():
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        os.setgroups(groups)
        os.setgid(uid)
        os.setuid(uid)
    return apply


def need_root():
    if os.geteuid() != 0:
        skip("needs root to become other users")


def need_namespaces():
    """Skips where no mount namespace can be made: no root, or a container that does not allow it."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        skip("no mount namespace can be made here")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def main():
    if APART and subprocess.run([*APART, "true"], capture_output=True).returncode:
        skip("no PID namespace can be made here")
    unittest.main(verbosity=2)
