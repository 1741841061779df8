"""A socket between trainers and their daemon, which makes of each the peer of another version: test_versions.py."""
import os
import socket
import struct
import threading

import wire

# A field and a message that nobody knows yet.
FUTURE = wire.message(f2001="of a later version", f2002=7)
BODY = 1999


def envelope(data):
    """(id, body, payload) of a frame's bytes."""
    fields = wire.parse(data)
    ident = fields.pop(1, 0)
    (body, payload), = fields.items()
    return ident, body, payload


class Between(threading.Thread):
    """Listens at `path`; hellos are capped to version `most`; later=True: all messages have fields, and between them come messages,
    that the other side does not know, and hellos speak of versions to come."""

    def __init__(self, path, daemon, most=None, later=False):
        super().__init__(daemon=True)
        self.daemon_path, self.most, self.later = str(daemon), most, later
        self.agreed = set()  # versions in HelloReply
        self.sockets = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                upstream.connect(self.daemon_path)
            except OSError:  # between two daemons
                client.close()
                upstream.close()
                continue
            self.sockets += [client, upstream]
            threading.Thread(target=self.carry, args=(client, upstream, self.to_daemon), daemon=True).start()
            threading.Thread(target=self.carry, args=(upstream, client, self.to_client), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for end in self.sockets:
            end.close()

    def carry(self, source, target, change):
        """Frames. The kernel ends a read within what came with descriptors, so they belong to the frame of its last byte."""
        buffer, riders = b"", []
        try:
            while True:
                data, fds, _, _ = socket.recv_fds(source, 1 << 16, 64)
                if not data:
                    break
                riders += fds
                buffer += data
                while len(buffer) >= 4 and len(buffer) >= 4 + struct.unpack("<I", buffer[:4])[0]:
                    end = 4 + struct.unpack("<I", buffer[:4])[0]
                    last = riders if end == len(buffer) else []
                    self.pass_on(target, change(buffer[4:end]), last)
                    buffer = buffer[end:]
                    riders = [] if last else riders
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def pass_on(target, data, riders):
        sent = socket.send_fds(target, [data], riders) if riders else 0
        for fd in riders:
            os.close(fd)
        target.sendall(data[sent:])

    def frame(self, ident, body, payload):
        return wire.frame(body, payload + FUTURE if self.later else payload, ident)

    def unknown(self):
        """What goes before each frame to a trainer: a message of a later version, which is no request."""
        return wire.frame(BODY, FUTURE, 0) if self.later else b""

    def to_daemon(self, data):
        ident, body, payload = envelope(data)
        if body == wire.HELLO:
            fields = wire.parse(payload)
            highest = self.most or (fields[2] + 7 if self.later else fields[2])
            return self.frame(ident, body, wire.message(f1=fields[1], f2=highest, f3=fields.get(3, b"")))
        return self.frame(ident, body, payload)

    def to_client(self, data):
        ident, body, payload = envelope(data)
        if body == wire.HELLO_REPLY:
            self.agreed.add(wire.parse(payload)[1])
        return self.unknown() + self.frame(ident, body, payload)
