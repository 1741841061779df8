"""S28: GPUs, or trainers, that cannot do what is tried first: the next way, with the reason, before any batch."""
from gpu_case import *


class Unsupported(GpuCase):
    def memory(self, env=None, device="auto", **options):
        told = self.trainer(env=env).attach(device=device, job=f"j{len(self.trainers)}", **options)
        return told["memory"], told["memory_why"]

    def test_no_descriptors(self):
        self.serve(env={"STANDIN_POSIX_FD": "0"})
        kind, why = self.memory(device="gpu")
        self.assertEqual(kind, IPC)
        self.assertIn("descriptor", why)

    def test_neither(self):
        self.serve(env={"STANDIN_POSIX_FD": "0", "STANDIN_IPC": "0"})
        kind, why = self.memory()
        self.assertEqual(kind, HOST)
        self.assertIn("cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED (801)", why)
        self.trainers[0].run(epochs=1, print=0)

    def test_the_trainer_cannot_map(self):
        self.serve()
        kind, why = self.memory(env={"STANDIN_FAULTS": "cuMemMap:1:801"})
        self.assertEqual(kind, IPC)
        self.assertIn("cuMemMap: CUDA_ERROR_NOT_SUPPORTED (801)", why)
        kind, why = self.memory(env={"STANDIN_FAULTS": "cuMemMap:1:801,cuIpcOpenMemHandle_v2:1:400"})
        self.assertEqual(kind, HOST)
        self.assertIn("cuMemMap", why)
        self.assertIn("cuIpcOpenMemHandle: CUDA_ERROR_INVALID_HANDLE (400)", why)
        self.assertEqual(self.epoch(self.trainers[0]), self.epoch(self.trainers[1]))

    def test_no_driver_at_the_trainer(self):
        self.serve()
        kind, why = self.memory(env={"STANDIN_INIT": "803"})
        self.assertEqual(kind, HOST)
        self.assertIn("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", why)
        error = self.trainer(env={"STANDIN_INIT": "803"}).attach(expect=-19, device="gpu")["error"]
        self.assertIn("upgraded without a reboot", error)

    def test_no_driver_is_linked(self):
        library = next((BUILD / "client").glob("libdataload.so"))
        needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        self.assertIn("NEEDED", needed)
        self.assertNotIn("cuda", needed)

    def test_setting(self):
        self.serve(handoff="host")
        kind, why = self.memory()
        self.assertEqual(kind, HOST)
        self.assertIn("handoff: host", why)


main()
