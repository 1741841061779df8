"""quickstart.sh with a few pictures: it ends well, names what to do next, and leaves nothing, also when interrupted."""
import time

from harness import *

if SANITIZE:
    skip("quickstart.sh makes a build of its own, without sanitizers")
BUILD_SECONDS = 600


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dl-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir()

    def pictures(self):
        for i in range(12):
            path = self.folder / f"pictures/class{i % 3}/{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(80, 60, i))
        return self.folder / "pictures"

    def shard(self):
        write_tar(self.folder / "a.tar", [m for i in range(12) for m in ((f"{i}.jpg", jpeg(80, 60, i)), (f"{i}.cls", b"1"))])
        return self.folder / "a.tar"

    def start(self, *sources, **env):
        """In a session of its own, in which its children stay."""
        self.output = open(self.folder / "output", "w+", encoding="utf-8")
        self.addCleanup(self.output.close)
        run = subprocess.Popen([str(SOURCE / "quickstart.sh"), "--no-install", *map(str, sources)], stdin=subprocess.DEVNULL,
                               stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True,
                               env=dict(os.environ, TMPDIR=str(self.scratch), **env))
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        for pid in self.members(run):
            os.kill(pid, signal.SIGKILL)
        run.wait()

    def said(self):
        return (self.folder / "output").read_text(encoding="utf-8")

    @staticmethod
    def members(run):
        """Processes of its session; the dead ones that nobody has waited for do not count."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == run.pid and state != "Z":
                found.append(int(entry.name))
        return found

    def nothing_is_left(self, run):
        self.assertEqual(self.members(run), [])
        self.assertEqual(list(self.scratch.iterdir()), [])

    def goes_well(self, source):
        run = self.start(source)
        self.assertEqual(run.wait(BUILD_SECONDS), 0, self.said())
        said = self.said()
        for command in ("dataload-pack folder", "dataloadd --user --config", "example-trainer FEED"):
            self.assertIn(command, said)
        self.assertRegex(said, r"rank 1: batches \d+, samples \d+")
        self.assertRegex(said, "PID|they have ended already")  # both trainers in a status, or too little data for one
        self.nothing_is_left(run)

    def test_folder(self):
        self.goes_well(self.pictures())

    def test_shard(self):
        self.goes_well(self.shard())

    def interrupted(self, at, then, number):
        run = self.start(self.pictures(), DATALOADD_TEST_DELAY="read:60000")
        wait_for(at, lambda: at in self.said() or run.poll() is not None, BUILD_SECONDS)
        time.sleep(then)
        self.assertIsNone(run.poll(), self.said())
        os.killpg(run.pid, number)
        self.assertIn(run.wait(10 * SLACK), (130, -number), self.said())
        self.nothing_is_left(run)

    def test_interrupt_while_trainers_wait(self):
        self.interrupted("two trainers of one job", 1, signal.SIGINT)

    def test_term_while_trainers_wait(self):
        self.interrupted("two trainers of one job", 1, signal.SIGTERM)

    def test_interrupt_during_the_build(self):
        self.interrupted("build/quickstart", 0, signal.SIGINT)

    def test_interrupt_at_the_start_of_the_daemon(self):
        self.interrupted("the daemon, for you alone", 0, signal.SIGINT)

    def test_a_source_that_is_not_there(self):
        run = self.start(self.folder / "nowhere")
        self.assertEqual(run.wait(60 * SLACK), 64)
        self.assertRegex(self.said(), "nowhere.* does not exist")
        self.nothing_is_left(run)


main()
