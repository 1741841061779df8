"""Daemons that follow each other under a service manager that keeps descriptors: nobody is refused, nothing is lost."""
import random
import signal
import socket
import threading
import time

from manager import *

WORLD = 4
RESTARTS = 20 if LONG or not SANITIZE else 5
EVERYTHING = ["dataloadd-jobs", "dataloadd-socket"]


def content(line):
    return line["epoch"], line["step"], line["index"], line["image"], line["label"]


class Probe:
    """Connects all the time; nobody may turn it away."""

    def __init__(self, path):
        self.path = str(path)
        self.count, self.refused, self.ended = 0, [], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                try:
                    peer.connect(self.path)
                    self.count += 1
                except OSError as error:
                    self.refused.append(error)
            time.sleep(0.002)

    def end(self):
        self.ended = True
        self.thread.join()
        return self.refused


class Restarts(ManagedCase):
    def serve(self, feed=None, **top):
        write_shards(self.folder / "data", shards=4, records=100)
        self.feed = {"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 64,
                     "transform": [{"random_resized_crop": {"size": 32}}, {"flip": 0.5}], **(feed or {})}
        self.config(self.feed, **top)
        self.start_daemon()

    def restart(self, number=signal.SIGKILL, **options):
        self.stop_daemon(number)
        self.start_daemon(**options)

    def ranks(self, count, **options):
        """Trainers of one job, one a rank."""
        trainers = [self.trainer() for _ in range(count)]
        for rank, trainer in enumerate(trainers):
            trainer.attach(rank=rank, world=count, **options)
        return trainers

    def heard(self, trainers):
        """The daemon has heard all that these, attached once, have taken and released."""
        def is_heard():
            told = {client["pid"]: (client["batches"], client["held"]) for client in self.status()["clients"]}
            return all(told.get(trainer.pid) == (own["batches"], own["held"]) for trainer, own in stats)

        stats = [(trainer, trainer.call("stats")) for trainer in trainers]
        wait_for("the daemon to hear of all", is_heard)

    def kill(self, trainers):
        for trainer in trainers:
            trainer.kill()

    def unbroken(self, batches):
        """What so many batches a rank are, without a restart."""
        trainers = self.ranks(len(batches), job="reference")
        lines = [[content(line) for line in trainer.run(batches=count, print=2)] for trainer, count in zip(trainers, batches)]
        for trainer in trainers:
            trainer.call("detach")
        return lines

    def expect_kept(self, names):
        wait_for(f"{names} to be kept", lambda: [n for n in self.manager.names() if n != "dataloadd-witness"] == names)

    def keep_running(self, trainers, ended):
        """Runs them until `ended`, each in a thread; returns the threads and, by rank, what they have seen or their failure."""
        seen = [[] for _ in trainers]

        def run(trainer, lines):
            try:
                while not ended.is_set():
                    lines += trainer.run(batches=4, print=2, sleep_us=2000)
            except AssertionError as failure:
                lines.append(failure)

        threads = [threading.Thread(target=run, args=pair) for pair in zip(trainers, seen)]
        for thread in threads:
            thread.start()
        return threads, seen

    def test_restarts_under_trainers(self):
        self.serve()
        draw = random.Random(int(os.environ.get("RESTARTS_SEED", "1")))
        self.expect_kept(EVERYTHING)
        trainers = self.ranks(WORLD, job="broken")
        ended, probe = threading.Event(), Probe(self.socket)
        threads, seen = self.keep_running(trainers, ended)
        for turn in range(RESTARTS):
            counts = [len(lines) for lines in seen]
            wait_for("all trainers to go on", lambda: all(len(lines) > before for lines, before in zip(seen, counts)), every=0.02)
            time.sleep(draw.uniform(0, 0.05))
            self.stop_daemon(draw.choice((signal.SIGTERM, signal.SIGKILL)))
            if turn % 5 == 4:  # and one that does not come to serve
                self.start_daemon(wait=False)
                time.sleep(draw.uniform(0, 0.03))
                self.stop_daemon(signal.SIGKILL)
            self.start_daemon()
        ended.set()
        for thread in threads:
            thread.join()
        self.assertEqual(probe.end(), [])
        self.assertGreater(probe.count, 10 * RESTARTS)
        for lines in seen:
            self.assertTrue(all(isinstance(line, dict) for line in lines), lines[-1])
        self.assertEqual([[content(line) for line in lines] for lines in seen], self.unbroken([len(lines) for lines in seen]))
        for trainer in trainers:
            self.assertGreaterEqual(trainer.call("stats")["reconnects"], RESTARTS)
        self.expect_kept(EVERYTHING)

    def test_who_comes_in_the_gap_waits(self):
        self.serve()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.stop_daemon(number)
            trainer = self.trainer()
            trainer.send("attach", feed="feed", job=f"gap-{number}", reconnect=0)
            time.sleep(0.3)
            self.start_daemon()
            self.assertEqual(trainer.receive()["rc"], 0)
            self.assertEqual(len(trainer.run(batches=3, print=2)), 3)

    def last(self, job, world, seen, want):
        """All ranks go on by resume=last: each place that each of them comes to."""
        trainers, places = [self.trainer() for _ in range(world)], []
        for rank, trainer in enumerate(trainers):
            trainer.attach(job=job, rank=rank, world=world, resume="last")
            lines = trainer.run(batches=5, print=3)
            places.append(lines[0]["token"])
            self.assertEqual([content(line)[2:] for line in lines], [row[2:] for row in want[rank][seen:seen + 5]])
        self.assertEqual(len(set(places)), 1)
        self.heard(trainers)
        return trainers

    def test_daemon_and_trainers_are_killed(self):
        self.serve()
        want = self.unbroken([30, 30])
        trainers = self.ranks(2, job="both")
        for trainer, count in zip(trainers, (5, 7)):
            trainer.run(batches=count)
        trainers[1].next()  # taken is not released
        self.heard(trainers)
        self.daemon.kill()
        self.kill(trainers)
        self.restart()
        again = self.last("both", 2, 5, want)
        self.kill(again)  # the trainers first: the daemon sees them go
        wait_for("them to be gone", lambda: not self.status()["clients"])
        self.restart()
        again = self.last("both", 2, 10, want)
        self.kill(again)
        wait_for("them to be gone", lambda: not self.status()["clients"])
        again = self.last("both", 2, 15, want)  # no restart: as ever
        self.stop_daemon(signal.SIGTERM)
        self.kill(again)
        self.start_daemon()
        self.last("both", 2, 20, want)

    def test_one_is_killed_and_one_comes_back(self):
        for first, number in enumerate((signal.SIGKILL, signal.SIGTERM)):  # first: the one that lives, or the one started anew
            self.serve()
            want = self.unbroken([20, 20])
            trainers = self.ranks(2, job=f"half-{first}")
            for trainer, count in zip(trainers, (5, 6)):
                trainer.run(batches=count)
            self.heard(trainers)
            self.stop_daemon(number)
            trainers[1].kill()
            self.start_daemon()
            if first == 0:
                trainers[0].next()
                vacant, = self.status()["vacant"]
                self.assertEqual((vacant["job"], vacant["rank"], vacant["epoch"], vacant["step"]), ("half-0", 1, 0, 6))
            anew = self.trainer()
            anew.attach(job=f"half-{first}", rank=1, world=2, resume="last")
            place = 6 - first  # after its own last, or where nobody is there yet after what all have released
            self.assertEqual([content(line) for line in anew.run(batches=5, print=2)], want[1][place:place + 5])
            lines = trainers[0].run(batches=5, print=2)
            self.assertEqual([content(line) for line in lines], want[0][place:place + 5])
            self.assertFalse(self.status()["vacant"])
            self.stop_daemon()

    def test_a_job_that_had_ended_stays_so(self):
        self.serve(job_linger=2)
        jobs = {job: self.ranks(1, job=job)[0] for job in ("living", "evicted", "detached", "left")}
        for trainer in jobs.values():
            trainer.run(batches=3)
        self.heard(jobs.values())
        self.ctl("detach", "--job", "evicted")
        jobs["evicted"].kill()
        jobs["detached"].call("detach")
        jobs["left"].kill()
        wait_for("all but one to be gone", lambda: [client["job"] for client in self.status()["clients"]] == ["living"])
        self.daemon.kill()
        self.kill(self.trainers)
        time.sleep(2.2)
        self.restart()  # the time of those that had clients begins now
        for job in jobs:
            trainer = self.trainer()
            trainer.attach(job=job, rank=0, world=1, resume="last")
            self.assertEqual(trainer.next()["step"], 3 if job == "living" else 0, job)

    def test_another_plan(self):
        self.serve()
        self.ranks(1, job="changed")[0].run(batches=3)
        self.daemon.kill()
        self.kill(self.trainers)
        self.config({**self.feed, "shuffle": 65})
        self.restart()
        trainer = self.trainer()
        reply = trainer.call("attach", feed="feed", job="changed", rank=0, world=1, resume="last")
        self.assertNotEqual(reply["rc"], 0)
        self.assertRegex(reply["error"], "job changed of feed feed had plan [0-9a-f]{16} before the daemon was started anew.* without resume")
        trainer.attach(job="changed", rank=0, world=1)
        trainer.attach(job="changed-not", rank=0, world=1, resume="last")
        self.config([{**self.feed, "name": "other"}])
        self.restart()
        self.assertIn("not configured any more, and that cannot go on: 2", self.log())

    def test_a_group(self):
        self.serve({"share": "mirror"})
        members = [self.trainer() for _ in range(2)]
        for member in members:
            member.attach()
        for member, count in zip(members + members, (3, 3, 1, 2)):
            member.run(batches=count)
        self.heard(members)
        self.daemon.kill()
        self.kill(members)
        self.restart()
        member = self.trainer()
        member.attach(resume="last")
        self.assertEqual(member.next()["step"], 4)  # after what all have released

    def test_socket_of_a_unit(self):
        self.serve()
        self.expect_kept(EVERYTHING)
        trainer = self.ranks(1, job="unit")[0]
        trainer.run(batches=3)
        trainer.call("detach")
        self.stop_daemon()
        self.socket = self.folder / "unit.sock"
        self.manager.listen_at(self.socket, "dataloadd-unit")
        probe = Probe(self.socket)
        self.start_daemon()
        self.expect_kept(["dataloadd-jobs"])
        trainer = self.trainer()
        trainer.attach(job="unit", rank=0, world=1, resume="last")
        self.assertEqual(trainer.next()["step"], 0)  # after what was released: the new run's first
        for number in (signal.SIGTERM, signal.SIGKILL):
            trainer.run(batches=3)
            self.restart(number)
        self.assertEqual(trainer.next()["step"], 7)
        self.assertEqual(probe.end(), [])
        self.expect_kept(["dataloadd-jobs"])

    def test_what_others_have_left_in_the_store(self):
        garbage = random.Random(7).randbytes(100000)
        with open(os.memfd_create("garbage"), "wb") as file:
            file.write(garbage)
            file.flush()
            self.manager.keep("dataloadd-jobs", os.dup(file.fileno()))
            self.manager.keep("dataloadd-socket", os.dup(file.fileno()))
        self.serve()
        self.assertEqual(self.log().count("is not used"), 1, self.log())
        self.expect_kept(EVERYTHING)
        self.restart()
        self.assertEqual(self.log().count("is not used"), 1, self.log())

    def test_the_socket_is_elsewhere(self):
        self.serve()
        self.stop_daemon()
        self.assertTrue(self.socket.is_socket())
        self.socket.unlink()  # as with a RuntimeDirectory that goes with the service
        self.start_daemon()
        self.expect_kept(EVERYTHING)
        self.stop_daemon()
        self.socket = self.folder / "other.sock"
        self.start_daemon()
        self.expect_kept(EVERYTHING)

    def test_a_manager_that_keeps_nothing(self):
        self.manager.most = 0
        self.serve()
        trainer = self.ranks(1, job="bare")[0]
        trainer.run(batches=3)
        self.stop_daemon()
        self.assertFalse(self.socket.exists())
        self.start_daemon()
        self.assertEqual(trainer.next()["step"], 3)

    def test_one_that_ends_by_itself_leaves_no_socket(self):
        write_shards(self.folder / "data", shards=1, records=10)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 4})
        self.start_daemon(arguments=["--idle-exit", "1"], wait=False)
        self.assertEqual(self.daemon.wait(30 * SLACK), 0)
        self.assertFalse(self.socket.exists())


if b"sd_pid_notify_with_fds" not in DAEMON.read_bytes():
    skip("the daemon is built without libsystemd")
main()
