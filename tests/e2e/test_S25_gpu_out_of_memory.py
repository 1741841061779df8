"""S25: a GPU without room: refused with numbers, or shared memory; nothing stays taken; a smaller request then works."""
from gpu_case import *


class Full(GpuCase):
    def test_refused_and_a_smaller_one_works(self):
        room = {"STANDIN_MEMORY_MB": "12"}
        self.serve(env=room)
        first, second, third = (self.trainer(env=room) for _ in range(3))
        self.assertEqual(first.attach(device="gpu", job="a")["memory"], VMM)
        before = self.lent()
        error = second.attach(expect=-19, device="gpu", job="b", slots=12)["error"]
        for word in ("GPU", "free", "MB"):
            self.assertIn(word, error)
        self.assertEqual(self.lent(), before)
        told = second.attach(device="auto", job="c", slots=12)
        self.assertEqual(told["memory"], HOST)
        self.assertIn("free", told["memory_why"])
        self.assertEqual(third.attach(device="gpu", job="d", slots=3, batch=4)["memory"], VMM)
        want = self.epoch(second)
        self.assertEqual(self.epoch(first), want)
        for trainer in (first, second, third):
            trainer.call("detach")
        wait_for("all memory back", lambda: not any(self.lent().values()))

    def test_fewer_slots(self):
        room = {"STANDIN_MEMORY_MB": "12"}
        self.serve(env=room, slots=12)
        trainer, host = self.trainer(env=room), self.trainer(env=room)
        told = trainer.attach(device="gpu", job="a")
        self.assertEqual((told["memory"], told["slots"]), (VMM, 3))
        self.assertIn("3 slots instead of 12, as ", told["memory_why"])
        self.assertEqual(self.client_status(trainer.pid)["memory_why"], told["memory_why"])
        self.assertEqual(host.attach(job="b")["slots"], 12)
        self.assertEqual(self.epoch(trainer), self.epoch(host))


main()
