"""A daemon of one's own: one for each user and job, started by whichever trainer comes first.

Everything is in one folder of the job, and one lock in it tells the state. The starter takes the lock, and the daemon inherits its
descriptor and never closes it: while the lock is taken, a daemon starts, serves or ends; when it is free, none lives, whoever was
killed in between. The daemon ends by itself when nobody has been connected for IDLE_EXIT seconds.
"""
from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, Optional, Sequence, Union

from .errors import Error, Timeout
from .feeds import Feed, configuration
from .programs import program

__all__ = ["DaemonFailed", "FeedsDiffer", "daemon_for"]

IDLE_EXIT = 5  # seconds
_GOING = IDLE_EXIT + 5  # seconds after which a daemon that nobody uses has gone
_STARTS = 2  # the first may have ended for want of clients, if this process was held up for long
_POLL = 0.01
_LEFT_BEHIND = 86400  # seconds for which the log of a daemon that has ended is kept
_SOCKET_PATH_MAX = 107
# Of the service that the trainer may be; and a rank's own GPUs, while the daemon serves all ranks.
_NOT_ITS_OWN = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "CUDA_VISIBLE_DEVICES")
# Envelope{id: 1, hello: Hello{lowest version: 1, highest version: 1}} of proto/dataload.proto, with its length.
_HELLO = b"\x08\x00\x00\x00" b"\x08\x01\x1a\x04\x08\x01\x10\x01"

Config = Union[None, str, os.PathLike, Feed, Sequence[Feed]]


class DaemonFailed(Error):
    """The daemon of one's own could not be started; the text has the end of its log."""


class FeedsDiffer(Error):
    """The daemon of this job serves other feeds than those given here."""


class _Given(NamedTuple):
    """What the daemon is to serve."""

    digest: str
    words: str
    text: Optional[str]  # of a configuration of our own
    path: Optional[str]  # of the user's; None: the daemon's default one


def _given(config: Config) -> _Given:
    if isinstance(config, Feed):
        config = [config]
    if config is None or isinstance(config, (str, os.PathLike)):
        path = None if config is None else os.path.abspath(os.path.expanduser(os.fspath(config)))
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        read = path or os.path.join(home, "dataloadd/dataloadd.yaml")
        try:
            content = Path(read).read_bytes()
        except OSError as error:
            raise DaemonFailed(f"the configuration {read} cannot be read ({error.strerror}): give config=, a file or a list of "
                               "dataload.Feed") from error
        return _Given(hashlib.sha256(content).hexdigest(), read, None, path)
    text = configuration(config)
    return _Given(hashlib.sha256(text.encode()).hexdigest(), f"the feeds {', '.join(feed.name for feed in config)} given in Python", text, None)


def _own_folder(path: str) -> None:
    """Makes it; OSError where it is another's, or others may look into it."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(0, f"it must be a folder of user {os.geteuid()} with mode 0700, not of user {found.st_uid} "
                                 f"with mode {stat.S_IMODE(found.st_mode):04o}")


def _bases() -> list[str]:
    """Folders that all trainers of a user on a node find alike, best first."""
    runtime, name = os.environ.get("XDG_RUNTIME_DIR", ""), f"dataloadd-{os.geteuid()}"
    temporary = [os.environ.get("TMPDIR", ""), "/tmp"]
    return [os.path.join(base, name) for base in [runtime, *temporary] if base.startswith("/")]


def _folder(job: str) -> str:
    """Of this job, made where it is missing."""
    key, reasons = hashlib.sha256(job.encode()).hexdigest()[:16], []
    for base in _bases():
        folder = os.path.join(base, key)
        too_long = len(os.fsencode(folder)) + len("/control.sock") - _SOCKET_PATH_MAX
        try:
            if too_long > 0:
                raise OSError(0, f"{too_long} bytes too long for a socket")
            _own_folder(base)
            _own_folder(folder)
            return folder
        except OSError as error:
            reasons.append(f"{base}: {error.strerror}")
    raise DaemonFailed(f"no place for the socket of a daemon of one's own: {'; '.join(reasons)}; set TMPDIR to a short folder of yours")


def _take_lock(folder: str) -> Optional[int]:
    """A descriptor with the lock, or None where it is taken. The folder is removed by others only under the lock, so a lock in a
    folder that has gone is none."""
    while True:
        try:
            fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            _own_folder(folder)
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(os.path.join(folder, "lock"))):
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(fd)
            raise DaemonFailed(f"{folder} cannot be locked ({error.strerror}): set TMPDIR to a folder on a local disk") from error
        os.close(fd)


def _sweep(base: str, own: str) -> None:
    """Removes what daemons of old jobs have left: their logs. Called by a starter, who has time."""
    for folder in Path(base).iterdir():
        try:
            old = time.time() - folder.lstat().st_mtime > _LEFT_BEHIND
            lock = _take_lock(str(folder)) if old and str(folder) != own else None
        except OSError:
            continue  # another sweeps too
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _program() -> str:
    """That of this package, else the one on the PATH."""
    found = program("dataloadd") or shutil.which("dataloadd")
    if not found:
        raise DaemonFailed("there is no program dataloadd on the PATH: install it, or use a daemon that runs already (spawn=False)")
    return found


def _write(path: str, text: str) -> None:
    """Whole or not at all."""
    fd, name = tempfile.mkstemp(dir=os.path.dirname(path))
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, path)


def _start(folder: str, given: _Given, lock: int) -> None:
    """The daemon: of a session of its own, and nobody's child, so that nothing that ends the trainer ends it."""
    config = given.path
    if given.text is not None:
        config = os.path.join(folder, "feeds.json")
        _write(config, given.text)
    _write(os.path.join(folder, "given.json"), json.dumps({"digest": given.digest, "words": given.words}))
    command = [_program(), "--user", "--socket", os.path.join(folder, "control.sock"), "--idle-exit", str(IDLE_EXIT)]
    command += ["--config", config] if config else []
    env = {key: value for key, value in os.environ.items() if key not in _NOT_ITS_OWN}
    with open(os.path.join(folder, "daemon.log"), "wb") as log:
        subprocess.run(["/bin/sh", "-c", '"$@" &', "sh", *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                       start_new_session=True, pass_fds=[lock], check=True)


def _serves(folder: str) -> Optional[_Given]:
    """What the daemon was started with."""
    try:
        found = json.loads(Path(folder, "given.json").read_text(encoding="utf-8"))
        return _Given(found["digest"], found["words"], None, None)
    except FileNotFoundError:
        return None


def _answers(path: str, seconds: float) -> bool:
    """Whether a daemon takes us in; from then on it stays for IDLE_EXIT seconds."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(max(seconds, _POLL))
        try:
            peer.connect(path)
            peer.sendall(_HELLO)
            return bool(peer.recv(1))
        except OSError:
            return False


def _log_end(folder: str) -> str:
    try:
        lines = Path(folder, "daemon.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return " | ".join(line.strip() for line in lines[-3:]) or "nothing"


def _differs(job: str, serves: _Given, given: _Given) -> FeedsDiffer:
    return FeedsDiffer(f"the daemon of job {job} was started with {serves.words}, and this trainer gives {given.words}, which is not the "
                       "same: give all trainers of the job all its feeds (config=[...]), or name another job=")


def daemon_for(config: Config, job: str, timeout: float = 30.0) -> str:
    """The socket of the daemon of this user and job, which is started where none runs. An attach must follow within IDLE_EXIT seconds.

    config: a file, feeds given in Python, or None for the user's configuration. Raises DaemonFailed with the end of the daemon's log
    where it does not start, FeedsDiffer where others of the job have given it something else, Timeout where it does not answer.
    """
    given, folder, starts = _given(config), _folder(job), 0
    path, begin, differing = os.path.join(folder, "control.sock"), time.monotonic(), None
    while True:
        now = time.monotonic()
        lock = _take_lock(folder)
        if lock is not None:
            try:
                if starts == _STARTS:
                    raise DaemonFailed(f"the daemon of job {job} has ended; its log {folder}/daemon.log says: {_log_end(folder)}")
                starts, differing = starts + 1, None
                _sweep(os.path.dirname(folder), folder)
                _start(folder, given, lock)
            finally:
                os.close(lock)
            continue
        serves = _serves(folder)
        if serves and serves.digest == given.digest:
            if _answers(path, begin + timeout - now) and _serves(folder).digest == given.digest:
                return path
        elif serves:
            differing = differing or now  # a daemon that nobody uses any more makes room
            if now - differing > _GOING or now - begin > timeout:
                raise _differs(job, serves, given)
        if now - begin > timeout:
            raise Timeout(f"the daemon of job {job} does not answer at {path} for {timeout:g} s; its log says: {_log_end(folder)}")
        time.sleep(_POLL)
