"""What the daemon says to those who run it: entries of the journal with their fields, one account of each attachment, repeats
that are counted, and the service's status line."""
import re
import shlex
import socket
import threading

from harness import *

RECORDS, BATCH = 96, 8
IDS = dict(re.findall(r'X\((\w+), +"(\w{32})"\)', (SOURCE / "daemon/base/log_ids.h").read_text(encoding="utf-8")))


class Receiver:
    """Datagrams of the daemon, as they come: those of its journal, or for its service manager."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.came = []  # (time, text)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while text := self.socket.recv(1 << 16).decode():
            self.came.append((time.monotonic(), text))

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()

    def entries(self, event=None):
        found = [dict(line.split("=", 1) for line in text.splitlines()) for _, text in list(self.came)]
        return [entry for entry in found if event is None or entry.get("MESSAGE_ID") == IDS[event]]


class Logs(Case):
    def serve(self, top=None, env=None, prefix=(), **feed):
        write_shards(self.folder / "data", shards=2, records=RECORDS // 2)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": BATCH, "shuffle": 16, "seed": 3, **feed}, **(top or {}))
        self.start_daemon(env=env, prefix=prefix)

    def receiver(self, path):
        receiver = Receiver(path)
        self.addCleanup(receiver.close)
        return receiver

    def with_journal(self, journal):
        """Environment and prefix of a daemon whose stderr is the journal, and whose journald is the receiver in that folder."""
        log = self.folder / "daemon.log"
        log.touch()
        status = log.stat()
        mounts = f"mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {shlex.quote(str(journal))} /run/systemd/journal"
        return {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}, ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh"]

    def accounts(self, pid):
        """Accounts in the log, as words."""
        lines = re.findall(r"info: account (.*)", (self.folder / "daemon.log").read_text(encoding="utf-8"))
        words = [{key: value.strip('"') for key, value in re.findall(r'(\w+)=("[^"]*"|\S+)', line)} for line in lines]
        return [account for account in words if account["client"] == str(pid)]

    def account(self, pid):
        wait_for(f"the account of {pid}", lambda: self.accounts(pid))
        found = self.accounts(pid)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def attached(self, **options):
        trainer = self.trainer()
        trainer.attach(**options)
        return trainer

    def check_sums(self, account, stats):
        """What a trainer that was asked before it left says of itself."""
        for name in ("batches", "samples"):
            self.assertEqual(int(account[name]), stats[name])
        for name in ("wait", "hold"):
            self.assertAlmostEqual(float(account[f"{name}_seconds"]), stats[f"{name}_ns"] / 1e9, delta=0.2 * SLACK)

    def evict(self, trainer):
        """It may still have what was announced to it."""
        self.ctl("detach", "--job", "job-2")
        while (reply := trainer.call("next"))["rc"] == 0:
            trainer.call("release", handle=reply["handle"])
        return trainer.call("stats")

    def evict_in_the_midst(self, trainer):
        """It ends by itself before it has given back what it holds."""
        trainer.call("next")
        stats = trainer.call("stats")
        self.ctl("detach", "--job", "job-3")
        trainer.kill()
        return stats

    def test_one_account_whatever_the_end(self):
        self.serve()
        ends = {"detached": lambda trainer: trainer.call("detach") and None,
                "(process ended|connection closed)": lambda trainer: trainer.kill(),
                "detached from outside": self.evict,
                "(detached from outside)": self.evict_in_the_midst,
                "the daemon stops": lambda trainer: self.stop_daemon()}
        for number, (reason, end) in enumerate(ends.items()):
            trainer = self.attached(job=f"job-{number}")
            trainer.run(batches=5 + number)
            stats = trainer.call("stats")
            self.assertEqual(stats["batches"], 5 + number)
            stats = end(trainer) or stats
            account = self.account(trainer.pid)
            self.assertRegex(account["reason"], f"^{reason}$")
            self.assertEqual((account["uid"], account["feed"], account["job"], account["rank"], account["world"], account["probe"]),
                             (str(os.geteuid()), "feed", f"job-{number}", "0", "1", "0"))
            self.assertNotIn("slurm_job", account)
            self.check_sums(account, stats)
            self.assertGreater(int(account["bytes"]), BATCH * 64 * 48)
            self.assertGreater(int(account["read_bytes"]), 0)
            self.assertGreater(float(account["cpu_seconds"]), 0)
            self.assertEqual(account["bad"], "0")

    def test_attachments_that_come_to_nothing_have_none(self):
        self.serve()
        trainer = self.trainer()
        for _ in range(30):
            trainer.attach(feed="nothing", expect=-2)
        self.assertEqual(self.log().count("attach refused"), 1)  # the same each time
        self.stop_daemon()
        self.assertEqual(len(re.findall(r"29 times more in \d+ s: pid \d+, uid \d+: attach refused", self.log())), 1, self.log())
        self.assertEqual(self.accounts(trainer.pid), [])

    def test_a_group_shares_what_its_stream_costs(self):
        self.serve(share="mirror")
        first = self.attached(job="slurm-77.0")
        first.run(batches=20)
        second = self.attached(job="slurm-78.batch")
        for trainer in (first, second):
            trainer.send("run", batches=20)
        for trainer in (first, second):
            trainer.results()
        feed = self.status()["feeds"][0]
        stats = [trainer.call("stats") for trainer in (first, second)]
        for trainer in (second, first):
            trainer.call("detach")
        accounts = [self.account(trainer.pid) for trainer in (first, second)]
        self.assertEqual([account["slurm_job"] for account in accounts], ["77", "78"])
        for account, stat in zip(accounts, stats):
            self.check_sums(account, stat)
        read, cpu = ([float(account[name]) for account in accounts] for name in ("read_bytes", "cpu_seconds"))
        self.assertLess(read[1], read[0])  # it has come later
        self.assertGreaterEqual(sum(read) + 1, feed["read_bytes"])
        self.assertLessEqual(sum(read), 1.5 * feed["read_bytes"])
        workers = sum(stage["busy_s"] for stage in feed["stages"] if stage["name"] in ("decode", "augment"))
        self.assertGreaterEqual(sum(cpu) + 0.002, workers)

    def test_the_journal_and_the_service_manager(self):
        need_namespaces()
        (self.folder / "journal").mkdir()
        journal = self.receiver(self.folder / "journal/socket")
        manager = self.receiver(self.folder / "notify")
        env, prefix = self.with_journal(self.folder / "journal")
        bad = self.folder / "data/zz.tar"
        (self.folder / "data").mkdir()
        write_tar(bad, [("broken.jpg", b"no picture"), ("broken.cls", b"1")])
        self.serve(env={**env, "NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "400000"}, prefix=prefix)
        trainer = self.attached(job="train")
        trainer.send("run", epochs=1)
        self.assertEqual(trainer.results()[-1]["rc"], 0)

        started, = wait_for("the start", lambda: journal.entries("STARTED"))
        self.assertEqual((started["PRIORITY"], started["SYSLOG_IDENTIFIER"], started["CODE_FUNC"]), ("5", "dataloadd", "start_control"))
        self.assertTrue((SOURCE / started["CODE_FILE"]).exists(), started)
        who = {"DATALOADD_CLIENT": str(trainer.pid), "DATALOADD_UID": str(os.geteuid()), "DATALOADD_FEED": "feed", "DATALOADD_JOB": "train",
               "DATALOADD_RANK": "0"}
        attached, = wait_for("the attach", lambda: journal.entries("ATTACHED"))
        self.assertLessEqual(who.items(), attached.items())
        damaged = wait_for("the bad record", lambda: journal.entries("BAD_SAMPLE"))[0]
        self.assertEqual((damaged["DATALOADD_SHARD"], damaged["DATALOADD_KEY"], damaged["PRIORITY"]), (str(bad), "broken", "4"))

        # It works on until the next status line has been told.
        for _ in range(100 * SLACK):
            trainer.run(batches=5)
            if any("STATUS=1 client, " in text for _, text in list(manager.came)):
                break
            time.sleep(0.05)
        trainer.call("detach")
        left, = wait_for("the account", lambda: journal.entries("DETACHED"))
        self.assertLessEqual({**who, "DATALOADD_REASON": "detached"}.items(), left.items())
        self.assertEqual(int(left["DATALOADD_SAMPLES"]), BATCH * int(left["DATALOADD_BATCHES"]))
        self.assertGreaterEqual(int(left["DATALOADD_BAD"]), 1)
        self.stop_daemon()
        self.assertEqual(len(journal.entries("DETACHED")), 1)
        self.assertEqual(len(journal.entries("STOPPING")), 1)
        self.assertEqual(self.log(), "")  # nothing of it is on stderr besides

        came = [(at, line) for at, text in manager.came for line in text.splitlines()]
        lines = [line for _, line in came]
        ready = lines.index("READY=1")
        self.assertRegex(lines[ready + 1], r"^STATUS=0 clients, 0\.0 MB/s, [\d.]+ MB of [\d.]+ MB in use$")
        self.assertLess(came[ready + 1][0] - came[ready][0], 0.5 * SLACK)
        told = [(at, line) for at, line in came if line.startswith("STATUS=1 client, ")]
        self.assertRegex(told[0][1], r"^STATUS=1 client, [\d.]+ MB/s, (?:feed limited by \w+, |limited by the trainers, )?[\d.]+ MB of")
        self.assertNotIn(", 0.0 MB/s", told[0][1])
        self.assertAlmostEqual(told[0][0] - came[ready + 1][0], 5, delta=SLACK)
        beats = [at for at, line in came if line == "WATCHDOG=1"]
        self.assertGreater(len(beats), 10)
        self.assertLess(max(later - at for at, later in zip(beats, beats[1:])), 0.4 * SLACK)


main()
