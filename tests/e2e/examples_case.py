"""What the tests of client/examples/python have in common."""
from python_case import *

EXAMPLES = SOURCE / "client/examples/python"
IMAGES, CLASSES, BATCH = 192, 4, 16


class ExamplesCase(PythonCase):
    @classmethod
    def setUpClass(cls):
        """A sample set whose classes can be learned."""
        cls.sample = tempfile.mkdtemp(prefix="dl-")
        cls.addClassCleanup(shutil.rmtree, cls.sample)
        subprocess.run([PACK, "sample", cls.sample, "--images", str(IMAGES), "--classes", str(CLASSES)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def setUp(self):
        super().setUp()
        self.config({"source": f"{self.sample}/*.tar", "transform": "train", "batch": BATCH, "shuffle": 64, "seed": 3})
        self.start_daemon()

    def start(self, name, *arguments, python=sys.executable, launcher=()):
        environment = {**os.environ, **PRELOADED, "DATALOADD_SOCKET": str(self.socket), "PYTHONPATH": str(PACKAGE), "CUDA_VISIBLE_DEVICES": "",
                       "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen([python, "-B", *launcher, EXAMPLES / name, "feed", "--batch", str(BATCH), "--classes", str(CLASSES),
                                    *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end_script, process)
        return process

    def torchrun(self, processes):
        """Without redirects=1 and tee=1 the one of Debian 12 (1.13) fails with its Python (3.11)."""
        return ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", "--redirects=1", "--tee=1",
                f"--log_dir={self.folder}")

    def losses(self, *arguments, **options):
        """{step: (epoch, loss as printed)} of a whole run."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=120 * SLACK)
        self.assertEqual(process.returncode, 0, err)
        return steps_of(out)

    def falls(self, losses, epochs=3):
        """The last epoch's mean is well below the first's."""
        mean = [sum(float(loss) for number, loss in losses.values() if number == epoch) / sum(number == epoch for number, _ in losses.values())
                for epoch in (0, epochs - 1)]
        self.assertLess(mean[1], 0.8 * mean[0])


def steps_of(text):
    lines = [line.rpartition("]:")[2].split() for line in text.splitlines()]  # torchrun writes [default0]: before each
    return {int(words[1]): (int(words[3]), words[5]) for words in lines}
