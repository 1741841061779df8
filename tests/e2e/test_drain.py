"""dataloadctl drain: no new job is let in, those that run end by themselves; --wait says when nobody is left."""
import socket

from harness import *

DRAINS = -108  # ESHUTDOWN
UNAVAILABLE, USAGE, PERMISSION = 69, 64, 77
OTHER = 61004


class Drain(Case):
    def serve(self, env=None, **top):
        write_shards(self.folder / "data", shards=2, records=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16}, **top)
        self.start_daemon(env=env)

    def attached(self, **options):
        trainer = self.trainer()
        trainer.attach(**options)
        return trainer

    def refused(self, **options):
        reply = self.trainer().attach(expect=DRAINS, **options)
        for word in ("drains", "undrain"):
            self.assertIn(word, reply["error"])

    def test_running_jobs_go_on(self):
        self.serve()
        first = self.attached(job="train", rank=0, world=3)
        dead = self.attached(job="train", rank=2, world=3)
        left = self.attached(job="left")
        left.next()
        left.kill()
        wait_for("its end", lambda: len(self.status()["clients"]) == 2)
        self.assertIn("2 clients left", self.ctl("drain").stdout)
        self.assertGreater(self.status()["draining_s"], 0)
        self.assertIn("draining for", self.ctl("status").stdout)
        self.refused(job="new")
        self.refused()
        self.refused(job="left")  # would begin anew
        self.refused(job="new", resume="last")
        self.assertEqual(self.ctl("bench", "feed", "--seconds", 0.1, check=False).returncode, UNAVAILABLE)
        first.next()
        dead.kill()
        wait_for("its end", lambda: len(self.status()["clients"]) == 1)
        self.attached(job="train", rank=1, world=3)  # a further rank, and one that comes back
        self.attached(job="train", rank=2, world=3, resume="last")
        self.attached(job="left", resume="last")
        self.ctl("undrain")
        self.assertEqual(self.status()["draining_s"], 0)
        self.attached(job="new").next()
        for word in ("draining: no new job", "draining has ended"):
            self.assertIn(word, self.log())

    def test_a_lost_connection_comes_back(self):
        self.serve()
        trainer = self.attached(job="train")
        trainer.call("release", handle=trainer.next()["handle"])
        self.stop_daemon()
        self.start_daemon()
        self.ctl("drain")
        # The restart has ended the former draining; this one meets a trainer that comes back.
        self.assertEqual(trainer.next(timeout=60000)["step"], 1)

    def test_wait(self):
        self.serve()
        trainer = self.attached(job="train")
        done = self.ctl("drain", "--wait", "--seconds", 0.3, check=False)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("1 client is left", done.stderr)
        waiting = subprocess.Popen([str(CTL), "--socket", str(self.socket), "drain", "--wait", "--json"], stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(0.5)
            self.assertIsNone(waiting.poll())
            trainer.call("detach")
            out, _ = waiting.communicate(timeout=30 * SLACK)
        finally:
            waiting.kill()
        self.assertEqual(waiting.returncode, 0)
        reply = json.loads(out)
        self.assertEqual((reply["clients"], reply["draining"]), (0, True))

    def test_wait_ends_where_draining_does(self):
        self.serve()
        self.attached(job="train")
        waiting = subprocess.Popen([str(CTL), "--socket", str(self.socket), "drain", "--wait"], stderr=subprocess.PIPE, text=True)
        try:
            wait_for("it to drain", lambda: self.status()["draining_s"])
            self.ctl("undrain")
            _, err = waiting.communicate(timeout=30 * SLACK)
        finally:
            waiting.kill()
        self.assertEqual(waiting.returncode, UNAVAILABLE)
        self.assertIn("ended the draining", err)

    def test_the_service_manager_is_told(self):
        notify = self.folder / "notify.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(str(notify))
            self.serve(env={"NOTIFY_SOCKET": str(notify), "WATCHDOG_USEC": "400000"})
            self.ctl("drain")
            receiver.settimeout(60)
            wait_for("the words", lambda: b"STATUS=draining, 0 clients" in receiver.recv(4096))

    def test_usage_and_rights(self):
        self.serve()
        for arguments in (["drain", "--seconds", 3], ["undrain", "--wait"], ["drain", "feed"]):
            self.assertEqual(self.ctl(*arguments, check=False).returncode, USAGE)
        if os.geteuid() != 0:
            return
        os.chmod(self.folder, 0o755)
        os.chmod(self.socket, 0o666)
        for verb in ("drain", "undrain"):
            done = subprocess.run([str(CTL), "--socket", str(self.socket), verb], capture_output=True, text=True,
                                  preexec_fn=become(OTHER), timeout=60 * SLACK)
            self.assertEqual(done.returncode, PERMISSION, done)
        self.assertEqual(self.status()["draining_s"], 0)


main()
