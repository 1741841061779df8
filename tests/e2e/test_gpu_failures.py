"""Trainers that fail while their batches lie on a GPU of the stand-in, by both ways: their memory comes back when their
process has ended, and others go on."""
import signal

from gpu_case import *


class Failures(GpuCase):
    def others_go_on(self, trouble, env=None):
        """What a trainer's end leaves of the GPU: what the other has. It gets the batches that it would get alone."""
        for handoff in ("vmm", "ipc"):
            with self.subTest(handoff):
                self.serve(handoff=handoff)
                other, alone, failing = self.trainer(), self.trainer(), self.trainer(env=env)
                alone.attach(device="gpu", job="alone")
                want = self.epoch(alone) + self.epoch(alone)
                alone.call("detach")
                other.attach(device="gpu", job="other")
                before = self.lent()
                got = self.epoch(other)
                failing.attach(device="gpu", job="failing")
                self.assertNotEqual(self.lent(), before)
                trouble(failing)
                got += self.epoch(other)
                failing.kill()
                wait_for("its memory", lambda: self.lent() == before)
                wait_for("its leaving", lambda: self.client_status(failing.pid) is None)
                self.assertEqual(got, want)
                self.stop_daemon()

    def test_killed_with_work_in_flight(self):
        def trouble(trainer):
            first, second = trainer.next(rows=0), trainer.next(rows=0)
            trainer.call("release", handle=first["handle"], behind=1)
            trainer.call("release", handle=second["handle"], behind=1)
            trainer.kill()
        self.others_go_on(trouble, env={"STANDIN_OP_US": "300000"})

    def test_context_is_lost(self):
        def trouble(trainer):
            trainer.call("release", handle=trainer.next(rows=0)["handle"], behind=1)
            self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", trainer.next(expect=-14)["error"])
        self.others_go_on(trouble, env={"STANDIN_FAULTS": "cuEventQuery:1:!700"})

    def test_stopped(self):
        def trouble(trainer):
            trainer.next(rows=0)
            trainer.kill(signal.SIGSTOP)
            self.assertTrue(self.client_status(trainer.pid))
        self.others_go_on(trouble)

    def test_forked_child_has_its_connection(self):
        def trouble(trainer):
            trainer.next(rows=0)
            child = trainer.call("fork", stay=1)["child"]
            self.addCleanup(os.kill, child, signal.SIGKILL)
            trainer.kill()
        self.others_go_on(trouble)


main()
