"""S06: who may attach is asked of the kernel; one user leaves nothing in another's way."""
import os
import shutil

from harness import *

U1, U2, GROUP = 61001, 61002, 61010


class Users(Case):
    def setUp(self):
        need_root()
        if CUDA and HANDOFF == "ipc":
            self.skipTest("a handle does not reach another user")
        super().setUp()
        os.chmod(self.folder, 0o755)
        write_shards(self.folder / "data", shards=1, records=16)

    def serve(self, allow):
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 2, "allow": allow})
        self.start_daemon()
        os.chmod(self.socket, 0o666)

    def user(self, uid, groups):
        return self.trainer(preexec_fn=become(uid, groups))

    def test_group(self):
        self.serve({"groups": [GROUP]})
        u1 = self.user(U1, [GROUP])
        u1.attach()
        u1.next()
        u2 = self.user(U2, [])
        reply = u2.call("attach", feed="feed")
        self.assertEqual(reply["rc"], -13, reply)  # EACCES
        self.assertIn(str(U2), self.log())
        u1.kill()
        again = self.user(U2, [GROUP])  # now in the group
        again.attach()
        self.assertEqual(again.next()["rows"], 2)

    def test_who_may_not_connect_is_told_who_may(self):
        self.serve({"users": [U1]})
        os.chmod(self.folder, 0o755)
        for mode, told in ((0o600, f"for uid {os.getuid()} alone"), (0o660, f"group {self.socket.group()} (gid {os.getgid()})")):
            os.chmod(self.socket, mode)
            done = subprocess.run([str(CTL), "--socket", str(self.socket), "ping"], capture_output=True, text=True, preexec_fn=become(U1, []))
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (77, 1), done)
            self.assertIn(told, done.stderr)

    def test_user_list(self):
        self.serve({"users": [U1]})
        self.user(U1, []).attach()
        self.assertEqual(self.user(U2, [GROUP]).call("attach", feed="feed")["rc"], -13)

    def test_verbs_that_read_data_or_plan_need_the_right_to_attach(self):
        self.serve({"users": [U1]})
        os.chmod(self.folder, 0o777)
        verbs = (["bad", "feed"], ["slices", "feed", "--world", "2"], ["token", "feed", "--step", "0"], ["mix", "feed"], ["batch", "feed", "--step", "0"],
                 ["batch", "feed", "--step", "0", "--out", self.folder / "x.png"], ["find", "feed", "000001"], ["show", "feed", "--out", self.folder / "x.png"], ["bench", "feed", "--epochs", "1"])
        for uid, code in ((U2, 77), (U1, 0)):
            for verb in verbs:
                done = subprocess.run([str(CTL), "--socket", str(self.socket), *map(str, verb)], capture_output=True, text=True, preexec_fn=become(uid, []))
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (code, code and 1), (verb, done))
                self.assertFalse(code and done.stdout, done)

    def test_jobs_of_users_are_apart(self):
        self.serve({"users": [U1, U2]})
        self.user(U1, []).attach(job="same", rank=0, world=1)
        self.user(U2, []).attach(job="same", rank=0, world=1)

    def test_nothing_in_shared_places(self):
        before = set(os.listdir("/dev/shm"))
        self.serve({"users": [U1]})
        u1 = self.user(U1, [])
        u1.attach()
        u1.next()
        self.assertEqual(set(os.listdir("/dev/shm")), before)


main()
