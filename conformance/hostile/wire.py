"""Connections of hostile clients: bytes as they are, and answers read as strictly as HTTP/1.1 says."""

import base64
import socket
import struct
import time

# What may be read of one answer's head, in bytes.
HEAD_BYTES_MAX = 64 * 1024
TENANT = ("hostile", "secret")


class Closed(Exception):
    """The server closed the connection, or reset it."""


class Connection:
    """A TCP connection. `source` is the address it comes from: a network of its own to the server."""

    def __init__(self, address, source="127.0.0.2", timeout_s=10, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The port is chosen with the peer: thousands of connections share the addresses.
        self.socket.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        self.socket.settimeout(timeout_s)
        self.socket.bind((source, 0))
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        """Sends all of it; Closed where the server has closed."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed() from error

    def offer(self, data):
        """Sends as much as the server takes; an answer may be there although it did not take all."""
        try:
            self.send(data)
        except Closed:
            pass

    def receive(self):
        try:
            data = self.socket.recv(256 * 1024)
        except ConnectionResetError as error:
            raise Closed() from error
        if not data:
            raise Closed()
        self.received += data

    def exactly(self, count):
        """The next bytes, this many."""
        while len(self.received) < count:
            self.receive()
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def answer(self, method="GET"):
        """The next answer: its status, headers and body. A 100 is passed over."""
        while b"\r\n\r\n" not in self.received:
            assert len(self.received) < HEAD_BYTES_MAX, "the head of the answer does not end"
            self.receive()
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        lines = head.split(b"\r\n")
        version, status = lines[0].split(b" ", 2)[:2]
        assert version in (b"HTTP/1.1", b"HTTP/1.0"), f"no answer of HTTP/1.1: {lines[0][:80]!r}"
        if status == b"100":
            return self.answer(method)
        headers = {name.lower(): value.strip() for name, value in (line.split(b":", 1) for line in lines[1:])}
        return int(status), headers, self.body(method, int(status), headers)

    def body(self, method, status, headers):
        if method == "HEAD" or status in (101, 204, 304):
            return b""
        if headers.get(b"transfer-encoding") == b"chunked":
            return self.chunks()
        return self.exactly(int(headers.get(b"content-length", 0)))

    def chunks(self):
        whole = b""
        while True:
            while b"\r\n" not in self.received:
                self.receive()
            size, self.received = self.received.split(b"\r\n", 1)
            chunk = self.exactly(int(size, 16) + 2)
            if len(chunk) == 2:
                return whole
            whole += chunk[:-2]

    def statuses(self, within_s=10):
        """The statuses of all answers until the server closes or is silent for `within_s`, then how it ended:
        "closed" or "open"."""
        self.socket.settimeout(within_s)
        found = []
        try:
            while True:
                found.append(self.answer()[0])
        except Closed:
            return [*found, "closed"]
        except TimeoutError:
            return [*found, "open"]

    def is_closed_within(self, within_s):
        """Whether the server closes within this time, whatever it sends before."""
        until = time.monotonic() + within_s
        try:
            while (left := until - time.monotonic()) > 0:
                self.socket.settimeout(left)
                self.receive()
                self.received = b""
        except Closed:
            return True
        except TimeoutError:
            pass
        return False

    def finish_sending(self):
        """Shuts down the write side."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        """Closes with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()


def basic(password="password", user="admin"):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def request(method, path, body=None, **headers):
    """A request of an authenticated client, with the headers that Kill Bill's routes need. A header that
    is None is left out; underscores in names become dashes."""
    fields = {
        "Host": "hostile", "Authorization": basic(), "X-Killbill-ApiKey": TENANT[0],
        "X-Killbill-ApiSecret": TENANT[1], "X-Killbill-CreatedBy": "hostile", "Accept": "application/json"}
    if body is not None:
        fields.update({"Content-Type": "application/json", "Content-Length": str(len(body))})
    fields.update({name.replace("_", "-"): value for name, value in headers.items()})
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")
    return head + (body or b"")


def ask(address, data, **options):
    """One request on a connection of its own; its answer."""
    with Connection(address, **options) as connection:
        connection.send(data)
        return connection.answer()
