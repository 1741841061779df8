"""A trainer in a container that sees only the socket's directory: own mount, PID and IPC namespaces."""
from harness import *


class Container(Case):
    def test_namespaces(self):
        need_namespaces()
        write_shards(self.folder / "data", shards=2, records=40)
        run = self.folder / "run"
        run.mkdir()
        self.socket = run / "control.sock"
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4})
        self.start_daemon()
        # In there the data and the configuration are hidden, /dev/shm is an empty one, and pids are others.
        script = (f"mount -t tmpfs none /dev/shm && mkdir /dev/shm/run && mount --bind {run} /dev/shm/run && "
                  f"mount -t tmpfs none {self.folder} && exec \"$@\"")
        inside = Trainer("/dev/shm/run/control.sock", prefix=["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", script, "sh"])
        self.trainers.append(inside)
        inside.attach(job="inside", rank=0, world=1)
        lines = inside.run(epochs=1, print=2)
        outside = self.trainer()
        outside.attach(job="outside")
        key = lambda line: (line["step"], line["index"], line["image"])
        self.assertEqual([key(x) for x in lines], [key(x) for x in outside.run(epochs=1, print=2)])
        inside.kill()
        wait_for("the lease to end", lambda: all(c["job"] != "inside" for c in self.status()["clients"]), 5)


main()
