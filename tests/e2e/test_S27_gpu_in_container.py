"""S27: a trainer in a PID namespace of its own: a descriptor works there, a handle is refused with its reason."""
from gpu_case import *

APART = ("unshare", "--ipc", "--pid", "--fork", "--mount-proc")


class Container(GpuCase):
    def apart(self):
        return self.trainer(prefix=APART)

    def test_descriptor(self):
        self.serve()
        trainer, beside = self.apart(), self.trainer()
        self.assertEqual(trainer.attach(device="gpu", job="a")["memory"], VMM)
        self.assertEqual(beside.attach(device="gpu", job="b")["memory"], VMM)
        self.assertEqual(self.epoch(trainer), self.epoch(beside))

    def test_handle(self):
        self.serve(handoff="ipc")
        trainer, beside = self.apart(), self.trainer()
        error = trainer.attach(expect=-19, device="gpu", job="a")["error"]
        self.assertIn("namespace", error)
        told = trainer.attach(device="auto", job="b")
        self.assertEqual(told["memory"], HOST)
        self.assertIn("namespace", told["memory_why"])
        self.assertEqual(beside.attach(device="gpu", job="c")["memory"], IPC)
        self.assertEqual(self.epoch(trainer), self.epoch(beside))


if subprocess.run([*APART, "true"], capture_output=True).returncode:
    skip("no PID namespace can be made here")
main()
