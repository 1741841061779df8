"""S26: GPUs are meant by UUID, whatever number CUDA_VISIBLE_DEVICES gives them on either side."""
from gpu_case import *


class Visible(GpuCase):
    def status_gpu(self, trainer):
        return self.client_status(trainer.pid)["gpu"]

    def test_matched_by_uuid(self):
        self.serve(env={"STANDIN_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "2,1"})
        uuids = json.loads(self.ctl("gpu", "--json").stdout)["gpus"]
        second = uuids[1]["uuid"]
        seen = []
        for visible in ("1", "1,2"):
            trainer = self.trainer(env={"STANDIN_DEVICES": "3", "CUDA_VISIBLE_DEVICES": visible})
            self.assertEqual(trainer.attach(device="gpu", job=f"j{len(seen)}")["memory"], VMM)
            self.assertEqual(self.status_gpu(trainer), second)
            seen.append(self.epoch(trainer))
        self.assertEqual(seen[0], seen[1])

    def test_not_seen_by_the_daemon(self):
        self.serve(env={"STANDIN_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "1"})
        trainer = self.trainer(env={"STANDIN_DEVICES": "2"})
        error = trainer.attach(expect=-19, device="gpu")["error"]
        self.assertIn("GPU-5ca1ab1e-0000-4000-8000-000000000000", error)
        told = trainer.attach(device="auto")
        self.assertEqual(told["memory"], HOST)
        self.assertIn("GPU-5ca1ab1e", told["memory_why"])
        self.epoch(trainer)


main()
