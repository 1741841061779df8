"""A stand-in for the service manager: it is told by NOTIFY_SOCKET, and keeps descriptors from one daemon to the next.

It does what systemd does with FDSTORE=1 and FDSTOREREMOVE=1, drops what hangs up, and hands all over as LISTEN_FDS."""
import fcntl
import os
import select
import socket
import threading

from harness import *


class Manager:
    def __init__(self, folder, most=8):
        self.most = most  # FileDescriptorStoreMax
        self.kept = []  # (name, descriptor)
        self.unit = self.unit_name = None  # the socket unit's
        self.lock = threading.Lock()
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.ended = False
        self.barriers = 0
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def close(self):
        self.ended = True
        self.thread.join()
        self.socket.close()
        self.drop(lambda name, fd: True)
        if self.unit:
            self.unit.close()

    def listen_at(self, path, name):
        """As a socket unit does."""
        self.unit_name = name
        self.unit = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.unit.bind(str(path))
        self.unit.listen(64)

    def drop(self, which):
        with self.lock:
            for name, fd in [entry for entry in self.kept if which(*entry)]:
                self.kept.remove((name, fd))
                os.close(fd)

    def names(self):
        with self.lock:
            return sorted(name for name, fd in self.kept)

    def keep(self, name, fd):
        with self.lock:
            same = any(os.path.sameopenfile(fd, other) for _, other in self.kept)
            if same or len(self.kept) >= self.most:
                os.close(fd)
            else:
                self.kept.append((name, fd))

    def listen(self):
        while not self.ended:
            look = select.poll()
            look.register(self.socket, select.POLLIN)
            for _, fd in self.kept:
                if not os.path.basename(os.readlink(f"/proc/self/fd/{fd}")).startswith("memfd"):
                    look.register(fd, 0)
            for fd, events in look.poll(20):
                if fd == self.socket.fileno():
                    self.hear()
                elif events & (select.POLLHUP | select.POLLERR):
                    self.drop(lambda name, other, gone=fd: other == gone)

    def hear(self):
        text, fds, _, _ = socket.recv_fds(self.socket, 4096, 16)
        said = dict(line.split("=", 1) for line in text.decode().splitlines())
        name = said.get("FDNAME", "stored")
        for fd in fds:
            self.keep(name, fd)
        if "FDSTOREREMOVE" in said:
            self.drop(lambda other, fd: other == name)

        self.barriers += "BARRIER" in said

    def catch_up(self):
        """Everything that a daemon has said before it ended has been heard."""
        before = self.barriers
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
            peer.sendto(b"BARRIER=1", str(self.path))
        wait_for("the manager", lambda: self.barriers > before or not self.thread.is_alive())

    def hand_over(self):
        """What a daemon is to be started with: options of Case.start_daemon."""
        with self.lock:
            given = ([(self.unit_name, self.unit.fileno())] if self.unit else []) + self.kept
        env = {"NOTIFY_SOCKET": str(self.path), "LISTEN_FDS": str(len(given)), "LISTEN_FDNAMES": ":".join(name for name, _ in given)}

        def place():
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 1000) for _, fd in given]
            for number, fd in enumerate(high):
                os.dup2(fd, 3 + number)

        return {"env": env, "preexec_fn": place, "pass_fds": range(3, 3 + len(given)),
                "prefix": ["/bin/sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh"]}


class ManagedCase(Case):
    def setUp(self):
        super().setUp()
        self.manager = Manager(self.folder)
        self.addCleanup(self.manager.close)

    def start_daemon(self, **options):
        return super().start_daemon(**self.manager.hand_over(), **options)

    def stop_daemon(self, number=signal.SIGTERM, seconds=20):
        super().stop_daemon(number, seconds)
        if self.manager.ended:
            return
        self.manager.catch_up()
        # Nobody reads the other end any more.
        wait_for("the manager to see the end", lambda: "dataloadd-witness" not in self.manager.names())
