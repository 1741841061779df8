"""A peer that speaks the control protocol by hand, and may speak it wrongly: proto/dataload.proto."""
import array
import os
import socket
import struct

ERROR, HELLO, HELLO_REPLY, ATTACH, PROGRESS, ATTACH_REPLY, READY, FAILED = 2, 3, 4, 5, 6, 7, 8, 9
WAIT, TAKE, RELEASE, SEEK, SEEK_REPLY, DETACH, DETACH_REPLY = 10, 11, 12, 13, 14, 15, 16
STATUS, STATUS_REPLY, FEEDS, FEEDS_REPLY, SLICES, SLICES_REPLY = 17, 18, 19, 20, 21, 22
BAD, BAD_REPLY, PING, PONG = 23, 24, 25, 26
GIVE_FEED, GIVE_FEED_REPLY, GIVE_FILES, GIVE_FILES_REPLY = 100, 101, 102, 103


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def message(**fields):
    """f1=5, f2="text", f3=b"a message": numbers, texts, messages by the number of their field."""
    out = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def parse(data):
    """{field: last value}; varints and bytes, others skipped."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            fields[key >> 3] = number()
        elif key & 7 == 2:
            length = number()
            fields[key >> 3] = data[at:at + length]
            at += length
        else:
            at += {1: 8, 5: 4}[key & 7]
    return fields


def frame(body, payload=b"", ident=1):
    envelope = message(f1=ident) + varint(body << 3 | 2) + varint(len(payload)) + payload
    return struct.pack("<I", len(envelope)) + envelope


def hello(program="hostile", version=1):
    return frame(HELLO, message(f1=1, f2=version, f3=program))


def give_feed(recipe, files, ident=2):
    return frame(GIVE_FEED, message(f1=recipe, f2=files), ident)


def give_files(names, ident=3):
    return frame(GIVE_FILES, b"".join(message(f1=name) for name in names), ident)


def attach(feed="feed", job="hostile", ident=2, **numbers):
    names = {"rank": "f3", "world": "f4", "batch": "f5", "seed": "f6", "epoch": "f7", "slots": "f8"}
    fields = {names[key]: message(f1=value) for key, value in numbers.items()}
    return frame(ATTACH, message(f1=feed, f2=job, **fields), ident)


class Peer:
    def __init__(self, path, greet=True, version=1):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.buffer = b""
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        if greet:
            self.send(hello(version=version))
            assert self.next()[0] == HELLO_REPLY

    def send(self, data):
        self.socket.sendall(data)

    def flood(self, data, most=1 << 24):
        """Sends again and again until the socket takes no more; how many bytes it took."""
        self.socket.setblocking(False)
        sent = 0
        try:
            while sent < most:
                sent += self.socket.send(data[sent % len(data):])
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        self.socket.settimeout(20)
        return sent

    def send_fds(self, data, fds):
        self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])

    def next(self):
        """(body, fields, id) of the next frame, None at the end of the connection; descriptors are closed."""
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack("<I", self.buffer[:4])[0]:
            try:
                data, fds, _, _ = socket.recv_fds(self.socket, 1 << 16, 4)
            except ConnectionResetError:
                return None
            for fd in fds:
                socket.close(fd)
            if not data:
                return None
            self.buffer += data
        length, = struct.unpack("<I", self.buffer[:4])
        fields = parse(self.buffer[4:4 + length])
        self.buffer = self.buffer[4 + length:]
        ident = fields.pop(1, 0)
        (body, payload), = fields.items()
        return body, parse(payload), ident

    def await_body(self, *bodies):
        """The next frame of one of these kinds; others are passed over."""
        while True:
            got = self.next()
            if got is None or got[0] in bodies:
                return got

    def attach(self, **options):
        self.send(attach(**options))
        got = self.await_body(ATTACH_REPLY, ERROR)
        assert got and got[0] == ATTACH_REPLY, got
        return got[1]

    def give(self, recipe, paths, at_a_time=32):
        """Gives a feed of one's own; its name, or the text of the Error."""
        self.send(give_feed(recipe, len(paths)))
        got = self.await_body(GIVE_FEED_REPLY, ERROR)
        if got[0] == ERROR:
            return got[1][2].decode()
        feed = got[1][1].decode()
        for at in range(0, len(paths), at_a_time):
            part = paths[at:at + at_a_time]
            fds = [os.open(path, os.O_RDONLY) for path in part]
            self.send_fds(give_files([str(path) for path in part]), fds)
            for fd in fds:
                os.close(fd)
            got = self.await_body(GIVE_FILES_REPLY, ERROR)
            if got[0] == ERROR:
                return got[1][2].decode()
            assert got[1][1] == at + len(part), got
        return feed

    def close(self):
        self.socket.close()
