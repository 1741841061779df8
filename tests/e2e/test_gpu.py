"""What the daemon knows of GPUs: on the stand-in for the driver, and on nodes where there is none to be used."""
import ctypes

from harness import *


class Gpus(Case):
    def serve(self, **settings):
        write_shards(self.folder / "data", shards=1, records=8)
        self.config({"source": str(self.folder / "data/*.tar"), "transform": "eval", "batch": 4})
        self.start_daemon(env={**STANDIN, "STANDIN_REPORT": str(self.folder / "standin.log"), **settings})

    def gpu(self):
        return json.loads(self.ctl("gpu", "--json").stdout)

    def found(self):
        """The answer once the driver has been asked."""
        return wait_for("the driver's answer", lambda: next((said for said in [self.gpu()] if not said["looking"]), None))

    def batches_come(self):
        trainer = self.trainer()
        trainer.attach()
        trainer.next()
        trainer.close()

    def test_listed(self):
        self.serve(STANDIN_DEVICES="3", STANDIN_MEMORY_MB="2048", CUDA_VISIBLE_DEVICES="2,0")
        said = self.found()
        self.assertEqual([gpu["uuid"] for gpu in said["gpus"]],
                         ["GPU-5ca1ab1e-0000-4000-8000-000000000002", "GPU-5ca1ab1e-0000-4000-8000-000000000000"])
        self.assertEqual((said["driver"], said["gpus"][0]["memory"], said["gpus"][0]["mode"]), (13000, 2 << 30, "default"))
        self.assertEqual({(gpu["vmm"], gpu["posix_fd"], gpu["fault"]) for gpu in said["gpus"]}, {(True, True, "")})
        self.assertEqual(said["device"], "shared memory, or a GPU for trainers that ask for it; 2 GPUs, CUDA 13.0")
        self.assertEqual(self.status()["device"], said["device"])
        lines = self.ctl("gpu").stdout.splitlines()
        self.assertEqual((len(lines), lines[-1]), (4, "batches are in " + said["device"]))
        self.assertIn("Stand-in GPU 2", lines[1])
        self.batches_come()
        self.stop_daemon()
        self.assertFalse((self.folder / "standin.log").exists())  # nothing of a GPU was taken or left

    def test_let_go(self):
        self.serve()
        uuid = self.found()["gpus"][0]["uuid"]
        self.assertFalse(json.loads(self.ctl("gpu", "--json", "--release", uuid).stdout)["gpus"][0]["context"])
        refused = self.ctl("gpu", "--release", "GPU-0", check=False)
        self.assertEqual(refused.returncode, 69)
        self.assertIn("sees no such GPU", refused.stderr)

    def test_not_for_us(self):
        self.serve(STANDIN_COMPUTE_MODE="3", STANDIN_VMM="0")
        gpu = self.found()["gpus"][0]
        self.assertEqual((gpu["mode"], gpu["vmm"]), ("exclusive process", False))
        self.assertIn("lock trainers out", gpu["fault"])
        self.assertIn("lock trainers out", self.ctl("gpu").stdout)

    def test_a_broken_gpu_does_not_hide_the_others(self):
        self.serve(STANDIN_DEVICES="2", STANDIN_FAULTS="cuDeviceGetUuid_v2:1:999")
        first, second = self.found()["gpus"]
        self.assertIn("cuDeviceGetUuid_v2: CUDA_ERROR_UNKNOWN (999)", first["fault"])
        self.assertEqual((first["uuid"], second["fault"], second["name"]), ("", "", "Stand-in GPU 1"))

    def test_unusable_drivers_have_their_reason(self):
        for settings, words in (({"STANDIN_DEVICES": "0"}, "CUDA_ERROR_NO_DEVICE (100)"),
                                ({"STANDIN_INIT": "803"}, "was the driver upgraded without a reboot?"),
                                ({"STANDIN_VERSION": "11040"}, "for CUDA 11.4, and 12.0 or newer is needed")):
            with self.subTest(words):
                self.serve(**settings)
                said = self.found()
                self.assertEqual(said["gpus"], [])
                self.assertIn(words, self.status()["device"])
                self.assertIn("batches are in shared memory, as ", self.ctl("gpu").stdout)
                self.batches_come()
                self.stop_daemon()

    def test_no_driver(self):
        try:
            ctypes.CDLL("libcuda.so.1")
            self.skipTest("there is an NVIDIA driver here")
        except OSError:
            pass
        self.serve(LD_LIBRARY_PATH="")
        said = self.found()
        self.assertEqual((said["gpus"], said["driver"]), ([], 0))
        self.assertEqual(said["device"], "shared memory, as no NVIDIA driver is installed here (libcuda.so.1 is not found)")

    def test_a_driver_that_hangs_holds_nothing_up(self):
        self.serve(STANDIN_INIT_S="60")
        self.assertTrue(self.gpu()["looking"])
        self.assertIn("is being asked", self.status()["device"])
        asks = self.trainer(env={**STANDIN})
        asks.send("attach", feed="feed", device="auto")
        wait_for("its reason", lambda: "asked for its GPUs" in json.dumps(self.client_status(asks.pid)))
        self.batches_come()
        self.stop_daemon(seconds=10)
        self.assertIn("the NVIDIA driver does not answer", self.log())


main()
