"""Long questions (find, mix, batch) beside trainers: they slow nobody, and an end in the middle of one leaves nothing behind."""
import json

from harness import *
import wire

MIX, MIX_REPLY, FIND, FIND_REPLY = 40, 41, 44, 45
ASKERS = 12 if SANITIZE else 40


class Questions(Case):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "pictures", shards=2, records=40)
        (self.folder / "many").mkdir()
        write_tar(self.folder / "many/0.tar", [m for i in range(3000 if SANITIZE else 12000) for m in ((f"{i:06d}.bin", b"x" * (1 + i % 7)), (f"{i:06d}.cls", b"1"))])
        raw = [{"name": "raw", "from": "bin", "kind": "bytes"}, {"name": "label", "from": "cls", "kind": "int"}]
        self.config([{"name": "feed", "source": str(self.folder / "pictures/*.tar"), "batch": 4},
                     {"name": "many", "source": str(self.folder / "many/*.tar"), "batch": 50, "fields": raw}])
        self.start_daemon()
        self.ctl("slices", "many", "--world", 1)  # indexed from here on
        self.ctl("slices", "feed", "--world", 1)
        self.askers = []
        self.addCleanup(self.end_askers)

    def end_askers(self):
        for asker in self.askers:
            asker.kill()
            asker.communicate()

    def ask(self, count):
        """Questions that take the daemon long; all are connected."""
        wait_for("the connections before to end", lambda: self.connections() == 0)
        for _ in range(count):
            self.askers.append(subprocess.Popen([str(CTL), "--socket", str(self.socket), "find", "many", "000007", "--epochs", "1000"],
                                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        wait_for("the questions", lambda: self.connections() == count)

    def connections(self):
        lines = pathlib.Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
        return sum(line.split()[5] == "03" and line.endswith(f" {self.socket}") for line in lines[1:])

    def busy(self):
        return [asker for asker in self.askers if asker.poll() is None]

    def test_attaches_do_not_wait_for_questions(self):
        self.ask(ASKERS)
        trainer = self.trainer()
        trainer.attach()
        self.assertEqual(len(trainer.run(batches=10, print=1)), 10)
        self.ctl("ping")
        self.assertGreater(len(self.busy()), ASKERS * 3 // 4)

    def test_askers_that_are_killed_give_their_places_to_others(self):
        threads = self.daemon_threads()
        self.ask(6)
        wait_for("the first to be reckoned", lambda: self.daemon_threads() > threads)
        self.end_askers()
        wait_for("the threads to end", lambda: self.daemon_threads() <= threads)
        self.assertIn("well mixed", self.ctl("mix", "feed").stdout)

    def test_a_stop_in_the_middle_of_questions(self):
        threads = self.daemon_threads()
        self.ask(8)
        wait_for("the first to be reckoned", lambda: self.daemon_threads() > threads)
        self.stop_daemon(seconds=10)
        self.assertNotIn("without waiting", self.log())
        for asker in self.askers:
            out, said = asker.communicate()
            self.assertEqual((asker.returncode, out, len(said.splitlines())), (69, "", 1), said)
            self.assertIn("closed the connection", said)

    def test_a_stop_while_labels_are_read(self):
        """From slow storage, for mix."""
        if SANITIZE:
            self.skipTest("a preloaded library and a sanitizer do not get along")
        self.stop_daemon()
        write_tar(self.folder / "far.tar", [m for i in range(400) for m in ((f"{i:03d}.bin", bytes(66 << 10)), (f"{i:03d}.cls", b"1"))])
        raw = [{"name": "raw", "from": "bin", "kind": "bytes"}, {"name": "label", "from": "cls", "kind": "int"}]
        self.config({"source": str(self.folder / "far.tar"), "batch": 4, "fields": raw})
        self.start_daemon()
        self.ctl("slices", "feed", "--world", 1)  # indexed
        self.stop_daemon()
        self.start_daemon(env={"LD_PRELOAD": str(BUILD / "tests/e2e/libslow_storage.so"), "SLOW_STORAGE_MS": "50"})
        self.ctl("slices", "feed", "--world", 1)  # open
        threads = self.daemon_threads()
        self.askers.append(subprocess.Popen([str(CTL), "--socket", str(self.socket), "mix", "feed"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        wait_for("the labels to be read", lambda: self.daemon_threads() > threads)
        self.stop_daemon(seconds=10)
        self.assertNotIn("without waiting", self.log())

    def test_two_hundred_askers_while_trainers_run(self):
        trainers = [self.trainer() for _ in range(2)]
        for rank, trainer in enumerate(trainers):
            trainer.attach(rank=rank, world=2, job="run")
        peers = [wire.Peer(self.socket) for _ in range(50 if SANITIZE else 200)]
        for number, peer in enumerate(peers):
            question = wire.message(f1="many")
            find = wire.message(f6=wire.message(f1=3), f7=f"{number:06d}", f8=question)
            peer.send(wire.frame(FIND, find, 9) if number % 2 else wire.frame(MIX, wire.message(f6=question), 9))
        for trainer in trainers:
            trainer.send("run", batches=200, print=0)
        answers = set()
        for trainer in trainers:
            self.assertEqual(trainer.results()[-1]["rc"], 0)
        self.assertLess(json.loads(self.ctl("ping", "--json").stdout)["round_trip_s"], SLACK)
        for peer in peers:
            answers.add(peer.await_body(FIND_REPLY, MIX_REPLY, wire.ERROR)[0])
            peer.close()
        self.assertEqual(answers, {FIND_REPLY, MIX_REPLY})

    def test_strange_questions(self):
        """Each is answered by an error in words, and the connection goes on."""
        number = lambda value: wire.message(f1=value)
        asked = lambda **fields: wire.message(**{"f1": "feed", **fields})
        token = self.ctl("token", "feed", "--step", 1).stdout.strip()
        huge = 1 << 64
        strange = [b"", asked(f1=""), asked(f1="x" * 129), asked(f1="a b"), asked(f2=number(0)), asked(f2=number(65537)), asked(f3=number(0)), asked(f3=number(huge - 1)),
                   asked(f5=number(1 << 24)), asked(f5=number(huge - 1)), asked(f6="{" * 1000), asked(f6="x" * 15000), asked(f6=token + "x"), asked(f6="last"),
                   asked(f6=token.replace('"next":4', '"next":' + "9" * 400)), asked(f6=token.replace('"epoch":0', '"epoch":16777216')), asked(f6=token.replace("wrap", "drop")),
                   asked(f6=token.replace('"schema":1', '"schema":1e0')), asked(f6='{"schema":' + "[" * 500), asked(f6=token.replace("{", '{"x":{"y":"z"},'))]
        bodies = {wire.SLICES: "f5", 27: "f7", MIX: "f6", 42: "f8", FIND: "f8"}
        peer = wire.Peer(self.socket)
        for question in strange:
            for body, field in bodies.items():
                peer.send(wire.frame(body, wire.message(**{field: question}), 7))
                got = peer.await_body(wire.ERROR, wire.SLICES_REPLY, 28, MIX_REPLY, 43, FIND_REPLY)
                self.assertEqual((got[0], got[2]), (wire.ERROR, 7), (question, body, got))
                self.assertTrue(got[1][2].decode().isprintable())
        good = asked()
        for body, fields in ((27, {"f3": huge - 1, "f7": good}), (42, {"f6": huge - 1, "f8": good}), (42, {"f7": number(65536), "f8": good}), (42, {"f7": number(1), "f8": good}),
                             (FIND, {"f6": number(0), "f8": good}), (FIND, {"f6": number(huge - 1), "f8": good})):
            peer.send(wire.frame(body, wire.message(**fields), 8))
            got = peer.await_body(wire.ERROR, 28, 43, FIND_REPLY)
            self.assertEqual((got[0], got[2]), (wire.ERROR, 8), (body, fields, got))
        for fields in ({"f7": "x" * 15000, "f8": good}, {"f7": "", "f8": good}, {"f7": b"\xff\0\n", "f8": good}, {"f8": good, "f99": 5}):  # no such key: an empty answer
            peer.send(wire.frame(FIND, wire.message(**fields), 9))
            self.assertEqual(peer.await_body(wire.ERROR, FIND_REPLY)[0], FIND_REPLY)
        peer.close()

    def test_one_question_at_a_time(self):
        peer = wire.Peer(self.socket)
        peer.send(b"".join(wire.frame(FIND, wire.message(f7="000001", f8=wire.message(f1="feed")), ident + 1) for ident in range(50)))
        bodies = [peer.await_body(wire.ERROR, FIND_REPLY)[0] for _ in range(50)]
        self.assertEqual(sorted(bodies), [wire.ERROR] * 49 + [FIND_REPLY])  # one at a time
        peer.close()
        self.assertEqual(self.ctl("ping").returncode, 0)


main()
