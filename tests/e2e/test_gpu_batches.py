"""Batches on a GPU of the stand-in, from a real daemon to processes that map them by the driver's own calls: the same
bytes as in shared memory, by each way, also from another PID namespace and for a trainer that is killed."""
import ctypes
import hashlib
import mmap
import socket
import sys
import unittest

import wire
from harness import *

ARENA_CHECK, BATCHES, HOST, VMM, IPC = 47, 24, 0, 1, 2
GPU = bytes.fromhex("5ca1ab1e000040008000000000000000")
U64 = ctypes.c_ulonglong


class Failed(Exception):
    pass


class Allocation(ctypes.Structure):
    _fields_ = [("location_type", ctypes.c_int), ("location", ctypes.c_int), ("flags", ctypes.c_int)]


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL(str(BUILD / "cuda_standin/libcuda.so.1"))
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuStreamCreateWithPriority", ctypes.byref(self.stream), 1, 0)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            raise Failed(name, code)

    def map(self, fd, size):
        memory, self.at, access = U64(), U64(), Allocation(1, 0, 1)
        self.call("cuMemImportFromShareableHandle", ctypes.byref(memory), ctypes.c_void_p(fd), 1)
        os.close(fd)
        self.call("cuMemAddressReserve", ctypes.byref(self.at), ctypes.c_size_t(size), ctypes.c_size_t(0), U64(0), U64(0))
        self.call("cuMemMap", self.at, ctypes.c_size_t(size), ctypes.c_size_t(0), memory, U64(0))
        self.call("cuMemRelease", memory)
        self.call("cuMemSetAccess", self.at, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))

    def open(self, handle):
        self.at = U64()
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(self.at), Handle.from_buffer_copy(handle), 1)

    def read(self, offset, size):
        to = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoHAsync_v2", to, U64(self.at.value + offset), ctypes.c_size_t(size), self.stream)
        self.call("cuStreamSynchronize", self.stream)
        return to.raw


class Client(wire.Peer):
    """A trainer: says what it is offered and what stands in its batches."""

    def __init__(self, path):
        self.fds, real = [], socket.recv_fds

        def keep(*arguments):
            data, fds, flags, address = real(*arguments)
            self.fds += fds
            return data, [], flags, address
        socket.recv_fds = keep
        super().__init__(path)
        self.said = {"ways": []}

    def check(self, offer):
        try:
            if offer[25] == IPC:
                self.driver.open(offer[27])
            else:
                self.driver.map(self.fds.pop(), offer[28])
            answer = wire.message(f1=self.driver.read(offer[29], 16), f4=offer[31])
        except Failed as failed:
            answer = wire.message(f2=failed.args[0], f3=failed.args[1], f4=offer[31])
        self.send(wire.frame(ARENA_CHECK, answer, 0))

    def attach(self, gpu):
        self.send(wire.frame(wire.ATTACH, wire.message(f1="feed", f2="job", **({"f13": GPU} if gpu else {})), 2))
        self.driver = gpu and Driver()
        while True:
            body, fields, _ = self.await_body(wire.ATTACH_REPLY, wire.READY, wire.ERROR)
            if body == wire.READY:
                return fields
            if body == wire.ERROR:
                raise AssertionError(fields)
            self.offer = fields
            self.said["ways"].append(fields.get(25, HOST))
            self.said["why"] = fields.get(30, b"").decode()
            if fields.get(25, HOST) != HOST:
                self.check(fields)

    def read(self, slot):
        size = self.offer[10]
        if self.said["ways"][-1] != HOST:
            return self.driver.read(slot * size, size)
        if not hasattr(self, "memory"):
            self.memory = mmap.mmap(self.fds[0], self.offer[9] * size, prot=mmap.PROT_READ)
        return self.memory[slot * size:(slot + 1) * size]

    def run(self, gpu):
        ready, hashes = self.attach(gpu), []
        while True:
            place = {"f1": ready.get(1, 0), "f2": ready[2]}
            self.send(wire.frame(wire.TAKE, wire.message(**place), 0))
            hashes.append(hashlib.sha256(self.read(place["f1"])).hexdigest())
            if len(hashes) == BATCHES:
                break
            self.send(wire.frame(wire.RELEASE, wire.message(**place), 0))
            ready = self.await_body(wire.READY)[1]
        print(json.dumps(dict(self.said, hashes=hashes)), flush=True)
        while sys.stdin.readline():  # with the last batch held
            print(hashlib.sha256(self.read(place["f1"])).hexdigest(), flush=True)


@unittest.skipIf(SANITIZE, "Python loads no library that is built with a sanitizer")
class GpuBatches(Case):
    def serve(self, **settings):
        write_shards(self.folder / "data", shards=2, records=40)
        self.config(dict({"source": str(self.folder / "data/*.tar"), "batch": 4, "handoff": "auto"}, **settings))
        self.environment = {**STANDIN, "STANDIN_REPORT": str(self.folder / "standin.log"), "STANDIN_DOMAIN": str(os.getpid()),
                            "STANDIN_OP_US": "300"}
        self.start_daemon(env=self.environment)

    def client(self, gpu=True, prefix=()):
        process = subprocess.Popen([*prefix, sys.executable, "-B", __file__, str(self.socket), str(int(gpu))], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **self.environment}, cwd=os.path.dirname(__file__) or ".")
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertTrue(line, "the client has ended")
        return process, json.loads(line)

    def end(self, process):
        process.kill()
        process.wait()
        wait_for("the end of its attachment", lambda: not self.status()["clients"])

    def gpu(self):
        return json.loads(self.ctl("gpu", "--json").stdout)["gpus"][0]

    def run_once(self, ways, **options):
        process, said = self.client(**options)
        self.assertEqual(said["ways"], ways, said["why"])
        clients = self.status()["clients"]
        self.assertEqual(clients[0]["memory"], ("host", "vmm", "ipc")[ways[-1]])
        self.assertEqual(self.gpu()["lent"] > 0, ways[-1] != HOST)
        self.end(process)
        wait_for("the GPU's memory", lambda: self.gpu()["lent"] == 0)
        return said

    def test_the_same_bytes(self):
        seen = []
        for handoff, gpu, ways in (("auto", False, [HOST]), ("auto", True, [VMM]), ("ipc", True, [IPC]), ("host", True, [HOST])):
            self.serve(handoff=handoff)
            seen.append(self.run_once(ways, gpu=gpu)["hashes"])
            self.stop_daemon()
        self.assertEqual(len(set(seen[0])), BATCHES)
        self.assertEqual([hashes == seen[0] for hashes in seen], [True] * 4)
        self.assertFalse((self.folder / "standin.log").exists())  # nothing is left, and no rule was broken

    def test_another_pid_namespace(self):
        apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no PID namespace may be made here")
        self.serve()
        self.run_once([VMM], prefix=apart)
        self.stop_daemon()
        self.serve(handoff="ipc")
        said = self.run_once([IPC, HOST], prefix=apart)
        self.assertIn("cuIpcOpenMemHandle_v2: CUDA_ERROR_INVALID_HANDLE (400)", said["why"])
        self.assertIn("PID namespace", said["why"])

    def test_killed_daemon(self):
        """What was passed on by a descriptor outlives it."""
        self.serve()
        process, said = self.client()
        self.assertEqual(said["ways"], [VMM])
        self.daemon.kill()
        self.daemon.wait()
        process.stdin.write("again\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline().strip(), said["hashes"][-1])


if len(sys.argv) == 3 and sys.argv[1].startswith("/"):
    Client(sys.argv[1]).run(sys.argv[2] == "1")
main()
