"""The HTTP port: pages for everybody on this machine, and peers that break the rules while a trainer goes on."""
import contextlib
import http.client
import socket

from harness import *


class Http(Case):
    def serve(self, metrics="127.0.0.1:0", **top):
        write_shards(self.folder / "data", shards=2, records=100, width=32, height=32)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64}, workers=1, metrics=metrics, **{"memory": "64MiB", **top})
        self.start_daemon()

    def words(self):
        return self.status()["http"]

    def port(self):
        return int(self.words().rpartition(":")[2])

    def ask(self, path="/metrics", method="GET", host=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=30)
        self.addCleanup(connection.close)
        connection.putrequest(method, path, skip_host=True)
        for name, value in {**({} if host == "" else {"Host": host or "127.0.0.1"}), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        reply = connection.getresponse()
        return reply, reply.read().decode()

    def scrape(self):
        """As soon as one comes through: strangers have the same places."""
        def once():
            try:
                reply, text = self.ask()
            except (OSError, http.client.HTTPException):
                return False
            return reply.status == 200 and text.endswith("\n")

        wait_for("a page in spite of them", once)


class Pages(Http):
    def test_pages(self):
        self.serve()
        self.assertIn(self.words(), self.ctl("status").stdout)
        self.assertIn(f"figures at {self.words()}/metrics", self.log())
        reply, text = self.ask()
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertIn("\ndataload_feed_clients", text)
        self.assertEqual(reply.headers["Connection"], "close")
        self.assertIsNone(reply.headers["Access-Control-Allow-Origin"])
        head, nothing = self.ask(method="HEAD", path="/metrics?x=y")
        self.assertEqual((head.status, nothing), (200, ""))
        for host in ("localhost", "LOCALHOST:1", "[::1]:80"):
            self.assertEqual(self.ask(host=host)[0].status, 200, host)
        for host in ("", "evil.example", "127.0.0.1.evil.example:9475", "localhost.", "x" * 300):
            self.assertEqual(self.ask(host=host)[0].status, 403, host)
        reply, text = self.ask("/nothing/here?<x>")
        self.assertEqual((reply.status, text), (404, f"no page 'nothing/here'; there are: {text.partition('are: ')[2]}"))
        self.assertIn("metrics", text)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "BREW"):
            reply, _ = self.ask(method=method)
            self.assertEqual((reply.status, reply.headers["Allow"]), (405, "GET, HEAD"), method)

    def test_a_taken_port_is_tried_again(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.serve(metrics=address)
            self.assertIn(f"no HTTP at {address}: Address already in use", self.words())
        wait_for("the port", lambda: self.words() == f"http://{address}")
        self.scrape()

    def test_no_shard_and_no_key_is_named(self):
        (self.folder / "data").mkdir()
        write_tar(self.folder / "data/odd.tar", [("lonely.jpg", b"")])
        self.serve()
        trainer = self.trainer()
        trainer.attach()
        trainer.next()
        self.assertIn("odd.tar: lonely", " ".join(self.status()["feeds"][0]["notes"]))
        for page in ("/report.json", "/report.html", "/metrics"):
            reply, text = self.ask(page)
            self.assertEqual(reply.status, 200)
            for word in ("lonely", ".tar"):
                self.assertNotIn(word, text, page)

    def test_another_port_has_to_wait(self):
        self.serve()
        path = self.folder / "dataloadd.yaml"
        text = path.read_text()
        for other, keys in ((text, []), (text.replace("127.0.0.1:0", "127.0.0.1:1"), ["metrics"])):
            self.assertTrue(not keys or other != text)
            path.write_text(other)
            notes = json.loads(self.ctl("reload", "--json").stdout)["notes"]
            self.assertEqual([note.partition(":")[0] for note in notes], keys)

    def test_the_other_loopback(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            self.skipTest(f"no IPv6 loopback here: {error}")
        self.serve(metrics="[::1]:0")
        connection = http.client.HTTPConnection("::1", self.port(), timeout=30)
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics")
        self.assertEqual(connection.getresponse().status, 200)


class Strangers(Http):
    def serve(self, **top):
        super().serve(**top)
        self.good = self.trainer()
        self.good.attach()
        self.good.send("run", batches=1 << 40, print=0, sleep_us=2000)
        self.scrape()
        self.goes_on()
        self.before = self.daemon_fds()
        self.there = self.port()

    def goes_on(self):
        taken = self.client_status(self.good.pid)["batches"]
        wait_for("the trainer to go on", lambda: self.client_status(self.good.pid)["batches"] >= taken + 20)

    def connect(self, data=b""):
        stranger = socket.create_connection(("127.0.0.1", self.there), timeout=30)
        self.addCleanup(stranger.close)
        with contextlib.suppress(OSError):  # it was shown the door
            stranger.sendall(data)
        return stranger

    def nothing_left(self):
        self.goes_on()
        self.scrape()
        wait_for("descriptors to be closed", lambda: self.daemon_fds() <= self.before)
        for data in (b"", b"GET /metrics", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") * 3:
            self.connect(data)
        start = time.monotonic()
        self.stop_daemon()  # nor do those who are there keep it
        self.assertLess(time.monotonic() - start, 5 * SLACK)

    def test_many_silent(self):
        self.serve()
        silent = [self.connect(data) for data in (b"", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n") for _ in range(100 if SANITIZE else 500)]
        self.goes_on()
        self.scrape()
        self.assertLessEqual(self.daemon_fds(), self.before + 40)  # twice 16 of theirs, and what status takes
        self.assertTrue(silent)
        self.nothing_left()  # they never close: their time is up

    def test_slow(self):
        """A byte at a time, in both directions."""
        self.serve()
        request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 4000
        slow = [self.connect(request[:1]) for _ in range(8)]
        for byte in range(1, 40):
            for stranger in slow:
                with contextlib.suppress(OSError):
                    stranger.send(request[byte:byte + 1])
            time.sleep(0.05)
        unread = [self.connect(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100) for _ in range(8)]
        self.goes_on()
        self.scrape()
        for stranger in slow + unread:
            wait_for("its end", lambda: self.ended(stranger))
        self.nothing_left()

    @staticmethod
    def ended(stranger):
        try:
            return stranger.recv(1 << 16) == b""
        except OSError:
            return True

    def test_garbage(self):
        self.serve()
        rng = random.Random(1)
        lines = [b"GET", b"GET /", b"GET / HTTP/1.1", b"GET /metrics HTTP/9.9", b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0", b"GET /%00%ff%zz HTTP/1.1",
                 b"GET http://evil.example/ HTTP/1.1", b"GET /" + b"a" * 60000 + b" HTTP/1.1", b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999",
                 b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff",
                 b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 5000]
        lines += [rng.randbytes(rng.randrange(1, 3000)) for _ in range(100)]
        for line in lines:
            stranger = self.connect(line + b"\r\n\r\n")
            with contextlib.suppress(OSError):
                stranger.shutdown(socket.SHUT_WR)
            wait_for("its end", lambda: self.ended(stranger))
        self.scrape()
        self.nothing_left()


main()
