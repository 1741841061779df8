"""A daemon of one's own: one for each job, whoever starts, is killed or comes late; and none left behind."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import package_alone  # noqa: F401
from dataload import spawn
from dataload.errors import Timeout
from dataload.feeds import Feed
from harness import BUILD, SLACK, Trainer, main, wait_for, write_shards

# A trainer that asks for a daemon, says where it is, and waits for the end of its input.
ASKS = """import os, sys, package_alone
from dataload.spawn import daemon_for
from dataload.feeds import Feed
print(daemon_for(Feed(shards=sys.argv[2], batch=4), sys.argv[1], 60), flush=True)
sys.stdin.read()
"""


def alive(folder):
    """Processes of dataloadd that serve a job's folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"{folder}/control.sock".encode() in (entry / "cmdline").read_bytes().split(b"\0")[1:]:
                found.append(int(entry.name))
    return found


def server_of(path):
    """Process id of who listens there."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        return struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


class Spawn(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="dl-"))
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        self.addCleanup(self.end_daemons)
        (self.top / "run").mkdir(mode=0o700)
        path = f"{BUILD}/daemon:{os.environ['PATH']}"
        patch = unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": f"{self.top}/run", "XDG_CACHE_HOME": f"{self.top}/cache", "PATH": path})
        patch.start()
        self.addCleanup(patch.stop)
        write_shards(self.top / "data", shards=2, records=50, width=32, height=32)
        self.shards = f"{self.top}/data/*.tar"
        self.feed = Feed(shards=self.shards, batch=4)

    def folder(self, job="job"):
        return spawn._folder(job)

    def log(self, job="job"):
        return pathlib.Path(self.folder(job), "daemon.log").read_text(encoding="utf-8", errors="replace")

    def end_daemons(self):
        for folder in (self.top / "run").glob("*/*"):
            for pid in alive(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            log = folder / "daemon.log"
            if log.exists():
                self.assertNotIn("Sanitizer", log.read_text(encoding="utf-8", errors="replace"))

    def ask(self, config=None, job="job", timeout=60):
        return spawn.daemon_for(config or self.feed, job, timeout)

    def attached(self, job="job", **options):
        """A trainer, made before it asks, so that it attaches at once."""
        trainer = Trainer(f"{self.folder(job)}/control.sock")
        self.addCleanup(trainer.close)
        self.ask(job=job, **options)
        trainer.attach(job=job)
        return trainer

    def asking(self, job="job", script=ASKS, **options):
        process = subprocess.Popen([sys.executable, "-B", "-c", script, job, self.shards], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, **options)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait(), process.stdin.close(), process.stdout.close()))
        return process

    def ends(self, job="job"):
        wait_for("the daemon to end", lambda: not alive(self.folder(job)))
        self.assertIn("no connection for 5 s: stopping", self.log(job))
        self.assertFalse(os.path.exists(f"{self.folder(job)}/control.sock"))

    def program(self, text):
        """A program in the place of dataloadd."""
        path = self.top / "bin/dataloadd"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        os.environ["PATH"] = f"{path.parent}:{os.environ['PATH']}"

    def failed(self, kind, *words, **options):
        with self.assertRaises(kind) as caught:
            self.ask(**options)
        for word in words:
            self.assertRegex(str(caught.exception), word)


class Life(Spawn):
    def test_serves_and_ends(self):
        trainer = self.attached()
        trainer.run(batches=10, print=0)
        pid, = alive(self.folder())
        self.assertEqual(server_of(self.ask()), pid)
        trainer.kill()
        self.ends()

    def test_one_for_each_job(self):
        self.attached(job="one")
        self.attached(job="two")
        self.assertNotEqual(alive(self.folder("one")), alive(self.folder("two")))

    def test_eight_at_once(self):
        for turn in range(3):
            job = f"job{turn}"
            processes = [self.asking(job) for _ in range(8)]
            paths = {process.stdout.readline().strip() for process in processes}
            self.assertEqual(paths, {f"{self.folder(job)}/control.sock"})
            self.assertEqual(len(alive(self.folder(job))), 1)
            self.assertEqual(self.log(job).count("dataloadd 0."), 1)
            for process in processes:
                process.stdin.close()
                self.assertEqual(process.wait(60 * SLACK), 0)

    def test_outlives_its_starter(self):
        starter = self.asking(start_new_session=True)
        starter.stdout.readline()
        pid, = alive(self.folder())
        self.assertNotEqual(os.getsid(pid), os.getsid(starter.pid))
        trainer = self.attached()
        os.killpg(starter.pid, signal.SIGINT)  # Ctrl-C
        starter.wait(60)
        trainer.run(batches=4, print=0)
        self.assertEqual(alive(self.folder()), [pid])
        trainer.kill()
        self.ends()

    def test_is_nobodys_child(self):
        self.attached()
        pid, = alive(self.folder())
        parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        self.assertNotEqual(parent, os.getpid())

    def test_nothing_of_the_service_that_the_trainer_is(self):
        os.environ.update(NOTIFY_SOCKET=f"{self.top}/notify", WATCHDOG_USEC="1000", CUDA_VISIBLE_DEVICES="0", LISTEN_FDS="1",
                          LISTEN_PID=str(os.getpid()))
        self.attached()
        environ = pathlib.Path(f"/proc/{alive(self.folder())[0]}/environ").read_bytes()
        for name in (b"NOTIFY_SOCKET", b"WATCHDOG_USEC", b"CUDA_VISIBLE_DEVICES", b"LISTEN_FDS"):
            self.assertNotIn(name, environ)


class Killed(Spawn):
    def test_the_daemon(self):
        self.ask()
        first, = alive(self.folder())
        os.kill(first, signal.SIGKILL)
        self.attached().run(batches=4, print=0)  # the socket was left
        self.assertNotEqual(alive(self.folder()), [first])

    def test_the_starter_while_it_starts(self):
        self.program(f"sleep 1; exec {BUILD}/daemon/dataloadd \"$@\"")
        starter = self.asking()
        wait_for("the start", lambda: os.path.exists(f"{self.folder()}/given.json"))
        time.sleep(0.2)
        starter.kill()
        starter.wait()
        self.ask()
        self.assertEqual(len(alive(self.folder())), 1)

    def test_the_starter_before_it_starts(self):
        script = ASKS.replace("print(", "from dataload import spawn\nspawn._start = lambda *_: (print('starts', flush=True), sys.stdin.read())\nprint(")
        starter = self.asking(script=script)
        self.assertEqual(starter.stdout.readline(), "starts\n")
        results = []
        other = threading.Thread(target=lambda: results.append(self.ask()))
        other.start()
        time.sleep(0.3)
        self.assertFalse(results)
        starter.kill()
        other.join(60 * SLACK)
        self.assertEqual(results, [f"{self.folder()}/control.sock"])

    def test_a_daemon_that_ends_while_another_asks(self):
        """As many turns around the moment of its end as there is time for: each asker is served, or starts the next."""
        with unittest.mock.patch.object(spawn, "IDLE_EXIT", 3):
            for turn in range(5):
                self.ask()
                time.sleep(2.95 + turn * 0.07)
                trainer = self.attached()
                trainer.kill()


class Different(Spawn):
    def test_feeds_of_another(self):
        self.attached()
        self.failed(spawn.FeedsDiffer, "daemon of job job was started with the feeds feed given in Python", r"this trainer gives the feeds other",
                    config=Feed(name="other", shards=self.shards, batch=4))
        self.failed(spawn.FeedsDiffer, "config=", config=Feed(shards=self.shards, batch=8), timeout=1)
        self.assertEqual(len(alive(self.folder())), 1)

    def test_feeds_changed_when_nobody_uses_them(self):
        self.attached().kill()
        first, = alive(self.folder())
        trainer = Trainer(f"{self.folder()}/control.sock")
        self.addCleanup(trainer.close)
        self.ask(config=Feed(name="other", shards=self.shards, batch=4))
        trainer.attach(feed="other", job="job")
        self.assertNotEqual(alive(self.folder()), [first])

    def test_files(self):
        path = self.top / "my.yaml"
        path.write_text(f"feeds: [{{name: mine, source: '{self.shards}', batch: 4}}]", encoding="utf-8")
        trainer = Trainer(f"{self.folder()}/control.sock")
        self.addCleanup(trainer.close)
        self.ask(config=path)
        trainer.attach(feed="mine")
        self.failed(spawn.FeedsDiffer, str(path), timeout=1)

    def test_the_users_own_configuration(self):
        os.environ["XDG_CONFIG_HOME"] = f"{self.top}/config"
        with self.assertRaisesRegex(spawn.DaemonFailed, "config/dataloadd/dataloadd.yaml cannot be read .No such file"):
            spawn.daemon_for(None, "job")
        (self.top / "config/dataloadd").mkdir(parents=True)
        (self.top / "config/dataloadd/dataloadd.yaml").write_text(f"feeds: [{{name: mine, source: '{self.shards}', batch: 4}}]", encoding="utf-8")
        trainer = Trainer(f"{self.folder()}/control.sock")
        self.addCleanup(trainer.close)
        spawn.daemon_for(None, "job")
        trainer.attach(feed="mine")


class Fails(Spawn):
    def test_a_wrong_setting(self):
        self.failed(spawn.DaemonFailed, r"feeds\.json:\d+: batch: \"many\" is not a whole decimal number", "daemon.log",
                    config=Feed(shards=self.shards, batch="many"))
        self.ask()  # nothing is left in the way

    def test_a_program_that_fails(self):
        self.program("echo boom >&2; exit 1")
        self.failed(spawn.DaemonFailed, "daemon of job job has ended; its log .*daemon.log says: boom")

    def test_no_program(self):
        os.environ["PATH"] = "/nowhere"
        self.failed(spawn.DaemonFailed, "no program dataloadd on the PATH")

    def test_no_answer(self):
        self.program("exec sleep 3")
        self.failed(Timeout, "does not answer at .*control.sock for 1 s", timeout=1)


class Places(Spawn):
    def test_without_a_runtime_folder(self):
        for runtime in ("", f"{self.top}/missing", "relative"):
            os.environ.update(XDG_RUNTIME_DIR=runtime, TMPDIR=f"{self.top}/run")
            self.assertEqual(os.path.dirname(self.folder()), f"{self.top}/run/dataloadd-{os.geteuid()}")
        self.attached()

    def test_too_long(self):
        long = self.top / "run" / ("x" * 100)
        long.mkdir()
        os.environ.update(XDG_RUNTIME_DIR=str(long), TMPDIR=f"{self.top}/run")
        self.assertTrue(self.folder().startswith(f"{self.top}/run/dataloadd-"))
        with unittest.mock.patch.object(spawn, "_bases", lambda: [f"{long}/dataloadd"]):
            self.failed(spawn.DaemonFailed, "no place for the socket", "bytes too long for a socket", "TMPDIR")

    def test_open_to_others(self):
        base = self.top / "run" / f"dataloadd-{os.geteuid()}"
        base.mkdir()
        base.chmod(0o755)
        with unittest.mock.patch.object(spawn, "_bases", lambda: [str(base)]):
            self.failed(spawn.DaemonFailed, f"{base}: it must be a folder of user {os.geteuid()} with mode 0700, not .* mode 0755")

    def test_anothers(self):
        if os.geteuid():
            self.skipTest("only root can make a folder another's")
        base = self.top / "run/dataloadd-0"
        base.mkdir(mode=0o700)
        os.chown(base, 65534, 65534)
        os.symlink(self.top / "data", self.top / "run/link")
        with unittest.mock.patch.object(spawn, "_bases", lambda: [str(base), f"{self.top}/run/link"]):
            self.failed(spawn.DaemonFailed, f"{base}: .*not of user 65534", "link: it must be a folder of user 0")

    def test_old_logs_are_removed(self):
        for job in ("old", "used", "new"):
            pathlib.Path(self.folder(job), "daemon.log").write_text("x", encoding="utf-8")
        used = os.open(f"{self.folder('used')}/lock", os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, used)
        fcntl.flock(used, fcntl.LOCK_EX)
        folders = {job: pathlib.Path(self.folder(job)) for job in ("old", "used", "new")}
        for job in ("old", "used"):
            os.utime(folders[job], (0, 0))
        self.ask()
        self.assertEqual([job for job, folder in folders.items() if folder.exists()], ["used", "new"])


main()
