"""Feeds of a client's own, by hand: it opens the shards, so its rights count, and whatever it says or leaves unsaid costs nobody else."""
import contextlib
import os
import resource
import shutil
import socket
import struct

import wire
from harness import *
from wire import Peer, give_feed, give_files

U1, U2, NOBODYS = 61001, 61002, 61003
LABELS = json.dumps({"name": "mine", "batch": 4, "shuffle": 0, "tail": "partial", "fields": [{"name": "label", "from": "cls", "kind": "int"}]})


@contextlib.contextmanager
def as_user(uid):
    """Files are opened and sockets connected as this user; the daemon asks the kernel, which tells it so."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


class OwnFeeds(Case):
    def setUp(self):
        need_root()
        super().setUp()
        os.chmod(self.folder, 0o777)
        self.records = 20
        write_shards(self.folder / "data", shards=4, records=self.records, width=16, height=16)
        self.shards = sorted((self.folder / "data").iterdir())
        for path in self.shards:  # of U1, and for nobody else
            os.chown(path, U1, U1)
            os.chmod(path, 0o600)
        os.chmod(self.folder / "data", 0o755)

    def serve(self, env=None, **top):
        write_shards(self.folder / "open", shards=1, records=8, width=16, height=16)
        self.config({"source": str(self.folder / "open/*.tar"), "batch": 4}, workers=1, **{"memory": "64MiB", **top})
        self.start_daemon(preexec_fn=become(NOBODYS), env=env)
        os.chmod(self.socket, 0o666)
        self.rest = self.daemon_fds()

    def peer(self, uid=U1, version=2, **options):
        with as_user(uid):
            peer = Peer(self.socket, version=version, **options)
        self.addCleanup(peer.close)
        return peer

    def give(self, uid=U1, recipe=LABELS, paths=None, **options):
        peer = self.peer(uid)
        with as_user(uid):
            return peer, peer.give(recipe, paths or self.shards, **options)

    def refused(self, peer, *words):
        body, error, _ = peer.await_body(wire.ERROR, wire.GIVE_FEED_REPLY, wire.GIVE_FILES_REPLY)
        self.assertEqual(body, wire.ERROR, error)
        for word in words:
            self.assertIn(word, error[2].decode())

    def nothing_left(self):
        wait_for("descriptors to be closed", lambda: self.daemon_fds() <= self.rest)

    def read_all(self, peer, feed, job="all"):
        """Rows and valid rows of an epoch."""
        steps = peer.attach(feed=feed, job=job)[8]
        rows = valid = 0
        for _ in range(steps):
            _, ready, _ = peer.await_body(wire.READY)
            rows += ready[5]
            valid += ready.get(6, 0)
            place = wire.message(f1=ready.get(1, 0), f2=ready[2])
            peer.send(wire.frame(wire.TAKE, place) + wire.frame(wire.RELEASE, place))
        return rows, valid

    def test_files_that_only_the_client_may_read(self):
        self.serve()
        with self.assertRaises(PermissionError), as_user(NOBODYS):
            open(self.shards[0], "rb")
        peer, feed = self.give(at_a_time=3)
        self.assertEqual(feed, f"~{U1}/mine")
        self.assertEqual(self.read_all(peer, feed), (80, 80))
        feeds = json.loads(self.ctl("feeds", "--json").stdout)["feeds"]
        self.assertEqual([f["name"] for f in feeds], ["feed", feed])
        self.assertIn(feed, [f["name"] for f in self.status()["feeds"]])
        # Nobody else may have anything of it: neither another user nor the daemon's own, nor root.
        for uid in (U2, NOBODYS, 0):
            other = self.peer(uid)
            other.send(wire.attach(feed=feed))
            self.refused(other, "its user's own")
            other.send(wire.frame(wire.SLICES, wire.message(f5=wire.message(f1=feed))))
            self.refused(other, "its user's own")
        peer.send(wire.frame(wire.BAD, wire.message(f1=feed)))
        self.assertEqual(peer.await_body(wire.BAD_REPLY, wire.ERROR)[0], wire.BAD_REPLY)
        done = subprocess.run([str(CTL), "--socket", str(self.socket), "slices", feed, "--world", "2"], capture_output=True, text=True, preexec_fn=become(U1))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_server_that_does_not_know_the_daemon(self):
        """As NFS with Kerberos: the daemon has no ticket to ask about a file, but its user has opened it and it can be read."""
        if SANITIZE:
            self.skipTest("its runtime does not bear a library that is loaded before it")
        self.serve(env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_WHOLLY": "/data/", "SLOW_STORAGE_DENY": "1"})
        peer, feed = self.give()
        self.assertEqual(self.read_all(peer, feed), (80, 80))

    def test_ranks_meet_in_one_job(self):
        self.serve()
        first, feed = self.give()
        held = self.daemon_fds()
        second, again = self.give()
        self.assertEqual(feed, again)
        wait_for("the same files to be closed", lambda: self.daemon_fds() <= held + 2)  # the connection and its lease
        a = first.attach(feed=feed, job="j", rank=0, world=2)
        b = second.attach(feed=feed, job="j", rank=1, world=2)
        self.assertEqual(a[12], b[12])  # plan id
        # Another recipe under the name: the job goes on with its own, and a new one has the new.
        third, changed = self.give(recipe=LABELS.replace('"batch": 4', '"batch": 8'))
        self.assertEqual(changed, feed)
        self.assertEqual(third.attach(feed=feed, job="k", rank=0, world=1)[4], 8)
        first.close()
        first = self.peer()
        with as_user(U1):
            self.assertEqual(first.give(LABELS, self.shards), feed)
        self.assertEqual(self.read_all(self.peer(), feed), (80, 80))

    def test_jobs_that_have_one_name_for_their_feeds(self):
        """Each reads what its own connection has given, whichever has given last."""
        self.serve()
        peers = [self.give(paths=self.shards[number:]) for number in range(3)]
        self.assertEqual([self.read_all(peer, feed, f"j{number}") for number, (peer, feed) in enumerate(peers)], [(80, 80), (60, 60), (40, 40)])

    def test_what_is_given_is_looked_at(self):
        self.serve()
        pipe = os.pipe()
        there = socket.socketpair()
        odd = {"directory": os.open(self.folder, os.O_RDONLY), "pipe": pipe[0], "socket": there[0].fileno(), "character device": os.open("/dev/null", os.O_RDONLY),
               "not open for reading": os.open(self.folder / "w", os.O_WRONLY | os.O_CREAT), "is not open": os.open(self.shards[0], os.O_PATH)}
        for words, fd in odd.items():
            peer = self.peer()
            peer.send(give_feed(LABELS, 1))
            self.assertEqual(peer.await_body(wire.GIVE_FEED_REPLY, wire.ERROR)[0], wire.GIVE_FEED_REPLY)
            peer.send_fds(give_files(["odd\n\x1b[1m"]), [fd])
            self.refused(peer, words, "odd\\x0A")
            with as_user(U1):
                self.assertEqual(peer.give(LABELS, self.shards), f"~{U1}/mine")  # after an Error from the start
            peer.close()
        for fd in (pipe[1], *(fd for what, fd in odd.items() if what != "socket")):
            os.close(fd)
        for end in there:
            end.close()
        self.assertNotIn("\x1b", self.log())

    def test_recipes_that_say_too_much(self):
        self.serve()
        (self.folder / "keys").write_text("000001\n", encoding="utf-8")
        peer = self.peer()
        for recipe, *words in ((LABELS[:-1] + ', "exclude": "%s"}' % (self.folder / "keys"), "recipe:1: exclude", "opens no file"),
                               ("name: x\nsource: /etc/passwd\n", "recipe:2: source", "leave it out"), ("name: x\nfolder: /etc\n", "recipe:2: folder"),
                               ("name: x\nallow: {users: [root]}\n", "recipe:2: allow", "its user alone"), ("name: x\nbatches: 4\n", "recipe:2: batches", "unknown key"),
                               ("name: ../x y\n", "recipe:1: name"), ("[1]", "recipe:1:", "mapping"), ("", "recipe:1"), ("name: " + "n" * 122, "recipe:1: name", "at most 128"),
                               ("batch: 4\n", "recipe:1: name", "needs a name"), ("name: [", "recipe:", "not valid YAML"), ("#" * 13000, "13000 bytes")):
            peer.send(give_feed(recipe, 1))
            self.refused(peer, *words)
        for files in (0, 65537):
            peer.send(give_feed(LABELS, files))
            self.refused(peer, f"{files} files")
        self.nothing_left_but(peer)

    def nothing_left_but(self, peer):
        self.assertEqual([feed["name"] for feed in self.status()["feeds"]], ["feed"])
        peer.close()
        self.nothing_left()

    def test_peers_that_break_the_rules(self):
        self.serve()
        fd = os.open(self.shards[0], os.O_RDONLY)
        self.addCleanup(os.close, fd)
        peer = self.peer()
        peer.send_fds(give_files(["a"]), [fd])  # nothing takes descriptors yet
        self.refused(peer, "GiveFeed comes first")
        for names, fds, words in ((["a"], 2, "2 descriptors came with 1 name"), (["a", "b"], 1, "1 descriptor came with 2 names"), ([], 0, "0 files came"), ([], 1, "0 names"),
                                  (["a"] * 4, 4, "lacks 3 of 3"), ([""], 1, "1 to 1000 bytes"), (["n" * 1001], 1, "has 1001"), (["a"], 0, "0 descriptors came")):
            peer.send(give_feed(LABELS, 3))
            self.assertEqual(peer.await_body(wire.GIVE_FEED_REPLY, wire.ERROR)[0], wire.GIVE_FEED_REPLY)
            peer.send_fds(give_files(names), [fd] * fds)
            self.refused(peer, words)
        peer.send(give_feed(LABELS, 3))
        peer.await_body(wire.GIVE_FEED_REPLY)
        peer.send_fds(wire.frame(wire.PING), [fd])
        self.refused(peer, "came with a message that takes none")
        peer.send(give_feed(LABELS, 3))
        peer.await_body(wire.GIVE_FEED_REPLY)
        peer.send(give_feed(LABELS, 3))
        self.refused(peer, "one at a time")
        peer.send_fds(give_files(["a"]), [fd])
        self.assertEqual(peer.await_body(wire.GIVE_FILES_REPLY, wire.ERROR)[1][1], 1)
        # More on one frame than a frame may have, and more with the rest of one: the connection ends.
        peer.send_fds(give_files(["a"] * 33), [fd] * 33)
        self.refused(peer, "more than 32 descriptors")
        self.assertIsNone(peer.await_body())
        peer = self.peer()
        peer.send(give_feed(LABELS, 3))
        peer.await_body(wire.GIVE_FEED_REPLY)
        with contextlib.suppress(BrokenPipeError):
            for byte in give_files(["a"])[:3]:
                peer.send_fds(bytes([byte]), [fd])
        self.refused(peer, "could not be understood")
        # One that leaves in the middle, of a frame too.
        peer = self.peer()
        peer.send(give_feed(LABELS, 3))
        peer.await_body(wire.GIVE_FEED_REPLY)
        peer.send_fds(give_files(["a"]), [fd])
        peer.send_fds(give_files(["b"])[:5], [fd])
        peer.close()
        self.nothing_left()
        self.assertEqual([feed["name"] for feed in self.status()["feeds"]], ["feed"])

    def test_version_1(self):
        self.serve()
        peer = self.peer(version=1)
        peer.send(give_feed(LABELS, 1))
        self.refused(peer, "does not know this request")
        self.assertEqual(peer.attach(feed="feed")[3], 1)

    def test_not_wanted(self):
        self.serve(own_feeds=False)
        peer = self.peer()
        peer.send(give_feed(LABELS, 1))
        self.refused(peer, "own_feeds: no")
        self.config({"source": str(self.folder / "open/*.tar"), "batch": 4}, workers=1)
        self.ctl("reload")
        with as_user(U1):
            self.assertEqual(peer.give(LABELS, self.shards), f"~{U1}/mine")
        self.ctl("reload")
        self.assertEqual(self.read_all(peer, f"~{U1}/mine"), (80, 80))  # which no configuration has, and none takes away

    def test_cut_while_it_is_read(self):
        self.serve()
        peer, feed = self.give(recipe=LABELS.replace('"partial"', '"wrap"'))
        peer.attach(feed=feed, job="j")
        os.truncate(self.shards[3], os.stat(self.shards[3]).st_size // 2)
        bad = 0
        for _ in range(40):
            _, ready, _ = peer.await_body(wire.READY, wire.ERROR)
            bad += ready[5] - ready.get(6, 0)
            place = wire.message(f1=ready.get(1, 0), f2=ready[2])
            peer.send(wire.frame(wire.TAKE, place) + wire.frame(wire.RELEASE, place))
        self.assertGreater(bad, 0)
        peer.send(wire.frame(wire.BAD, wire.message(f1=feed)))
        self.assertIn(3, peer.await_body(wire.BAD_REPLY)[1])  # total
        # Given again it is another state of the file: a new job reads what is there now.
        again, same = self.give()
        rows, valid = self.read_all(again, same)
        self.assertLess(rows, 80)
        self.assertEqual(rows, valid)

    def test_a_cache_that_nobody_poisons(self):
        """A file of the size, the time and the ends of a configured shard, with other records within."""
        members = [(f"{i:03d}.cls", b"7" * 600) for i in range(400)]
        wire_tar = self.folder / "open" / "data-00000.tar"
        self.serve()
        write_tar(wire_tar, members)
        forged = self.folder / "forged.tar"
        data = bytearray(wire_tar.read_bytes())
        self.assertGreater(len(data), 400000)
        middle = len(data) // 2 // 1536 * 1536
        data[middle:middle + 3] = b"xxx"  # another key
        checksum = data[middle + 148:middle + 156]
        data[middle + 148:middle + 156] = b" " * 8
        data[middle + 148:middle + 156] = b"%06o\0 " % sum(data[middle:middle + 512])
        self.assertNotEqual(bytes(checksum), bytes(data[middle + 148:middle + 156]))
        forged.write_bytes(data)
        os.utime(wire_tar, (10**9, 10**9))
        os.utime(forged, (10**9, 10**9))
        peer, feed = self.give(paths=[forged])
        recipe_fields = json.loads(LABELS)["fields"]
        mine = peer.attach(feed=feed, job="j")[13]
        self.config({"source": str(wire_tar), "batch": 4, "fields": recipe_fields}, workers=1)
        self.ctl("reload")
        theirs = self.peer().attach(feed="feed", job="j")[13]
        self.assertNotEqual(mine, theirs)  # fingerprints: each of its own records

    def test_limits(self):
        self.serve()
        many = [self.shards[0]] * 5000
        peer, text = self.give(paths=many)
        self.assertIn("would have 5000: 4096 are possible", text)
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4 * 4096:
            full = [self.shards[0]] * 4096
            with as_user(U1):
                for paths in (full, full):  # as many as there may be; again they take no more
                    self.assertEqual(peer.give(LABELS, paths), f"~{U1}/mine")
                self.assertIn("would have 41", peer.give(LABELS, [self.shards[1]] * 4096))  # until the old ones have gone
                wait_for("those to be closed", lambda: peer.give(LABELS, full[:1]) == f"~{U1}/mine")
            wait_for("the last of them to be closed", lambda: self.daemon_fds() < self.rest + 100)
        names = [json.dumps({**json.loads(LABELS), "name": f"f{i}"}) for i in range(65)]
        with as_user(U1):
            for i in range(64):
                self.assertEqual(peer.give(names[i], self.shards[:1]), f"~{U1}/f{i}")
            self.assertEqual(peer.give(names[64], self.shards[:1]), f"~{U1}/f64")  # in the place of one that nobody uses
        self.assertEqual(len(self.status()["feeds"]), 65)
        peers = []
        with as_user(U1):
            for i in range(63):
                peers.append(Peer(self.socket, version=2))
                self.addCleanup(peers[-1].close)
                self.assertEqual(peers[-1].give(names[i], self.shards[:1]), f"~{U1}/f{i}")
            self.assertIn("64 feeds of uid", peer.give(names[63], self.shards[:1]))
            for one in peers:
                one.close()
            wait_for("a place", lambda: peer.give(names[63], self.shards[:1]) == f"~{U1}/f63")

    def begin_to_give(self, name):
        peer = self.peer()
        peer.send(give_feed(LABELS.replace("mine", name), 2))
        peer.await_body(wire.GIVE_FEED_REPLY)
        with open(self.shards[0], "rb") as shard:
            peer.send_fds(give_files(["a"]), [shard.fileno()])
        return peer

    def progress(self, peer):
        got = peer.await_body(wire.PROGRESS, wire.GIVE_FILES_REPLY, wire.ATTACH_REPLY, wire.ERROR)
        self.assertEqual(got[0], wire.PROGRESS, got)
        return got[1][1].decode()

    def serve_what_hangs(self):
        if SANITIZE:
            self.skipTest("its runtime does not bear a library that is loaded before it")
        hold = self.folder / "hold"
        self.serve(env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_WHOLLY": "/data/", "SLOW_STORAGE_HANG": str(hold)})
        peer, feed = self.give()
        hold.touch()
        return peer, feed, hold

    def test_storage_that_hangs(self):
        """Of one user: looks at his files, reads and closes. He waits, and nobody else does."""
        peer, feed, hold = self.serve_what_hangs()
        threads = self.daemon_threads()
        givers = [self.begin_to_give(f"hangs{i}") for i in range(4)]
        trainers = [self.peer() for _ in range(3)]
        for i, trainer in enumerate(trainers):  # they wait behind his own
            trainer.send(wire.attach(feed=feed, job=f"j{i}"))
        self.assertEqual([self.progress(giver) for giver in givers], ["looking at the files of feed ~61001/hangs0", "looking at the files of feed ~61001/hangs1"] +
                         [f"waiting for {before} openings of the same user's files and data sets" for before in (2, 3)])
        for trainer in trainers:
            self.assertIn("waiting for 4 openings", self.progress(trainer))
        self.assertIn("openings of the same user", self.status()["clients"][0]["reason"])
        shutil.copytree(self.folder / "data", self.folder / "other")
        for path in (self.folder / "other").iterdir():
            os.chown(path, U2, U2)
        with as_user(U2):
            other = Peer(self.socket, version=2)
            self.addCleanup(other.close)
            theirs = other.give(LABELS, sorted((self.folder / "other").iterdir()))
        self.assertEqual(self.read_all(other, theirs), (80, 80))
        self.peer(U2).attach(feed="feed")
        self.assertLess(self.daemon_threads() - threads, 24)
        for one in trainers:
            one.close()
        peer.close()
        hold.unlink()
        self.assertEqual(self.read_all(self.peer(), feed), (80, 80))

    def test_shards_that_hang_while_they_are_indexed(self):
        if not LONG:
            self.skipTest("DATALOADD_LONG=1: some seconds")
        peer, feed, hold = self.serve_what_hangs()
        refused = []
        for i in range(4):  # who goes leaves threads behind, and cannot do so for ever
            trainer = self.peer()
            trainer.send(wire.attach(feed=feed, job=f"j{i}"))
            got = trainer.await_body(wire.PROGRESS, wire.ERROR)
            refused.append(got[0] == wire.ERROR and got[1][2].decode())
            trainer.close()
            wait_for("its end", lambda: not self.status()["clients"])
            time.sleep(1.1)  # an opening that nobody waits for sees so within a second
        self.assertEqual(refused[:2], [False, False])
        self.assertIn("2 indexings of files of uid 61001 were given up and still hang", refused[3])
        self.peer().attach(feed="feed")
        hold.unlink()
        wait_for("the threads to end", lambda: not isinstance(self.try_attach(feed), str))

    def try_attach(self, feed):
        peer = self.peer()
        peer.send(wire.attach(feed=feed, job="j"))
        got = peer.await_body(wire.ATTACH_REPLY, wire.ERROR)
        peer.close()
        return got[1][2].decode() if got[0] == wire.ERROR else True


main()
