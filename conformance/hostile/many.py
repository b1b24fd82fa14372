"""Many at a time: connections, streams of HTTP/2, WebSockets, logins and registrations."""

import collections
import itertools
import json
import resource
import struct
import time

import http2
import wire
from server import HEADERS_TIMEOUT_S, SLACK_S
from websocket import WebSocket

# `admission.network_connections_max`, and what each network opens of it.
NETWORK_CONNECTIONS_MAX = 1000
EACH_OF_MANY = 900
GRPC_CONNECTIONS_MAX = 1024
# Of the limit of open files; the server's own is the same.
FILES_KEPT = 1500
IDLE_MAX = 10_000
CONNECTS = 4_000
STREAMS = 5_000
RESETS = 10_000
FRAMES = 100_000
WEBSOCKETS = 500
# How many streams with an unknown secret may wait for it; the others are refused at once.
WEBSOCKETS_WAITING_MAX = 256
PAY = "/faregate.v1.PaymentService/Pay"
# Of one network, `signup.limits`.
LOGINS_PER_MINUTE, REGISTRATIONS_PER_MINUTE = 100, 60
PASSWORD = "Wr0ng-and-never-right"
numbers = itertools.count()


def networks(first):
    """Addresses of this machine, each of which is a network of its own to the server."""
    return (f"127.0.{first}.{it}" for it in range(1, 255))


def idle_connections(server):
    """Thousands of connections that send nothing, from many networks."""
    count = min(IDLE_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - FILES_KEPT)
    sources = [source for source in networks(1) for _ in range(EACH_OF_MANY)][:count]
    opened = [wire.Connection(server.address, source) for source in sources]
    for it in opened[::100]:
        assert not it.is_closed_within(0.001) or len(opened) > 3000, "an idle connection was closed early"
    until = time.monotonic() + HEADERS_TIMEOUT_S + SLACK_S
    for it in opened:
        assert it.is_closed_within(max(until - time.monotonic(), 0.01)), "an idle connection was not closed"
        it.close()


def one_network(server):
    """More connections from one network than it may have."""
    opened, found = [], collections.Counter()
    for _ in range(NETWORK_CONNECTIONS_MAX + 200):
        opened.append(wire.Connection(server.address, "127.0.2.1"))
        opened[-1].offer(wire.request("GET", "/health/live"))
    for it in opened:
        try:
            found[it.answer()[0]] += 1
        except wire.Closed:
            found["closed"] += 1
    for it in opened:
        it.close()
    assert found == {200: NETWORK_CONNECTIONS_MAX, "closed": 200}, found


def connects(server):
    """Thousands of connections that are closed, or reset, at once."""
    for number in range(CONNECTS):
        connection = wire.Connection(server.address)
        connection.reset() if number % 2 else connection.close()


def grpc_connections(server):
    """Connections of gRPC from two networks that begin and make no call, more than those may have."""
    begin = http2.PREFACE + http2.frame(http2.SETTINGS)
    opened = [wire.Connection(server.grpc, f"127.0.5.{1 + it % 2}") for it in range(GRPC_CONNECTIONS_MAX + 100)]
    for it in opened:
        it.offer(begin)
    try:
        with http2.Http2(server.grpc, source="127.0.5.3") as honest:
            assert honest.pong()
    except wire.Closed:
        raise AssertionError("a client of another network is not served") from None
    finally:
        for it in opened:
            it.close()


def refused_streams(server):
    """Thousands of streams on one connection of gRPC, without credentials."""
    with http2.Http2(server.grpc) as connection:
        block = http2.call(PAY)
        connection.send(b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, it, block) for it in ids(STREAMS)))
        assert connection.ended_streams(STREAMS) == set(ids(STREAMS))


def open_streams(server):
    """Thousands of calls on one connection of gRPC that never send their message."""
    with http2.Http2(server.grpc) as connection:
        block = http2.call(PAY, **http2.credentials())
        connection.send(b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, it, block) for it in ids(STREAMS)))
        assert connection.pong(), "the connection was closed"


def rapid_reset(server):
    """Thousands of calls of gRPC that are reset at once."""
    block = http2.call(PAY, **http2.credentials())
    with http2.Http2(server.grpc) as connection:
        connection.offer(b"".join(
            http2.frame(http2.HEADERS, http2.END_HEADERS, it, block)
            + http2.frame(http2.RST_STREAM, 0, it, struct.pack(">I", http2.CANCEL)) for it in ids(RESETS)))
        code = connection.goaway()
    assert code == http2.ENHANCE_YOUR_CALM, f"GOAWAY {code}"


def continuations(server):
    """Headers of gRPC that go on and on in CONTINUATION frames."""
    more = http2.frame(http2.CONTINUATION, 0, 1, http2.field("x-more", "a" * 1000))
    with http2.Http2(server.grpc) as connection:
        connection.offer(http2.frame(http2.HEADERS, 0, 1, http2.call(PAY)) + more * 5000)
        code = connection.goaway()
    assert code == http2.ENHANCE_YOUR_CALM, f"GOAWAY {code}"


def control_frames(server):
    """Floods of PING and SETTINGS whose answers are not read until the end."""
    for frame in (http2.frame(http2.PING, 0, 0, b"flooding"), http2.frame(http2.SETTINGS)):
        with http2.Http2(server.grpc) as connection:
            connection.socket.settimeout(2)
            try:
                connection.offer(frame * FRAMES)
            except TimeoutError:
                pass  # The server reads no more before its answers are read, which is as good.
            else:
                assert connection.pong(), "the connection was closed"


def ids(count):
    """Ids of a client's streams."""
    return range(1, 2 * count, 2)


def websockets(server):
    """Hundreds of streams of feature flags with a wrong secret."""
    opened = [WebSocket(server.address, f"{next(numbers):043}") for _ in range(WEBSOCKETS)]
    found = collections.Counter()
    begun = time.monotonic()
    for it in opened:
        found[it.accepted().close_code()] += 1
        assert it.is_closed_within(SLACK_S), "open after the close frame"
        it.close()
    took_s = time.monotonic() - begun
    assert set(found) <= {4003, 1013} and found[4003] >= WEBSOCKETS_WAITING_MAX, found
    assert took_s < SLACK_S, f"{took_s:.1f} s"


def guesses(server):
    """Logins of Basic with a wrong password, for the bystander's user and for others."""
    found = collections.Counter()
    with wire.Connection(server.address, "127.0.2.2") as connection:
        for number in range(120):
            user = "admin" if number % 2 else f"admin-{number}"
            wrong = wire.basic(f"wrong-{next(numbers)}", user)
            connection.send(wire.request("GET", "/1.0/kb/accounts/pagination", Authorization=wrong))
            status, headers, _ = connection.answer()
            assert status != 429 or b"retry-after" in headers
            found[status] += 1
    assert set(found) <= {401, 429} and found[429] >= 40, found


def log_in(connection):
    # `Via`: a program on this machine that says it passes on what others asked has limits.
    body = {"email": f"hostile-{next(numbers)}@example.com", "password": PASSWORD}
    connection.send(wire.request("POST", "/user/auth/login", json.dumps(body).encode(), Authorization=None,
                                 X_Killbill_ApiKey=None, X_Killbill_ApiSecret=None, Via="1.1 hostile"))


def register(connection):
    body = {"email": f"hostile-{next(numbers)}@example.com", "password": PASSWORD, "firstName": "H", "lastName": "C",
            "acceptTerms": True}
    connection.send(wire.request("POST", "/v1/registrations", json.dumps(body).encode(), Authorization=None,
                                 X_Killbill_ApiKey=None, X_Killbill_ApiSecret=None, Via="1.1 hostile"))


def logins(server):
    """Logins of customers that do not exist, one after the other from one network."""
    check_limit(server, "127.0.2.3", log_in, 401, LOGINS_PER_MINUTE)


def hashing(server):
    """Registrations and logins from many networks at once, whose clients go before they are answered."""
    opened = [wire.Connection(server.address, source) for source in networks(3)]
    for it in opened:
        log_in(it)
        register(it)
    time.sleep(0.5)
    for it in opened:
        it.reset()
    # What was asked for by clients that are gone is not computed: the next one does not wait for it.
    begun = time.monotonic()
    with wire.Connection(server.address, "127.0.2.4", timeout_s=20) as connection:
        register(connection)
        status = connection.answer()[0]
    took_s = time.monotonic() - begun
    assert status == 202 and took_s < SLACK_S, f"{status} after {took_s:.1f} s"


def registrations(server):
    """More registrations from one network than it may make in a minute."""
    check_limit(server, "127.0.2.5", register, 202, REGISTRATIONS_PER_MINUTE)


def check_limit(server, source, send, status, per_minute):
    """As many as a minute allows are served, and then as many as its part that has passed."""
    found, begun = collections.Counter(), time.monotonic()
    with wire.Connection(server.address, source) as connection:
        for _ in range(per_minute + 50):
            send(connection)
            found[connection.answer()[0]] += 1
    served_max = per_minute * (1 + (time.monotonic() - begun) / 60) + 1
    assert set(found) == {status, 429} and found[status] <= served_max, found


ATTACKS = [idle_connections, one_network, connects, grpc_connections, refused_streams, open_streams, rapid_reset, continuations,
           control_frames, websockets, guesses, logins, registrations, hashing]
