"""Limits of users: memory and clients of each, changed under trainers, and who has what in status and metrics."""
from harness import *

ADA, BOB = 61021, 61022
NO_MEMORY, TOO_MANY = -12, -87
CONFIG = 78


class Users(Case):
    def serve(self, *users):
        write_shards(self.folder / "data", shards=1, records=32)
        self.write(*users)
        self.start_daemon()

    def write(self, *users, **feed):
        return self.config({"source": str(self.folder / "data/*.tar"), "batch": 4, "shuffle": 16, **feed}, workers=1, memory="128MiB", users=list(users))

    def reload(self, *users, **feed):
        self.write(*users, **feed)
        self.ctl("reload")

    def users(self):
        return {user["uid"]: user for user in self.status()["users"]}

    def test_a_wrong_list_names_file_line_and_key(self):
        write_shards(self.folder / "data", shards=1, records=8)
        path = self.write({"name": "no-such-user-here", "memory": "1GiB"})
        done = subprocess.run([str(DAEMON), "--user", "--config", str(path), "--check-config"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, CONFIG, done)
        self.assertRegex(done.stderr, rf"{path}:\d+: name: no user \"no-such-user-here\"")

    def test_they_are_told_beforehand(self):
        write_shards(self.folder / "data", shards=1, records=8)
        path = self.write({"name": "root", "memory": "1MiB"}, {"name": "default", "clients": 3}, weight=4)
        done = subprocess.run([str(DAEMON), "--user", "--config", str(path), "--check-config"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("users: default: memory none, clients 3, descriptors 4096, threads none, weight 1\n", done.stdout)
        self.assertIn("  root (uid 0): memory 1.0 MB, clients 3, ", done.stdout)
        self.assertIn("weight: 4 of each job", done.stdout)
        self.assertRegex(done.stdout, r"note: users: root may have memory 1.0 MB, and the slots take 2.4 MB")
        self.assertNotIn("note: users: default", done.stdout)

    def test_own_limits(self):
        """Without root: whoever runs this has them himself."""
        me = os.getuid()
        self.serve({"name": str(me), "memory": "4MiB", "clients": 2})
        first = self.trainer()
        first.attach(job="one")  # 4 slots of 0.6 MB
        refused = self.trainer().attach(job="two", expect=NO_MEMORY)
        self.assertIn("may have memory 4.2 MB", refused["error"])
        self.reload({"name": str(me), "memory": "64MiB", "clients": 2, "weight": 3})
        self.assertRegex(self.log(), rf"users: {me}: memory 67.1 MB, clients 2, .* weight 3; before: memory 4.2 MB, clients 2, ")
        self.trainer().attach(job="two")
        refused = self.trainer().attach(job="three", expect=TOO_MANY)
        self.assertIn("has 2 clients attached, and may have 2", refused["error"])
        user = self.users()[me]
        self.assertEqual((user["clients"], user["clients_limit"], user["memory_limit"], user["weight"]), (2, 2, 64 << 20, 3))
        self.assertEqual(user["memory"], sum(client["arena_bytes"] for client in self.status()["clients"]))
        self.assertRegex(self.ctl("status").stdout, r"\nUSER +UID +CLIENTS +MEMORY +WEIGHT +THREADS +WORKERS %\n.* 2 of 2  4.8 MB of 67.1 MB ")
        self.assertIn(f'uid="{me}"}} 2\n', self.ctl("metrics").stdout)
        self.reload()
        self.trainer().attach(job="three")
        first.next()
        self.reload({"name": str(me), "clients": 1, "memory": "1MiB"})  # those who are there stay
        first.next()
        self.trainer().attach(job="four", expect=TOO_MANY)

    def test_the_weight_of_a_feed_is_changed(self):
        self.serve()
        self.trainer().attach(job="one")
        self.reload(weight=5)
        self.assertIn("feed feed: weight 5, was 1, for all its jobs", self.log())

    def test_one_takes_nothing_from_another(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become other users")
        os.chmod(self.folder, 0o755)
        self.serve({"name": "default", "memory": "4MiB", "clients": 1}, {"name": str(BOB), "memory": "none", "clients": "none"})
        os.chmod(self.socket, 0o666)
        self.trainer(preexec_fn=become(ADA)).attach()
        refused = self.trainer(preexec_fn=become(ADA)).attach(job="more", expect=TOO_MANY)
        self.assertIn(f"user {ADA} has 1 client attached", refused["error"])
        for number in range(3):
            self.trainer(preexec_fn=become(BOB)).attach(job=f"j{number}")
        users = self.users()
        self.assertEqual({uid: user["clients"] for uid, user in users.items()}, {ADA: 1, BOB: 3})
        self.assertEqual(users[BOB]["memory"], 3 * users[ADA]["memory"])
        self.assertEqual((users[ADA]["clients_limit"], users[BOB]["clients_limit"]), (1, 0))


main()
