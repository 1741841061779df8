"""Who is told what, and what a peer gains by what it is not supposed to do: docs/security.md."""
import ctypes
import fcntl
import mmap
import os
import re
import urllib.request

import wire
from harness import *

U1, U2, NOBODY = 61001, 61002, 65534
NOT_PERMITTED, DENIED = 77, -13
F_ADD_SEALS, F_SEAL_WRITE = 1033, 8
PUNCH = 3  # keeping the size


class Security(Case):
    def setUp(self):
        need_root()
        super().setUp()
        os.chmod(self.folder, 0o777)

    def serve(self, *feeds, **more):
        write_shards(self.folder / "data", shards=2, records=24)
        source = str(self.folder / "data/*.tar")
        self.config([{"source": source, "batch": 2, **feed} for feed in feeds], metrics="127.0.0.1:0")
        self.start_daemon(**more)
        os.chmod(self.socket, 0o666)

    def ctl_as(self, uid, *arguments):
        return subprocess.run([str(CTL), "--socket", str(self.socket), *map(str, arguments)], capture_output=True, text=True,
                              preexec_fn=become(uid), timeout=60 * SLACK, cwd=self.folder)


class Told(Security):
    """Names of shards, keys and values are for whom the feed lets in: each has a word of its own."""

    def serve_secrets(self):
        (self.folder / "data").mkdir()
        pictures = [(f"{number:03d}.{part}", data) for number in range(24) for part, data in (("jpg", jpeg()), ("cls", b"1"))]
        write_tar(self.folder / "data/secret-shard.tar", [*pictures, ("secret-key.jpg", b"")])
        write_tar(self.folder / "open.tar", pictures)
        self.config([{"name": "closed", "source": str(self.folder / "data/*.tar"), "batch": 2, "shuffle": 2, "allow": {"users": [U1]}},
                     {"name": "open", "source": str(self.folder / "open.tar"), "batch": 2}], metrics="127.0.0.1:0")
        self.start_daemon(env={"DATALOADD_TEST_DELAY": "read:100"})
        os.chmod(self.socket, 0o666)
        os.chmod(f"{self.socket}.counters", 0o644)
        trainer = self.trainer(preexec_fn=become(U1))
        trainer.attach("closed", job="job-of-u1")
        trainer.send("run", print=0, epochs=1 << 20, reconnect=0, timeout=60000)
        self.pid = trainer.pid
        path = self.folder / "dataloadd.yaml"
        path.write_text(path.read_text(encoding="utf-8").replace('"batch": 2', '"batch": "secret-value"'), encoding="utf-8")
        self.ctl("reload", check=False)
        wait_for("a shard to be named", lambda: "secret-shard" in self.client_status(self.pid)["reason"])

    def page(self, name):
        status = self.status()
        with urllib.request.urlopen(f"{status['http']}/{name}", timeout=30) as reply:
            return reply.read().decode()

    def test_by_each_verb(self):
        self.serve_secrets()
        texts = {}
        for uid in (0, U1, U2):
            # The reader waits for its shard in one of them.
            texts[uid] = "\n".join(self.ctl_as(uid, "status", "--json").stdout for _ in range(10))
            for verb in (["status"], ["feeds", "--json"], ["bad", "--json"], ["advise"], ["gpu"], ["metrics"], ["check", "--json"],
                         ["report", "--html", self.folder / f"{uid}.html"], ["trace", "--seconds", "0.3", "--out", self.folder / f"{uid}.trace"]):
                done = self.ctl_as(uid, *verb)
                texts[uid] += done.stdout + done.stderr
            for file in ("html", "trace"):
                texts[uid] += (self.folder / f"{uid}.{file}").read_text(encoding="utf-8")
        for uid in texts:  # figures and who trains are for all
            for word in ("job-of-u1", '"closed"', '"open"', str(self.pid), f'"uid": {U1}'):
                self.assertIn(word, texts[uid], uid)
        found = {uid: [word for word in ("secret-shard", "secret-key", "secret-value") if word in text] for uid, text in texts.items()}
        self.assertEqual(found, {0: ["secret-shard", "secret-key", "secret-value"], U1: ["secret-shard", "secret-key"], U2: []})
        self.assertIn("open.tar", texts[U2])

    def test_lists_count_at_once(self):
        """Those of the configuration that holds now, also for what is told of a job that began under others."""
        told = lambda uid: "lonely" in self.ctl_as(uid, "status", "--json").stdout
        (self.folder / "data").mkdir()
        write_tar(self.folder / "data/odd.tar", [("000.jpg", jpeg()), ("000.cls", b"1"), ("lonely.jpg", b"")])
        for turn, (user, other) in enumerate(((U1, U2), (U2, U1))):
            self.config({"source": str(self.folder / "data/*.tar"), "batch": 1, "allow": {"users": [user]}})
            if turn == 0:
                self.start_daemon()
                os.chmod(self.socket, 0o666)
            self.ctl("reload")
            self.trainer(preexec_fn=become(user)).attach()
            self.assertEqual((told(user), told(other), told(0)), (True, False, True), turn)

    def test_by_pages_and_the_counters_file(self):
        self.serve_secrets()
        for _ in range(10):  # over the waits for a shard
            for name in ("report.json", "report.html", "metrics"):
                text = self.page(name)
                self.assertIn("job-of-u1", text)
                self.assertNotIn("secret", text, name)
            counters = (self.folder / "control.sock.counters").read_bytes()
            self.assertNotIn(b"secret", counters)
        wait_for("a snapshot", lambda: b"job-of-u1" in (self.folder / "control.sock.counters").read_bytes())

    @unittest.skipUnless(LONG, "waits for what is told after 5 s")
    def test_while_it_is_indexed(self):
        """A shard that gives no data is named to who attaches, and not to others."""
        if SANITIZE:
            self.skipTest("a preloaded library and a sanitizer do not get along")
        (self.folder / "hold").touch()
        self.serve({"name": "feed", "allow": {"users": [U1]}},
                   env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_HANG": str(self.folder / "hold")})
        trainer = self.trainer(preexec_fn=become(U1))
        trainer.send("attach", feed="feed", timeout=120000)
        reason = lambda uid: [client["reason"] for client in json.loads(self.ctl_as(uid, "status", "--json").stdout)["clients"]]
        wait_for("the shard to be named", lambda: re.search("data-0000[01].tar gives no data", str(reason(U1))), 30)
        self.assertEqual(reason(U2), ["waiting for its data set to be opened"])
        (self.folder / "hold").unlink()
        self.assertEqual(trainer.receive()["rc"], 0)


class Names(Security):
    def test_of_shards_and_keys_reach_no_terminal(self):
        """Who may put files among the data says nothing to the terminal or the browser of who looks."""
        evil = ("\x1b[2J", "\u009b31m", "\u202e", "<img src=x onerror=alert(1)>")
        (self.folder / "data").mkdir()
        for number, word in enumerate(evil):
            write_tar(self.folder / f"data/{number}{word}.tar", [(f"{word}0.jpg", jpeg()), (f"{word}0.cls", b"1"), (f"{word}lonely.jpg", b""),
                                                                 (f"{word}bad.jpg", b"\xff\xd8bad"), (f"{word}bad.cls", b"1")])
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 1, "shuffle": 0})
        self.start_daemon()
        self.trainer().attach()
        wait_for("bad pictures", lambda: self.ctl("bad").stdout.count("bad") >= 2)
        verbs = (["status"], ["status", "--json"], ["bad"], ["bad", "--json"], ["feeds"], ["batch", "feed", "--step", 0], ["find", "feed", "lonely"],
                 ["find", "feed", f"{evil[0]}0"], ["report", "--html", self.folder / "page.html"], ["show", "feed", "--out", self.folder / "sheet.png"])
        for verb in verbs:
            done = self.ctl(*verb, check=False)
            for word in evil[:3]:
                self.assertNotIn(word[0], done.stdout + done.stderr, verb)
        self.assertIn("lonely", self.ctl("bad").stdout)
        page = (self.folder / "page.html").read_text(encoding="utf-8")
        for word in (*(word[0] for word in evil[:3]), "<img src=x"):
            self.assertFalse(word in page, word)
        self.assertNotIn("\x1b", self.log())


class Peers(Security):
    def passed_on(self, uid, talk):
        """A connection made by a process of this user, which then ends if told to: our end, and a function that ends it."""
        ours, theirs = wire.socket.socketpair()
        child = os.fork()
        if child == 0:
            try:
                ours.close()
                become(uid)()
                peer = wire.Peer(self.socket)
                talk(peer)
                wire.socket.send_fds(theirs, [b"."], [peer.socket.fileno()])
                theirs.recv(1)
            finally:
                os._exit(0)
        theirs.close()
        _, fds, _, _ = wire.socket.recv_fds(ours, 1, 1)
        peer = wire.Peer.__new__(wire.Peer)
        peer.socket, peer.buffer = wire.socket.socket(fileno=fds[0]), b""
        peer.socket.settimeout(20 * SLACK)
        self.addCleanup(peer.close)

        def end():
            ours.close()
            os.waitpid(child, 0)

        return child, peer, end

    def test_a_connection_is_of_who_has_opened_it(self):
        """Whoever it is passed on to: its rights are the first one's, and so is its end."""
        self.serve({"name": "feed", "allow": {"users": [U1]}})
        _, peer, end = self.passed_on(U2, lambda peer: None)
        peer.send(wire.attach())  # root, with a connection of U2
        _, error, _ = peer.await_body(wire.ERROR, wire.ATTACH_REPLY)
        self.assertIn(f"uid {U2}", error[2].decode())
        end()
        self.assertIsNone(peer.await_body())
        child, peer, end = self.passed_on(U1, lambda peer: peer.attach())
        self.assertEqual([(client["pid"], client["uid"]) for client in self.status()["clients"]], [(child, U1)])
        end()
        wait_for("the lease to end with its process", lambda: not self.status()["clients"])

    def test_what_is_for_owners_and_admins(self):
        """Not for another user, nor for a user that is root in a namespace of his own."""
        self.serve({"name": "feed"})
        self.trainer(preexec_fn=become(U1)).attach(job="mine", allow_replay=1)
        rooted = ["unshare", "--user", "--map-root-user"]
        there = not subprocess.run([*rooted, "true"], capture_output=True, preexec_fn=become(U2)).returncode
        for verb in (["drain"], ["undrain"], ["reload"], ["gpu", "--release", "GPU-0"], ["detach", "--job", "mine"],
                     ["replay", "mine", "--seconds", "1"]):
            for prefix in ([], rooted) if there else ([],):
                done = subprocess.run([*prefix, str(CTL), "--socket", str(self.socket), *verb], capture_output=True, text=True,
                                      preexec_fn=become(U2), timeout=60 * SLACK)
                self.assertEqual(done.returncode, NOT_PERMITTED, (prefix, verb, done))
        self.assertEqual(len(self.status()["clients"]), 1)

    def test_who_has_no_name_here_is_nobody(self):
        """In a user namespace all users that it does not map look like one: that one is on no list and no admin."""
        if subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode:
            self.skipTest("no user namespace can be made here")
        self.serve({"name": "feed", "allow": {"users": [NOBODY], "groups": [NOBODY]}}, {"name": "open"}, prefix=["unshare", "--user", "--map-root-user"])
        trainer = self.trainer(preexec_fn=become(U1))
        trainer.attach("feed", expect=DENIED)
        trainer.attach("open", job="mine")
        self.assertEqual(self.client_status(trainer.pid)["uid"], NOBODY)
        for verb in (["detach", "--job", "mine"], ["drain"], ["reload"], ["bad", "feed"], ["slices", "feed", "--world", "1"]):
            self.assertEqual(self.ctl_as(U2, *verb).returncode, NOT_PERMITTED, verb)
        trainer.next()


class Memory(Security):
    """A peer that does with its own memory what it can."""

    class Mapped(wire.Peer):
        def attach(self, **options):
            self.send(wire.attach(slots=3, **options))
            self.arena = None
            while self.arena is None:
                data, fds, _, _ = wire.socket.recv_fds(self.socket, 1 << 16, 1)
                self.arena = fds[0] if fds else None
                self.buffer += data
            body, self.layout, _ = self.await_body(wire.ATTACH_REPLY)
            self.memory = mmap.mmap(self.arena, os.fstat(self.arena).st_size)

        def take(self):
            """(step, bytes of the batch) of the next one, which is given back at once."""
            _, ready, _ = self.await_body(wire.READY)
            slot, generation, size = ready.get(1, 0), ready[2], self.layout[10]
            content = self.memory[slot * size:(slot + 1) * size]
            self.send(wire.frame(wire.TAKE, wire.message(f1=slot, f2=generation)) + wire.frame(wire.RELEASE, wire.message(f1=slot, f2=generation)))
            return ready.get(4, 0), content

        def close(self):
            if getattr(self, "arena", None) is not None:
                self.memory.close()
                os.close(self.arena)
            super().close()

    def peer(self, job):
        peer = self.Mapped(self.socket)
        self.addCleanup(peer.close)
        peer.attach(job=job)
        return peer

    def spoil(self, peer):
        """All of it, whosever turn it is; and what must not be possible."""
        fd, size = peer.arena, os.fstat(peer.arena).st_size
        peer.memory[:] = b"\xee" * size
        punch = ctypes.CDLL(None).fallocate
        punch.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        self.assertEqual(punch(fd, PUNCH, 0, size), 0)
        for change in (lambda: os.ftruncate(fd, 0), lambda: os.ftruncate(fd, 2 * size), lambda: fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)):
            self.assertRaises(PermissionError, change)

    def test_who_spoils_its_memory_spoils_its_own_batches(self):
        self.serve({"name": "feed", "shuffle": 8})
        spoiler, honest, reference = self.peer("spoiler"), self.peer("honest"), self.peer("reference")
        want = [reference.take() for _ in range(12)]
        self.assertEqual([step for step, _ in want], list(range(12)))
        for turn in range(12):
            if turn < 6:
                self.spoil(spoiler)
                self.assertEqual(spoiler.take()[0], turn)
            self.assertEqual(honest.take(), want[turn])
        for turn in range(6, 9):  # were filled when it was last spoilt
            spoiler.take()
        self.assertEqual([spoiler.take() for _ in range(3)], want[9:])
        self.stop_daemon()

    def test_files_of_the_daemon_are_its_own(self):
        """Whatever the umask: nobody else reads or changes what it writes, but for the figures, which go with the socket."""
        before = os.umask(0)
        try:
            self.serve({"name": "feed"})
        finally:
            os.umask(before)
        self.trainer().attach()
        self.trainer().attach(job="other")
        files = {path.name: path.stat().st_mode & 0o777 for path in self.folder.glob("control.sock*")}
        self.assertEqual(files, {"control.sock": 0o666, "control.sock.lock": 0o600, "control.sock.counters": 0o600})  # the first by serve()
        kept = list((self.folder / "cache").rglob("*"))
        self.assertTrue(any(path.suffix == ".index" for path in kept), kept)
        for path in kept:
            self.assertFalse(path.stat().st_mode & 0o077, path)


main()
