"""Stands between an SDK and the server, changes nothing, and keeps what the server says on streams."""

import json
import re
import socket
import struct
import threading

PIECE_BYTES = 65_536
STATUS = re.compile(rb"^HTTP/1\.1 (\d{3}) ", re.MULTILINE)
TEXT, CLOSE = 1, 8
SHORT_MAX, SIXTEEN_BITS = 125, 126


class Proxy:
    """Where an SDK connects to. While it is shut, connections are refused."""

    def __init__(self, upstream):
        self.upstream = upstream
        self.is_open = True
        # Every answer's status, every stream's messages and how the server closed streams.
        self.statuses, self.streams, self.closes = [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        start(self.accept)

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                if not self.is_open:
                    raise ConnectionRefusedError
                server = socket.create_connection(self.upstream, timeout=5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            start(pump, client, server, lambda piece: None)
            start(pump, server, client, Reader(self).take)

    def syncs(self):
        """The flags that the last stream received."""
        return [it["data"] for it in self.streams[-1] if it["messageType"] == "data-sync"]


def start(work, *arguments):
    threading.Thread(target=work, args=arguments, daemon=True).start()


def pump(source, target, see):
    """Passes on what one side says, and that it says no more: the other may still be speaking."""
    try:
        while piece := source.recv(PIECE_BYTES):
            see(piece)
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class Reader:
    """What the server says on one connection."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.is_stream = False
        self.rest = b""
        self.messages = []

    def take(self, piece):
        self.rest += piece
        if not self.is_stream:
            self.answers()
        while self.is_stream and self.frame():
            pass

    def answers(self):
        """Several may come on one connection; their bodies hold nothing that reads as a status line."""
        statuses = [int(it) for it in STATUS.findall(self.rest)]
        self.proxy.statuses += statuses
        head, end, rest = self.rest.partition(b"\r\n\r\n")
        self.is_stream = 101 in statuses and bool(end)
        self.rest = rest if self.is_stream else b""
        if self.is_stream:
            self.proxy.streams.append(self.messages)

    def frame(self):
        """Whether there was a whole one. A server masks nothing, and ours does not split messages."""
        length, at = self.rest[1] if len(self.rest) > 1 else 0, 2
        if length > SHORT_MAX:
            layout = ">H" if length == SIXTEEN_BITS else ">Q"
            at += struct.calcsize(layout)
            if len(self.rest) < at:
                return False
            (length,) = struct.unpack(layout, self.rest[2:at])
        if len(self.rest) < max(at, 2) + length:
            return False
        kind, payload = self.rest[0] & 0x0F, self.rest[at:at + length]
        self.rest = self.rest[at + length:]
        if kind == TEXT:
            self.messages.append(json.loads(payload))
        elif kind == CLOSE:
            self.proxy.closes.append(struct.unpack(">H", payload[:2])[0] if payload else None)
        return True
