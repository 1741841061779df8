"""Slurm on one node: ranks and names by srun, the scripts of docs/slurm, a daemon of the job's own.

A cluster of its own in a folder: munged, slurmctld and slurmd with their own key, ports and configuration."""
import socket
import textwrap

from python_case import *

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo")
TRAINER = """
    import json, os, sys
    sys.path.insert(0, {package!r})
    import dataload
    loader = dataload.Loader("feed", as_="numpy", names={{"index": "index"}})
    samples = [int(i) for batch in loader for i in batch["index"][batch["valid"]]]
    told = {{"id": os.environ["SLURM_PROCID"], "samples": samples}}
    print(json.dumps(dict(told, **{{name: loader.info[name] for name in ("rank", "world", "job")}})), flush=True)
    loader.close()
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Slurm(PythonCase):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.cluster = self.folder / "slurm"
        self.cluster.mkdir()
        self.host = socket.gethostname().split(".")[0]
        self.env = dict(os.environ, SLURM_CONF=str(self.cluster / "slurm.conf"), DATALOADD_SOCKET=str(self.socket))
        self.env["PATH"] = f"{harness_path()}:{self.env['PATH']}"

    def executable(self, name, body):
        path = self.folder / name
        path.write_text(textwrap.dedent(body))
        path.chmod(0o755)
        return path

    def wrapped(self, name):
        """A script of docs/slurm, which Slurm starts with next to no environment, finding what was built here."""
        return self.executable(name, f"""\
            #!/bin/sh
            export PATH={harness_path()}:/usr/sbin:/usr/bin:/bin DATALOADD_SOCKET={self.socket} SLURM_CONF={self.cluster}/slurm.conf
            exec {SOURCE}/docs/slurm/{name}
            """)

    def start(self, *command):
        log = open(self.cluster / (command[0] + ".out"), "w", encoding="utf-8")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(self.env, PATH="/usr/sbin:/usr/bin:/bin"))
        log.close()
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def start_cluster(self):
        key = self.cluster / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        sock = self.cluster / "munge.sock"
        ctld, node = free_ports(2)
        (self.cluster / "slurm.conf").write_text(textwrap.dedent(f"""\
            ClusterName=test
            SlurmctldHost={self.host}(127.0.0.1)
            SlurmctldPort={ctld}
            SlurmdPort={node}
            SlurmUser=root
            SlurmdUser=root
            AuthInfo=socket={sock}
            StateSaveLocation={self.cluster}/state
            SlurmdSpoolDir={self.cluster}/spool
            SlurmctldPidFile={self.cluster}/slurmctld.pid
            SlurmdPidFile={self.cluster}/slurmd.pid
            ProctrackType=proctrack/linuxproc
            TaskPlugin=task/none
            MpiDefault=none
            SelectType=select/cons_tres
            SelectTypeParameters=CR_Core
            SlurmdParameters=config_overrides
            ReturnToService=2
            SchedulerParameters=sched_interval=1,bf_interval=1
            TaskProlog={self.wrapped("task-prolog.sh")}
            Epilog={self.wrapped("epilog.sh")}
            HealthCheckProgram={self.wrapped("health-check.sh")}
            HealthCheckInterval=2
            NodeName={self.host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
            PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES
            """))
        (self.cluster / "state").mkdir()
        (self.cluster / "spool").mkdir()
        self.start("munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}", f"--socket={sock}", f"--pid-file={self.cluster}/munged.pid",
                   f"--log-file={self.cluster}/munged.log", f"--seed-file={self.cluster}/munged.seed")
        wait_for("munge", sock.exists)
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D")
        self.wait_for_node("idle")

    def wait_for_node(self, state):
        try:
            wait_for(f"a node that is {state}", lambda: self.node().startswith(state))
        except AssertionError as error:
            raise AssertionError(f"{error}: it is {self.node()}; {self.logs()}") from None

    def logs(self):
        return "".join((self.cluster / f"{name}.out").read_text()[-3000:] for name in ("munged", "slurmctld", "slurmd"))

    def node(self):
        return self.slurm("sinfo", "--noheader", "--format=%T", check=False).stdout.strip()

    def slurm(self, *command, check=True, env=None):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, env={**self.env, **(env or {})}, cwd=self.folder, timeout=240)
        if check and done.returncode:
            raise AssertionError(f"{command}: {done.returncode} {done.stdout} {done.stderr} {self.logs()}")
        return done

    def told(self, text):
        return sorted((json.loads(line) for line in text.splitlines() if line.startswith("{")), key=lambda told: told["rank"])

    def check_ranks(self, told, records=100):
        self.assertEqual([(one["rank"], one["world"], one["id"]) for one in told], [(0, 2, "0"), (1, 2, "1")])
        self.assertEqual(sorted(told[0]["samples"] + told[1]["samples"]), list(range(records)))
        self.assertEqual(told[0]["job"], told[1]["job"])
        self.assertRegex(told[0]["job"], r"^slurm-\d+\.\d+$")

    def test_cluster(self):
        self.serve()
        self.start_cluster()
        trainer = self.executable("trainer.py", textwrap.dedent(TRAINER.format(package=str(PACKAGE))))
        # The tasks know the socket by the prolog alone.
        done = self.slurm("srun", "-n", "2", "--export=PATH", sys.executable, "-B", trainer)
        self.check_ranks(self.told(done.stdout))
        wait_for("nobody", lambda: not self.status()["clients"])

        with self.subTest("what outlives a job"):
            left = self.folder / "left"
            script = self.executable("job.sh", f"""\
                #!/bin/sh
                setsid sh -c 'echo $$ >{left}.group; (echo attach feed=feed; sleep 600) | {TESTCLIENT} >{left}' &
                until grep -q rc {left}; do sleep 0.1; done
                """)
            other = self.trainer()
            other.attach(job="slurm-999999.0")
            self.slurm("sbatch", "--wait", "--output=job.out", script)
            wait_for("the epilog", lambda: [client["job"] for client in self.status()["clients"]] == ["slurm-999999.0"])
            self.assertRegex(self.log(), r"job slurm-\d+\.\S+ .*detached by root")
            other.close()
            os.killpg(int(pathlib.Path(f"{left}.group").read_text()), signal.SIGKILL)

        with self.subTest("health"):
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait()
            self.wait_for_node("drain")
            self.assertIn("dataloadd: socket: no dataloadd", self.slurm("sinfo", "--noheader", "--format=%E").stdout)
            self.start_daemon()
            self.wait_for_node("idle")

        with self.subTest("a daemon of the job's own"):
            done = self.slurm("sbatch", "--wait", "--output=own.out", SOURCE / "docs/slurm/own-daemon.sh", self.folder / "dataloadd.yaml",
                              sys.executable, "-B", trainer, check=False)
            said = (self.folder / "own.out").read_text()
            self.assertEqual(done.returncode, 0, said)
            self.check_ranks(self.told(said))
            self.assertEqual([name for name in os.listdir("/tmp") if name.startswith("dataloadd-") and name[10:].isdigit()], [])
        self.assertEqual(self.node(), "idle")


def harness_path():
    return f"{DAEMON.parent}:{CTL.parent}"


if __name__ == "__main__":
    if not LONG or SANITIZE:
        skip("a cluster, with DATALOADD_LONG=1, and without a sanitizer")
    for program in PROGRAMS:
        if not shutil.which(program, path="/usr/sbin:/usr/bin:/bin"):
            skip(f"{program} is not installed")
    if os.getuid():
        skip("slurmd needs root")
    main()
