"""Peers that break the rules: each is told or closed, another trainer goes on, and nothing of them is left."""
import contextlib
import os
import resource
import struct
import threading
import time

import wire
from harness import *
from wire import Peer, frame, hello, message

MB = 1 << 20


class Hostile(Case):
    def serve(self, **top):
        write_shards(self.folder / "data", shards=2, records=100, width=32, height=32)
        # Of freed memory each heap keeps 1/64 of `memory`: less than what nothing_left allows.
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64}, workers=1, **{"memory": "64MiB", **top})
        self.start_daemon()
        self.good = self.trainer()
        self.good.attach(job="good")
        self.good.send("run", batches=1 << 40, print=0, sleep_us=2000)
        self.goes_on()
        self.before = self.daemon_fds(), self.daemon_threads(), self.daemon_memory()

    def goes_on(self):
        """The good trainer takes batches, and status answers."""
        seen = []

        def more():
            start = time.monotonic()
            seen.append(self.client_status(self.good.pid)["batches"])
            self.assertLess(time.monotonic() - start, 2 * SLACK)
            return seen[-1] >= seen[0] + 20

        wait_for("the good trainer to go on", more)

    def nothing_left(self, slack=12 * MB):
        self.goes_on()
        fds, threads, memory = self.before
        wait_for("descriptors to be closed", lambda: self.daemon_fds() <= fds)
        wait_for("threads to end", lambda: self.daemon_threads() <= threads)
        if not SANITIZE:  # which keeps what is freed
            wait_for("memory to be given back", lambda: self.daemon_memory() <= memory + slack)
        self.assertEqual([c["pid"] for c in self.status()["clients"]], [self.good.pid])
        self.stop_daemon()  # a sanitizer's report fails here

    def peer(self, greet=True):
        peer = Peer(self.socket, greet)
        self.addCleanup(peer.close)
        return peer

    def expect_end(self, peer, *words):
        """An error with these words, then the end."""
        body, error, _ = peer.await_body(wire.ERROR)
        for word in words:
            self.assertIn(word, error[2].decode())
        self.assertIsNone(peer.await_body())

    def test_broken_frames(self):
        self.serve()
        wrong = [struct.pack("<I", 0), struct.pack("<I", 16 * 1024 + 1), b"\xff" * 4, struct.pack("<I", 3) + b"\xff\xff\xff",
                 frame(wire.HELLO, b"\x0a\xff\xff\xff\xff\x0f"), frame(wire.HELLO, message(f3=b"\xff\xfe"))[:-1] + b"\xff" * 8]
        for data in wrong:
            peer = self.peer(greet=False)
            peer.send(data)
            self.expect_end(peer)
            greeted = self.peer()
            greeted.send(data)
            self.assertIsNone(greeted.await_body())
        for size in range(1, len(hello())):  # half a frame, then the end
            peer = Peer(self.socket, greet=False)
            peer.send(hello()[:size])
            peer.close()
        slow = self.peer()
        for byte in frame(wire.PING):
            slow.send(bytes([byte]))
        self.assertEqual(slow.next()[0], wire.PONG)
        slow.close()
        self.assertGreaterEqual(self.status()["malformed_peers"], len(wrong))
        self.nothing_left()

    def flood(self):
        """What many requests, whose answers nobody reads, take of the daemon's memory."""
        peers = []
        for body, payload in [(wire.STATUS, b""), (wire.PING, b""), (wire.FEEDS, b""), (wire.BAD, b""),
                              (wire.SLICES, message(f1="feed", f2=1000)), (200, b"unknown"), (wire.TAKE, b""), (wire.HELLO, b"")] * (1 if SANITIZE else 3):
            peers.append(self.peer())
            peers[-1].flood(frame(body, payload) * 50)
        self.goes_on()
        took = self.daemon_memory()
        if not SANITIZE:
            self.assertLess(took - self.before[2], len(peers) * MB)
        for peer in peers:
            peer.flood(frame(wire.STATUS) * 50)
            peer.close()
        self.goes_on()
        return took

    def test_floods_unread(self):
        self.serve()
        first = self.flood()
        second = self.flood()
        self.assertTrue(SANITIZE or second < first + 4 * MB, (first, second))
        self.nothing_left(slack=24 * MB)  # the heap may keep what it once had

    def test_stopped_with_a_full_socket(self):
        self.serve()
        stopped = os.fork()
        if stopped == 0:
            peer = Peer(self.socket)
            peer.attach()
            for _ in range(3):
                peer.flood(frame(wire.STATUS) * 50)
                time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(1)
        try:
            os.waitpid(stopped, os.WUNTRACED)
            self.goes_on()
            self.assertIsNotNone(self.client_status(stopped))
        finally:
            os.kill(stopped, signal.SIGKILL)
            os.waitpid(stopped, 0)
        self.nothing_left()

    def silent(self, count):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < count + 100:
            self.skipTest(f"only {hard} open files are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        return [Peer(self.socket, greet=False) for _ in range(count)]

    def test_a_thousand_silent(self):
        self.serve()
        peers = self.silent(1000)
        self.goes_on()
        other = self.trainer()
        other.attach(job="other")
        other.next()
        other.call("detach")
        for peer in peers:
            peer.close()
        self.nothing_left()

    def test_more_silent_than_places(self):
        self.serve(clients=3)
        peers = self.silent(200)
        for peer in peers[::7]:  # and idle ones, which no clock ends
            peer.flood(hello(), len(hello()))
        self.goes_on()
        other = self.trainer()
        other.attach(job="other")
        other.next()
        other.call("detach")
        for peer in peers:
            peer.close()
        self.nothing_left()

    def test_attach_twice(self):
        self.serve()
        peer = self.peer()
        peer.send(wire.attach(ident=5) + wire.attach(ident=6) + wire.attach(feed="nothing", ident=7))
        answers = {}
        while len(answers) < 3:
            body, fields, ident = peer.await_body(wire.ATTACH_REPLY, wire.ERROR)
            answers[ident] = (body, fields)
        self.assertEqual(answers[5][0], wire.ATTACH_REPLY)
        for ident in (6, 7):
            self.assertIn(b"attached already", answers[ident][1][2])
        rival = self.peer()
        rival.send(wire.attach())
        body, fields, _ = rival.await_body(wire.ERROR)
        self.assertIn(str(os.getpid()).encode(), fields[2])  # the holder of the rank
        peer.close()
        rival.close()
        self.nothing_left()

    def test_foreign_slots(self):
        self.serve()
        peer = self.peer()
        peer.attach(slots=3)
        _, ready, _ = peer.await_body(wire.READY)
        slot, generation = ready.get(1, 0), ready[2]
        wrong = [(slot, generation + 1), (slot, 0), (3, 1), (64, 1), (2**32 - 1, generation), (slot, 2**64 - 1)]
        for number, (s, g) in enumerate(wrong):
            for body in (wire.TAKE, wire.RELEASE):
                peer.send(frame(body, message(f1=s, f2=g, f3=2**64 - 1), 100 + number))
                _, error, ident = peer.await_body(wire.ERROR)
                self.assertEqual((error[1], ident), (15, 100 + number))  # BAD_RELEASE
        for body, fine in [(wire.TAKE, True), (wire.TAKE, False), (wire.RELEASE, True), (wire.RELEASE, False)]:
            peer.send(frame(body, message(f1=slot, f2=generation, f3=2**63), 7) + frame(wire.PING, b"", 8))
            first = peer.await_body(wire.ERROR, wire.PONG)[0]
            self.assertEqual(first, wire.PONG if fine else wire.ERROR)
            if not fine:
                peer.await_body(wire.PONG)
        peer.close()
        self.nothing_left()

    def test_seek_storm(self):
        self.serve()
        peer = self.peer()
        peer.attach()
        storm = b"".join(frame(wire.SEEK, message(f1=epoch), epoch + 10) for epoch in range(100))
        for _ in range(20):
            peer.flood(storm, len(storm))
        self.goes_on()
        peer.send(frame(wire.SEEK, message(f1=12345), 9))
        while peer.await_body(wire.SEEK_REPLY)[2] != 9:
            pass
        _, ready, _ = peer.await_body(wire.READY)
        self.assertEqual((ready[3], ready.get(4, 0)), (12345, 0))
        peer.send(frame(wire.SEEK, message(f1=2**64 - 1), 11))
        _, error, ident = peer.await_body(wire.ERROR)
        self.assertEqual(ident, 11)
        peer.close()
        self.nothing_left()

    def test_names(self):
        self.serve()
        peer = self.peer(greet=False)
        peer.send(hello("\x1b[2J" + "p" * 15000))
        self.assertEqual(peer.next()[0], wire.HELLO_REPLY)
        for name in ("", "x" * 129, "f" * 16000, "a b", "../..", "feed\n", "\x1b[31mfeed", "\u202efeed", "no-such"):
            for request in (wire.attach(feed=name), wire.attach(job=name) if name not in ("", "../..", "no-such") else b"",
                            frame(wire.SLICES, message(f1=name, f2=1), 2), frame(wire.BAD, message(f1=name), 2) if name else b""):
                if not request:
                    continue
                peer.send(request)
                _, error, ident = peer.await_body(wire.ERROR)
                self.assertEqual(ident, 2)
                self.assertFalse(any(byte < 32 or byte == 127 for byte in error[2]), error)
                self.assertLess(len(error[2]), 1000)
        for numbers in ({"world": 65537}, {"rank": 65536}, {"batch": 2**64 - 1}, {"slots": 1}, {"slots": 65}, {"epoch": 2**24},
                        {"rank": 5, "world": 5}, {"world": 0}):
            peer.send(wire.attach(**numbers))
            self.assertEqual(peer.await_body(wire.ERROR, wire.ATTACH_REPLY)[0], wire.ERROR, numbers)
        self.assertNotIn("\x1b", self.log())
        peer.close()
        self.nothing_left()

    def test_talking_while_detaching(self):
        self.serve()
        for cut in range(6):
            peer = self.peer()
            peer.attach()
            talk = [frame(wire.DETACH, b"", 50), frame(wire.TAKE, message(f1=0, f2=1), 51), frame(wire.STATUS, b"", 52),
                    frame(wire.SEEK, message(f1=3), 53), frame(wire.DETACH, b"", 54), wire.attach(ident=55)]
            peer.send(b"".join(talk[:cut + 1]))
            if cut == 5:  # an attach is refused until the memory is back
                idents = {}
                while 50 not in idents or 55 not in idents:
                    got = peer.next()
                    idents[got[2]] = got[0]
                self.assertEqual([idents[i] for i in (50, 51, 52, 53, 54)], [wire.DETACH_REPLY, wire.ERROR, wire.STATUS_REPLY, wire.ERROR, wire.ERROR])
                peer.attach()
            peer.close()
        self.nothing_left()

    def test_descriptors_sent(self):
        self.serve()
        with open("/dev/null", "rb") as null:
            for _ in range(20):
                peer = self.peer(greet=False)
                peer.send_fds(hello(), [null.fileno()] * 200)
                self.assertEqual(peer.next()[0], wire.HELLO_REPLY)
                peer.send_fds(frame(wire.PING), [null.fileno()])
                self.assertEqual(peer.next()[0], wire.PONG)
                self.assertLessEqual(self.daemon_fds(), self.before[0] + 3)
                peer.close()
        self.nothing_left()

    def test_closing_in_each_state(self):
        self.serve()
        talks = [b"", hello()[:7], hello(), hello() + wire.attach(), hello() + wire.attach()[:20],
                 hello() + wire.attach() + frame(wire.DETACH), hello() + frame(wire.SLICES, message(f1="feed", f2=65536)),
                 hello() + frame(wire.BAD), hello() + frame(wire.STATUS) * 10, hello() + wire.attach() + frame(wire.SEEK, message(f1=9))]
        for turn in range(60):
            peer = Peer(self.socket, greet=False)
            peer.send(talks[turn % len(talks)])
            time.sleep((turn // len(talks)) * 0.004)
            if turn % 3:
                peer.socket.shutdown([None, 0, 1][turn % 3])
            peer.close()
        self.nothing_left()

    def test_daemon_stops_among_them(self):
        self.serve()
        peers = [self.peer(greet=turn % 2 == 0) for turn in range(20)]
        for turn, peer in enumerate(peers[::2]):
            peer.send(wire.attach(job=f"job{turn}"))
        for peer in peers[::4]:
            peer.flood(frame(wire.STATUS) * 50)
        stop = threading.Event()

        def storm():  # attaches all through the stop
            while not stop.is_set():
                with contextlib.suppress(OSError), contextlib.closing(Peer(self.socket, greet=False)) as peer:
                    peer.send(hello() + wire.attach(job="storm"))

        thread = threading.Thread(target=storm)
        thread.start()
        try:
            start = time.monotonic()
            self.stop_daemon()
            self.assertLess(time.monotonic() - start, 5 * SLACK)
        finally:
            stop.set()
            thread.join()
        self.assertFalse(self.socket.exists())


main()
