"""Each version of the protocol, versions to come, and the former release, whose daemons and trainers meet those of this tree.

The former release is built from the history (FORMER) with DATALOADD_LONG=1, or found in the build folder DATALOADD_FORMER."""
import contextlib
import re
import tarfile
import unittest.mock

import harness
from between import Between
from harness import *

LIMITS = (SOURCE / "proto/limits.h").read_text(encoding="utf-8")
OLDEST, NEWEST = (int(re.search(rf"DLP_VERSION_{which} (\d+)U", LIMITS)[1]) for which in ("MIN", "MAX"))
FORMER = "fcbbabf959a6afceabb51ffddb4974667255a85d"  # the last one that spoke version 1 alone


def rows(lines):
    return [(line["epoch"], line["step"], line["index"], line["image"], line["label"]) for line in lines]


class Served(Case):
    def serve(self):
        write_shards(self.folder / "data", shards=4, records=100)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64})
        self.start_daemon()
        self.want = []
        for rank in range(4):
            trainer = self.trainer()
            trainer.attach(job=f"reference-{rank}", rank=rank, world=4)
            self.want.append(rows(trainer.run(epochs=2, print=2)))
            trainer.call("detach")


class Versions(Served):
    def between(self, **options):
        between = Between(self.folder / f"between-{len(self.trainers)}.sock", self.socket, **options)
        self.addCleanup(between.close)
        return between

    def through(self, between):
        trainer = Trainer(between.listener.getsockname(), standin=self.standin)
        self.trainers.append(trainer)
        return trainer

    def works_through(self, between, job):
        """Attach, batches, token, resume, another epoch, and a daemon that comes back."""
        trainer = self.through(between)
        trainer.attach(job=job, rank=1, world=4)
        got = trainer.run(batches=9, print=2)
        token = trainer.call("token")["token"]
        got += trainer.run(batches=4, print=2)
        self.stop_daemon(signal.SIGKILL)
        self.start_daemon()
        got += trainer.run(batches=25 - 13, print=2)
        self.assertEqual(rows(got), self.want[1][:25])
        self.assertEqual(trainer.call("seek", epoch=1)["rc"], 0)
        self.assertEqual(rows(trainer.run(epochs=1, print=2)), [row for row in self.want[1] if row[0] == 1])
        trainer.call("detach")
        trainer.attach(job=job + "-resumed", rank=1, world=4, resume=token)
        resumed = trainer.run(batches=5, print=2)
        self.assertEqual([row[2:] for row in rows(resumed)], [row[2:] for row in self.want[1][9:14]])
        for verb in (["status", "--json"], ["feeds"], ["slices", "feed", "--world", "2"], ["bad"], ["ping"]):
            done = subprocess.run([str(CTL), "--socket", between.listener.getsockname(), *verb], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_each_version(self):
        self.serve()
        for version in range(OLDEST, NEWEST + 1):
            between = self.between(most=version)
            self.works_through(between, f"version-{version}")
            self.assertEqual(between.agreed, {version})

    def test_versions_to_come(self):
        self.serve()
        between = self.between(later=True)
        self.works_through(between, "later")
        self.assertEqual(between.agreed, {NEWEST})


class Former(Served):
    """Each with each, and the way there and back under running trainers."""

    def build(self):
        found = os.environ.get("DATALOADD_FORMER")
        if found:
            return pathlib.Path(found).resolve()
        if not LONG or SANITIZE:
            self.skipTest("the former release is built with DATALOADD_LONG=1 only, and without sanitizers")
        archive = subprocess.run(["git", "-C", str(SOURCE), "archive", FORMER], capture_output=True)
        if archive.returncode:
            self.skipTest(f"the history has no {FORMER}: {archive.stderr.decode().strip()}")
        tree = BUILD / "former"
        shutil.rmtree(tree, ignore_errors=True)
        tarfile.open(fileobj=io.BytesIO(archive.stdout)).extractall(tree)
        for command in (["cmake", "--preset", "release"], ["ninja", "-C", "build/release", "dataloadd", "dataloadctl", "testclient"]):
            subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
        return tree / "build/release"

    @contextlib.contextmanager
    def programs_of(self, build):
        """The harness starts those of this build meanwhile."""
        with unittest.mock.patch.multiple(harness, DAEMON=build / "daemon/dataloadd", TESTCLIENT=build / "tests/e2e/testclient"):
            yield

    def daemon_of(self, build):
        with self.programs_of(build):
            self.start_daemon()

    def trainer_of(self, build):
        with self.programs_of(build):
            return self.trainer()

    def test_there_and_back(self):
        former = self.build()
        self.serve()
        self.stop_daemon()
        self.daemon_of(former)
        trainers = [self.trainer_of(build) for build in (former, BUILD, former, BUILD)]
        for rank, trainer in enumerate(trainers):
            trainer.attach(job="across", rank=rank, world=4)
        got = [[] for _ in trainers]
        for number, build in ((signal.SIGTERM, BUILD), (signal.SIGTERM, former), (signal.SIGKILL, BUILD), (signal.SIGKILL, former)):
            for rank, trainer in enumerate(trainers):
                got[rank] += trainer.run(batches=3 + rank, print=2)
            self.stop_daemon(number)
            self.daemon_of(build)
        for rank, trainer in enumerate(trainers):
            got[rank] += trainer.run(batches=5, print=2)
            self.assertEqual(trainer.call("stats")["reconnects"], 4)
            self.assertEqual(rows(got[rank]), self.want[rank][:len(got[rank])])


main()
