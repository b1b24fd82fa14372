"""Slow clients: they send or read as little as the server allows, many at a time."""

import selectors
import time

import wire
from server import BODY_TIMEOUT_S, HEADERS_TIMEOUT_S, IDLE_TIMEOUT_S, SLACK_S

CLIENTS = 200
READERS = 100
BYTE_EVERY_S = 0.1


def drip(server, start, rest, within_s):
    """Many clients send `start`, then a byte of `rest` every 100 ms. What each received until it was closed;
    all have to be closed within this time."""
    clients = [wire.Connection(server.address) for _ in range(CLIENTS)]
    said, begun = [], time.monotonic()
    for client in clients:
        client.send(start)
    for at in range(len(rest)):
        time.sleep(BYTE_EVERY_S)
        for client in clients:
            client.offer(rest[at:at + 1])
        for client in [it for it in clients if has_ended(it)]:
            said.append(client.received)
            clients.remove(client)
            client.close()
        took_s = time.monotonic() - begun
        if not clients:
            return said
        assert took_s < within_s, f"{len(clients)} of {CLIENTS} are still open after {took_s:.1f} s"
    raise AssertionError("the request was sent in whole")


def has_ended(client):
    """Whether the server has closed; reads what there is."""
    client.socket.setblocking(False)
    try:
        while True:
            client.receive()
    except wire.Closed:
        return True
    except BlockingIOError:
        return False
    finally:
        client.socket.setblocking(True)


def header(server):
    """A header, a byte every 100 ms."""
    said = drip(server, b"GET /1.0/kb/accounts HTTP/1.1\r\nHost: hostile\r\nX-Slow: ", b"a" * 600,
                HEADERS_TIMEOUT_S + SLACK_S)
    assert set(said) == {b""}, set(said)


def request_line(server):
    """A request line, a byte every 100 ms."""
    said = drip(server, b"GET /", b"a" * 600, HEADERS_TIMEOUT_S + SLACK_S)
    assert set(said) == {b""}, set(said)


def body(server):
    """A body, a byte every 100 ms."""
    whole = wire.request("POST", "/1.0/kb/accounts", b" " * 1000)
    said = drip(server, whole[:-1000], whole[-1000:], BODY_TIMEOUT_S + SLACK_S)
    assert {it[:13] for it in said} == {b"HTTP/1.1 408 "}, set(said)


def chunks(server):
    """Chunks of a byte, one every second or so."""
    start = wire.request("POST", "/v1/registrations", Transfer_Encoding="chunked", Content_Type="application/json")
    said = drip(server, start, b"1\r\n \r\n" * 200, BODY_TIMEOUT_S + SLACK_S)
    assert {it[:13] for it in said} == {b"HTTP/1.1 408 "}, set(said)


def handshake(server):
    """The handshake of a WebSocket, a byte every 100 ms."""
    start = b"GET /streaming?type=server&token=x HTTP/1.1\r\nHost: hostile\r\nUpgrade: websocket\r\nSec-WebSocket-Key: "
    said = drip(server, start, b"a" * 600, HEADERS_TIMEOUT_S + SLACK_S)
    assert set(said) == {b""}, set(said)


def silence(server):
    """Connections that send nothing, and ones that send no second request."""
    silent = [wire.Connection(server.address) for _ in range(CLIENTS)]
    idle = [wire.Connection(server.address) for _ in range(CLIENTS)]
    begun = time.monotonic()
    for client in idle:
        client.send(wire.request("GET", "/health/live"))
        assert client.answer()[0] == 200
    for clients, within_s in ((silent, HEADERS_TIMEOUT_S), (idle, IDLE_TIMEOUT_S)):
        for client in clients:
            left_s = begun + within_s + SLACK_S - time.monotonic()
            assert client.is_closed_within(max(left_s, 0.01)), f"open after {within_s + SLACK_S} s"
            client.close()


def reader(server):
    """Large answers that are requested again and again, and not read."""
    clients = [wire.Connection(server.address, receive_bytes=4096) for _ in range(READERS)]
    selector = selectors.DefaultSelector()
    wanted = wire.request("GET", "/openapi.json") * 20
    for client in clients:
        client.socket.setblocking(False)
        selector.register(client.socket, selectors.EVENT_READ)
        try:
            client.socket.send(wanted)
        except BlockingIOError:
            pass
    time.sleep(IDLE_TIMEOUT_S + 1)
    # The server has closed; what is left is what the two sockets' buffers hold.
    for client in clients:
        client.socket.setblocking(True)
        assert client.is_closed_within(SLACK_S), "the server still waits for its answers to be read"
        client.close()


ATTACKS = [request_line, header, body, chunks, handshake, silence, reader]
