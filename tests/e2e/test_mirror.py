"""Mirror groups: several trainers read the same batches, decoded once; joining, leaving, dying, and laggards."""
import signal

from harness import *

RECORDS, BATCH, SLOTS = 200, 8, 4
STEPS = RECORDS // BATCH


def content(line):
    return line["epoch"], line["step"], line["index"], line["label"], line["image"], line["flags"]


class Mirror(Case):
    def serve(self, **feed):
        if not (self.folder / "data").exists():
            write_shards(self.folder / "data", shards=4, records=RECORDS // 4)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "shuffle": 64, "seed": 7, "slots": SLOTS,
                     "share": "mirror", **feed})
        self.start_daemon()

    def member(self, **options):
        trainer = self.trainer()
        trainer.reply = trainer.attach(**options)
        return trainer

    def feed_status(self):
        return self.status()["feeds"][0]

    def until(self, what, condition):
        return wait_for(what, condition, 20)

    def read(self, trainer, **options):
        """The next batch, given back at once."""
        line = trainer.next(**options)
        self.assertEqual(trainer.call("release", handle=line["handle"])["rc"], 0)
        return line

    def lines(self, members, **options):
        """What each of them sees in a run of all at once."""
        for trainer in members:
            trainer.send("run", **options)
        results = [trainer.results() for trainer in members]
        for lines in results:
            self.assertEqual(lines[-1]["rc"], 0, lines[-1])
        return [[content(line) for line in lines[:-1]] for lines in results]

    def test_all_see_the_same_decoded_once(self):
        self.serve()
        alone = self.member(job="reference", group="alone")
        want = self.lines([alone], epochs=2, print=2)[0]
        alone.call("detach")
        self.until("the first to be gone", lambda: not self.status()["clients"])
        before = self.feed_status()["decoded"]
        self.assertGreaterEqual(before, 2 * RECORDS)
        members = [self.member(job=f"job-{number}") for number in range(4)]
        self.assertEqual(len({trainer.reply["job"] for trainer in members}), 4)
        for seen in self.lines(members, epochs=2, print=2):
            self.assertEqual(seen, want)
        decoded = self.feed_status()["decoded"] - before
        self.assertLessEqual(decoded, 2 * RECORDS + SLOTS * BATCH)  # what is filled ahead of need
        clients = self.status()["clients"]
        self.assertEqual({(client["group"], client["members"], client["rank"], client["world"]) for client in clients}, {("default", 4, 0, 1)})
        self.assertEqual({client["job"] for client in clients}, {trainer.reply["job"] for trainer in members})
        for trainer in members:
            trainer.call("detach")
        self.until("all memory back", lambda: not self.status()["memory_used"])

    def test_late_member(self):
        """It begins where the group is, is told so, and sees what the others see; its token must mean that place."""
        self.serve()
        first = self.member()
        token = first.run(batches=5, print=3)[2]["token"]
        where = first.call("token")["token"]
        late = self.member()
        self.assertEqual((late.reply["epoch"], late.reply["step"]), (0, 5))
        self.assertIn("joined group default at epoch 0, step 5", [note["note"] for note in late.reply["notes"]])
        self.assertEqual(self.client_status(late.pid)["started"], "joined its group: epoch 0, step 5")
        refused = self.trainer().attach(resume=token, expect=-22)["error"]
        for words in ("epoch 0, record 24", f"is at epoch 0, record {5 * BATCH} (step 5)", "leave out the token to join there, or name another group"):
            self.assertIn(words, refused)
        there = self.member(resume=where)
        last = self.member(resume="last")
        seen = self.lines([first, late, there, last], epochs=2, print=2)
        self.assertEqual([line[:2] for line in seen[0]], [(0, step) for step in range(5, STEPS)] + [(1, step) for step in range(STEPS)])
        for lines in seen[1:]:
            self.assertEqual(lines, seen[0])
        # Each has its own token, that of its own last batch.
        self.assertEqual(late.call("token")["token"], first.call("token")["token"])

    def test_a_leaver(self):
        """Whoever leaves owes nothing any more; after the last one a new group begins at the start."""
        self.serve()
        stays, goes = self.member(), self.member()
        for number in range(SLOTS):
            self.assertEqual(self.read(stays)["step"], number)
        self.assertEqual(goes.next()["step"], 0)
        self.assertEqual(stays.call("next", timeout=0)["rc"], -110)  # waits for the other
        self.assertEqual(goes.call("detach")["rc"], 0)
        self.assertEqual(self.read(stays)["step"], SLOTS)
        self.assertEqual(self.client_status(stays.pid)["members"], 1)
        self.assertEqual(goes.attach()["step"], SLOTS + 1)
        self.lines([stays, goes], batches=20, print=2)
        stays.call("detach")
        goes.call("detach")
        self.assertEqual(self.member().reply["step"], 0)

    def test_kill_while_holding(self):
        """Nobody else stalls for longer than its end takes to be seen, and its slots come back."""
        self.serve()
        members = [self.member() for _ in range(3)]
        for trainer in members:
            self.read(trainer)
        for _ in range(2):
            members[1].next()
        for _ in range(SLOTS):
            self.read(members[0])
            self.read(members[2])
        self.assertEqual(members[0].call("next", timeout=0)["rc"], -110)
        members[1].kill()
        seen = self.lines([members[0], members[2]], epochs=1, print=2)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual([line[1] for line in seen[0]], list(range(1 + SLOTS, STEPS)))
        status = self.client_status(members[0].pid)
        self.assertEqual((status["members"], status["held"]), (2, 0))
        for trainer in (members[0], members[2]):
            trainer.call("detach")
        self.until("all memory back", lambda: not self.status()["memory_used"])

    def test_split_and_mirror(self):
        """Each rank of a world is a group of its own: the ranks' slices are those of a split feed."""
        self.serve()
        members = [self.member(group="both", rank=rank, world=2) for rank in (0, 0, 1, 1)]
        seen = self.lines(members, epochs=1, print=2)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[2], seen[3])
        index = [row for lines in (seen[0], seen[2]) for line in lines for row, valid in zip(line[2], line[5]) if valid]
        self.assertEqual(sorted(index), list(range(RECORDS)))
        for client in self.status()["clients"]:
            self.assertEqual((client["members"], client["world"]), (2, 2))
        for trainer in members:
            trainer.call("detach")
        self.stop_daemon()
        self.serve(share="split")
        want = self.lines([self.member(job="split", rank=rank, world=2) for rank in (0, 1)], epochs=1, print=2)
        self.assertEqual([seen[0], seen[2]], want)

    def test_daemon_restarts_under_members(self):
        """They stand at different steps; each goes on at its own, without gap or repeat, and holds what it held."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number):
                self.serve()
                members = [self.member() for _ in range(4)]
                seen = [[content(self.read(trainer)) for _ in range(count)] for trainer, count in zip(members, (SLOTS, 1, 2, SLOTS - 1))]
                held = members[1].next()
                seen[1].append(content(held))
                self.stop_daemon(number)
                self.start_daemon()
                for trainer in members:
                    trainer.send("run", epochs=1, print=2)
                for trainer, lines in zip(members, seen):
                    lines += [content(line) for line in trainer.results()[:-1]]
                    self.assertEqual([line[1] for line in lines], list(range(STEPS)))
                    self.assertEqual(lines, seen[0])
                view = members[1].call("view", handle=held["handle"])
                self.assertEqual(view.get("image"), held["image"] if HELD_STAYS else None)
                self.assertEqual({client["members"] for client in self.status()["clients"]}, {4})
                self.assertEqual({trainer.call("stats")["reconnects"] for trainer in members}, {1})
                for trainer in members:
                    trainer.call("detach")
                self.stop_daemon()

    def test_restart_over_the_end_of_an_epoch(self):
        self.serve(slots=SLOTS_MIN)
        ahead, behind = self.member(), self.member()
        seen = [[content(line) for line in lines] for lines in ([], [])]
        for trainer in (ahead, behind):
            trainer.send("run", batches=STEPS - 1, print=2)
        for lines, trainer in zip(seen, (ahead, behind)):
            lines += [content(line) for line in trainer.results()[:-1]]
        seen[0].append(content(self.read(ahead)))
        self.assertEqual(ahead.call("next")["rc"], 1)
        seen[0].append(content(self.read(ahead)))  # of the next epoch
        self.stop_daemon(signal.SIGKILL)
        self.start_daemon()
        for trainer in (ahead, behind):
            trainer.send("run", epochs=1 if trainer is ahead else 2, print=2)
        for lines, trainer in zip(seen, (ahead, behind)):
            lines += [content(line) for line in trainer.results()[:-1]]
        self.assertEqual(seen[0], seen[1])
        self.assertEqual([line[:2] for line in seen[0]], [(epoch, step) for epoch in range(2) for step in range(STEPS)])

    def test_refusals(self):
        self.serve()
        self.member(group="g", rank=0, world=2, batch=4)

        def refused(*words, **options):
            error = self.trainer().attach(expect=-22, **options)["error"]
            for word in words:
                self.assertIn(word, error)
        refused("world 3", "group g of feed feed", "is 2", "name another group", group="g", rank=0, world=3)
        refused("batch 8", "is 4", group="g", rank=0, world=2, batch=8)
        refused("seed 8", "is 7", group="g", rank=0, world=2, seed=8)
        refused("epoch 8", "is 0", group="g", rank=0, world=2, epoch=8)
        refused("slots 8", f"is {SLOTS}", group="g", rank=0, world=2, slots=8)
        refused("no rank is given", "world 2", "0 to 1", group="g")
        refused("a name has", group="g\xff")
        refused("probe", group="g", probe=1)
        self.stop_daemon()
        self.serve(share="split")
        refused("group g", "share: mirror", group="g")

    def test_choosing_an_epoch(self):
        """Only a sole member does; refused, it goes on as if it had not asked."""
        self.serve()
        first, second = self.member(), self.member()
        for trainer in (first, second):
            self.read(trainer)
        reply = first.call("seek", epoch=5)
        self.assertEqual(reply["rc"], -16, reply)
        for words in ("epoch 5", "group default", "2 members", "is at epoch 0"):
            self.assertIn(words, reply["error"])
        seen = self.lines([first, second], epochs=1, print=2)
        self.assertEqual([line[:2] for line in seen[0]], [(0, step) for step in range(1, STEPS)])
        self.assertEqual(first.call("seek", epoch=1)["rc"], 0)  # is there already
        second.call("detach")
        self.assertEqual(first.call("seek", epoch=5)["rc"], 0)
        self.assertEqual(self.read(first)["epoch"], 5)

    def test_a_probe_reads_alone(self):
        self.serve()
        member = self.member()
        self.read(member)
        bench = json.loads(self.ctl("bench", "feed", "--epochs", 1, "--json").stdout)
        self.assertEqual(bench["batches"], STEPS)
        self.assertEqual(self.read(member)["step"], 1)

    def test_figures_count_a_group_once(self):
        self.serve()
        members = [self.member() for _ in range(4)]
        for trainer in members:
            trainer.send("run", sleep_us=20000, print=0)

        def measured():
            status = self.status()
            return all(client["window_s"] >= 4 for client in status["clients"]) and status
        status = self.until("figures", measured)
        feed, rates = status["feeds"][0], [client["samples_per_s"] for client in status["clients"]]
        self.assertEqual(feed["clients"], 4)
        self.assertGreater(min(rates), 0)
        self.assertAlmostEqual(feed["samples_per_s"], max(rates))
        self.assertLess(status["memory_used"], 2 * max(client["arena_bytes"] + client["shuffle_bytes"] for client in status["clients"]))

    def stopped_member(self, lag):
        """Two members and one that is stopped while it holds a batch; what the two see of the rest of the epoch and the next."""
        self.serve(share="mirror", lag=lag, **({} if lag == "wait" else {"lag_bound": 1}))
        members = [self.member() for _ in range(3)]
        stopped = members[2]
        held = stopped.next()
        stopped.kill(signal.SIGSTOP)
        for trainer in members[:2]:
            trainer.send("run", epochs=2, print=2)
        return members[:2], stopped, held

    def seen_by(self, members):
        seen = [[content(line) for line in trainer.results()[:-1]] for trainer in members]
        self.assertEqual([line[:2] for line in seen[0]], [(epoch, step) for epoch in range(2) for step in range(STEPS)])
        self.assertEqual(seen[0], seen[1])
        return seen[0]

    def test_stopped_wait(self):
        members, stopped, held = self.stopped_member("wait")
        self.until("the others to wait for it", lambda: {self.client_status(trainer.pid)["waits_for"] for trainer in members} == {stopped.pid})
        stopped.kill(signal.SIGCONT)
        stopped.call("release", handle=held["handle"])
        stopped.send("run", epochs=2, print=2)
        want = self.seen_by(members)
        self.assertEqual([content(held)] + [content(line) for line in stopped.results()[:-1]], want)
        self.assertEqual(self.feed_status()["skipped"], 0)

    def test_stopped_detach(self):
        members, stopped, held = self.stopped_member("detach")
        want = self.seen_by(members)
        self.until("the count", lambda: self.feed_status()["lag_detached"] == 1)
        self.assertEqual(self.client_status(stopped.pid)["state"], "lagging")
        stopped.kill(signal.SIGCONT)
        view = stopped.call("view", handle=held["handle"])  # its own still
        self.assertEqual(content(view), want[0])
        told = stopped.next()  # and what it was told of before
        self.assertEqual(content(told), want[1])
        reply = stopped.call("next")
        self.assertEqual(reply["rc"], -116, reply)  # ESTALE
        for words in ("group default", "waited 1 s", "epoch 0, step 0", "attach anew"):
            self.assertIn(words, reply["error"])
        for line in (held, told):
            self.assertEqual(stopped.call("release", handle=line["handle"])["rc"], 0)
        self.until("its end", lambda: self.client_status(stopped.pid) is None)
        self.assertEqual(stopped.attach()["epoch"], 2)

    def test_stopped_skip(self):
        members, stopped, held = self.stopped_member("skip")
        self.seen_by(members)
        self.assertEqual(self.client_status(stopped.pid)["state"], "lagging")
        stopped.kill(signal.SIGCONT)
        stopped.call("release", handle=held["handle"])
        self.assertEqual(self.read(stopped)["step"], 1)
        for trainer in members:
            trainer.send("run", epochs=1, print=2)
        self.assertEqual(stopped.call("next")["rc"], 1)  # its pass has ended, once
        stopped.send("run", epochs=1, print=2)
        seen = [[content(line) for line in trainer.results()[:-1]] for trainer in (*members, stopped)]
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[2], seen[0][-len(seen[2]):])
        skipped = stopped.call("stats")["skipped"]
        self.assertEqual(skipped, 2 * STEPS - 2 + STEPS - len(seen[2]))
        self.assertEqual(self.client_status(stopped.pid)["skipped"], skipped)
        self.assertEqual(self.feed_status()["skipped"], skipped)
        self.assertEqual(self.feed_status()["lag_detached"], 0)
        self.assertIn(f"{skipped} skipped", self.ctl("status").stdout)

    def test_one_comes_back_when_its_step_is_over(self):
        """It computes while the daemon is away and long after: the others wait for it, and say so."""
        self.serve()
        early, late = self.member(), self.member()
        time.sleep(2)  # they are told within a second that they are two
        seen = [[content(self.read(trainer))] for trainer in (early, late)]
        self.stop_daemon(signal.SIGKILL)
        self.start_daemon()
        early.send("run", epochs=1, print=2)
        wait_for("the wait to be told", lambda: "1 of 2 have, for 30 s at most" in self.ctl("status").stdout)
        time.sleep(3)
        late.send("run", epochs=1, print=2)
        for trainer, lines in zip((early, late), seen):
            lines += [content(line) for line in trainer.results()[:-1]]
            self.assertEqual([line[1] for line in lines], list(range(STEPS)))
        self.assertEqual(*seen)

    def test_late_after_a_restart(self):
        """The group has waited lag_bound and gone on without it: refused with both places; with lag: skip it goes on there."""
        for lag in ("detach", "skip"):
            with self.subTest(lag=lag):
                self.serve(lag=lag, lag_bound=1)
                early, late = self.member(), self.member()
                for trainer in (early, late):
                    self.read(trainer)
                self.stop_daemon(signal.SIGKILL)
                self.start_daemon()
                for _ in range(10):
                    self.read(early)
                reply = late.call("next")
                if lag == "detach":
                    self.assertEqual(reply["rc"], -22, reply)
                    self.assertIn("comes back for epoch 0, step 1, but group default of feed feed has gone on to epoch 0, step 11", reply["error"])
                else:
                    self.assertEqual((reply["rc"], reply["step"]), (0, 11))
                    self.assertEqual(late.call("stats")["skipped"], 10)
                for trainer in (early, late):
                    trainer.call("detach")
                self.stop_daemon()

    def test_lag_and_worlds(self):
        self.serve(lag="skip")
        error = self.trainer().attach(expect=-22, rank=0, world=2)["error"]
        self.assertIn("world 2: feed feed has lag: skip", error)
        error = self.trainer().attach(expect=-22, slots=2)["error"]
        self.assertIn("needs at least 3", error)

    def test_stopped_while_it_waits(self):
        """What is there for it is its own to take: it waits no more, and the others wait for it."""
        self.serve()
        fast, slow = self.member(), self.member()
        held = [fast.next()["handle"] for _ in range(SLOTS)]
        slow.run(batches=SLOTS)
        slow.send("next")
        self.until("it to wait", lambda: self.client_status(slow.pid)["waiting_s"])
        slow.kill(signal.SIGSTOP)
        for handle in held:
            fast.call("release", handle=handle)
        fast.send("run", batches=2 * SLOTS, print=0)
        verdict = f"the trainer with pid {slow.pid} limits its group: it took no batch"
        self.until("the verdict", lambda: verdict in self.client_status(fast.pid)["verdict"])
        self.until("the feed's", lambda: f"feed: {verdict}" in self.ctl("status").stdout)
        # Its window has the little that it did wait, and becomes longer.
        status = self.until("its wait to be little", lambda: (it := self.client_status(slow.pid))["wait_share"] < 0.1 and it)
        self.assertEqual((status["waiting_s"], status["ready"]), (0, SLOTS))
        slow.kill(signal.SIGCONT)
        self.assertEqual(slow.receive()["step"], SLOTS)

    def test_status_names_the_slow_one(self):
        """A member waits for another: status says for whom, and the verdict names it."""
        self.serve()
        fast, slow = self.member(), self.member()
        slow.next()
        fast.send("run", batches=2 * STEPS, print=0)

        def waits():
            client = self.client_status(fast.pid)
            return client["waits_for"] and client["window_s"] >= 3 and client
        client = self.until("the fast one to wait", waits)
        self.assertEqual(client["waits_for"], slow.pid)
        self.assertIn(f"waits for pid {slow.pid} of group default, 3 batches behind", client["reason"])
        text = self.ctl("status").stdout
        self.assertIn(f"feed: the trainer with pid {slow.pid} limits its group", text)
        self.assertIn(f": waits for pid {slow.pid} of group default", text)
        self.assertIn(f"the trainer with pid {slow.pid} limits its group", client["verdict"])
        slow.call("release", handle=0)
        slow.send("run", batches=2 * STEPS, print=0)
        self.assertEqual(fast.results()[-1]["rc"], 0)


main()
