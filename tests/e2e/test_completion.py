"""Completion by bash and zsh: real shells on a terminal, with the names that a daemon has at the moment."""
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import termios
import threading
import time
import unittest

import harness
import wire
from harness import CTL, PACK, SANITIZE, SLACK, SOURCE

ODD = "odd:a.b/c_d-1"
SCRIPTS = SOURCE / "completion"

BASH = """
dataloadctl() { program {ctl} "$@"; }; dataloadd() { program {daemon} "$@"; }; dataload-pack() { program {pack} "$@"; }
program() { case "$2 $3" in __complete*|*--help*) "$@" ;; *) shift; printf '<%s>' "$@"; echo '<END>' ;; esac; }
for script in {scripts}/*.bash; do . $script; done
bind 'set bell-style none'; bind 'set enable-bracketed-paste off'
"""
ZSH = """
fpath=({scripts} $fpath); autoload -U compinit; compinit -u -D; unsetopt zle_bracketed_paste; unset zle_bracketed_paste; LISTMAX=1000
dataloadctl() { program {ctl} "$@" }; dataloadd() { program {daemon} "$@" }; dataload-pack() { program {pack} "$@" }
program() { case "$2 $3" in (__complete*|*--help*) "$@" ;; (*) shift; printf '<%s>' "$@"; echo '<END>' ;; esac }
"""


class Terminal:
    """A shell on a terminal, in which the programs print their arguments instead."""

    def __init__(self, command, setup, env, folder):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, env)
        termios.tcsetwinsize(self.fd, (50, 250))
        for name, path in (("ctl", CTL), ("daemon", harness.DAEMON), ("pack", PACK), ("scripts", SCRIPTS)):
            setup = setup.replace("{%s}" % name, str(path))
        (folder / "setup").write_text(setup)
        self.type("stty -echo; . ./setup; echo READ''Y\n")
        self.read_until("READY")

    def type(self, text):
        os.write(self.fd, text.encode())

    def read_until(self, what):
        text, end = "", time.monotonic() + 10 * SLACK
        while what not in text:
            if time.monotonic() > end or not select.select([self.fd], [], [], 10 * SLACK)[0]:
                raise AssertionError(f"no {what} in {text!r}")
            text += os.read(self.fd, 65536).decode(errors="replace")
        return text

    def complete(self, line):
        """The arguments that the program gets when a tab and Enter follow the line."""
        self.type(line + "\t\n")
        return [word.rstrip("/") for word in re.findall("<([^<>]*)>", self.read_until("<END>"))[:-1]]

    def close(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Completion(harness.Case):
    def setUp(self):
        super().setUp()
        harness.write_shards(self.folder / "data", shards=1)
        source = f"{self.folder}/data/*.tar"
        self.config([{"name": ODD, "source": source, "batch": 4}, {"name": "plain", "source": source, "batch": 4}], workers=1)

    def candidates(self, *words):
        start = time.monotonic()
        done = subprocess.run([str(CTL), "__complete", *words], capture_output=True, text=True, env=dict(os.environ, DATALOADD_SOCKET=str(self.socket)))
        self.took = time.monotonic() - start
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_candidates(self):
        self.assertEqual(self.candidates("bench", ""), [])  # no daemon
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach("plain", job="run:7")
        self.assertEqual(self.candidates("bench", ""), [ODD, "plain"])
        self.assertEqual(self.candidates("bench", "odd:a"), [ODD])
        self.assertEqual(self.candidates("--json", "--world", "2", "bench", "p"), ["plain"])
        self.assertEqual(self.candidates("find", "plain", ""), [])
        self.assertEqual(self.candidates("detach", "--feed", ""), [ODD, "plain"])
        self.assertEqual(self.candidates("detach", "--feed=o"), [f"--feed={ODD}"])
        self.assertEqual(self.candidates("detach", "--job", ""), ["run:7"])
        self.assertEqual(self.candidates("measure", ""), ["run:7"])
        self.assertEqual(self.candidates("--socket", "/nowhere", "bench", ""), [])
        self.assertEqual(self.candidates("--socket=/nowhere", "bench", ""), [])
        self.assertEqual(self.candidates("status", "-n", ""), [])
        self.assertEqual(self.candidates("status", "-n3", "--wa"), ["--watch"])
        self.assertEqual(self.candidates("top", "--w"), [])
        self.assertEqual(self.candidates("report", "--html", "x"), ["@file"])
        self.assertEqual(self.candidates("metrics", "--textfile="), ["@directory"])
        self.assertEqual(self.candidates("frobnicate", ""), [])
        self.assertEqual(self.candidates(), [])
        self.assertEqual(self.candidates("re"), ["report", "replay", "reload"])
        self.daemon.send_signal(harness.signal.SIGSTOP)
        self.assertEqual(self.candidates("bench", ""), [])
        self.assertLess(self.took, 0.5 * SLACK)

    def test_names_for_no_shell(self):
        names = ["good", "$(id)", "a b", "`id`", "a;b", "--help", "a\nb", "x" * 129, "a'b", "\u00e9"]
        feeds = b"".join(wire.message(f2=wire.message(f1=name)) for name in names)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.socket))
            listening.listen()

            def serve():
                peer = listening.accept()[0]
                for reply in (wire.frame(wire.HELLO_REPLY, wire.message(f1=1), ident=1), wire.frame(wire.FEEDS_REPLY, feeds, ident=2)):
                    peer.recv(65536)
                    peer.sendall(reply)
                peer.close()

            thread = threading.Thread(target=serve)
            thread.start()
            self.assertEqual(self.candidates("bench", ""), ["good"])
            thread.join()

    def test_nobody_accepts(self):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.socket))
            listening.listen(0)
            with socket.socket(socket.AF_UNIX) as first:
                first.connect(str(self.socket))
                self.assertEqual(self.candidates("bench", ""), [])
        self.assertLess(self.took, 0.5 * SLACK)

    def test_verbs_are_those_of_help(self):
        verbs = self.candidates("")
        text = self.ctl("--help").stdout.split("Verbs:\n")[1].split("\n\n")[0]
        listed = re.findall(r"^  ([a-z]+)(?:, ([a-z]+))?", text, re.M)
        self.assertEqual(sorted(verbs), sorted(word for pair in listed for word in pair if word))

    def lines(self, terminal):
        self.assertEqual(terminal.complete("dataloadctl repl"), ["replay"])
        self.assertEqual(terminal.complete("dataloadctl bench --wor"), ["bench", "--world"])
        self.assertEqual(terminal.complete("dataloadctl bench odd"), ["bench", ODD])
        self.assertEqual(terminal.complete("dataloadctl bench odd:a"), ["bench", ODD])
        self.assertEqual(terminal.complete("dataloadctl detach --feed=odd:"), ["detach", f"--feed={ODD}"])
        self.assertEqual(terminal.complete("dataloadctl report --html set"), ["report", "--html", "setup"])
        self.assertEqual(terminal.complete("dataloadctl report --html=set"), ["report", "--html=setup"])
        self.assertEqual(terminal.complete("dataloadctl metrics --textfile da"), ["metrics", "--textfile", "data"])
        self.assertEqual(terminal.complete("true && dataloadctl bench odd"), ["bench", ODD])
        self.assertEqual(terminal.complete("A=1 dataloadctl --json bench odd"), ["--json", "bench", ODD])
        self.assertEqual(terminal.complete("dataloadctl --socket /nowhere bench odd"), ["--socket", "/nowhere", "bench", "odd"])
        self.assertEqual(terminal.complete("dataloadd --idl"), ["--idle-exit"])
        self.assertEqual(terminal.complete("dataloadd --config set"), ["--config", "setup"])
        self.assertEqual(terminal.complete("dataloadd --config=set"), ["--config=setup"])
        self.assertEqual(terminal.complete("dataload-pack fol"), ["folder"])
        self.assertEqual(terminal.complete("dataload-pack sample --im"), ["sample", "--images"])
        self.assertEqual(terminal.complete("dataload-pack folder da"), ["folder", "data"])

    def shell(self, *command, setup):
        if SANITIZE:
            self.skipTest("nothing of it is the shell's")
        self.start_daemon()
        env = {"DATALOADD_SOCKET": str(self.socket), "PATH": os.environ["PATH"], "HOME": str(self.folder), "TERM": "dumb", "LC_ALL": "C.UTF-8",
               "PS1": "", "HISTFILE": ""}
        terminal = Terminal(list(command), setup, env, self.folder)
        self.addCleanup(terminal.close)
        return terminal

    def test_bash(self):
        self.lines(self.shell("bash", "--norc", "--noprofile", "-i", setup=BASH))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        self.lines(self.shell("zsh", "-f", "-i", setup=ZSH))


if __name__ == "__main__":
    harness.main()
