"""Big requests: bodies, headers, URLs, frames and messages above the limits."""

import json

import http2
import wire
from cases import CLOSES, GOES_ON, check
from websocket import TEXT, WebSocket, frame

MIB = 1 << 20
# Each with its API's way to read a body.
ROUTES = ["/1.0/kb/accounts", "/v1/registrations", "/v1/flags?environment=dev", "/v1/environments/dev/import",
          "/user/auth/register"]
PAY = "/faregate.v1.PaymentService/Pay"
OK, RESOURCE_EXHAUSTED, OUT_OF_RANGE = 0, 8, 11


def chunked(path, **headers):
    return wire.request("POST", path, Content_Type="application/json", Transfer_Encoding="chunked", **headers)


def bodies(server):
    """Bodies above the limit, with their length and in chunks."""
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    check(server, [case for path in ROUTES for case in [
        (f"1 MiB and a byte to {path}", wire.request("POST", path, b" " * (MIB + 1)), 413, GOES_ON),
        (f"2 MiB in chunks to {path}", chunked(path) + chunk * 32 + b"0\r\n\r\n", 413, GOES_ON),
        (f"2 MiB as one chunk to {path}", chunked(path) + b"200000\r\n" + b" " * 2 * MIB + b"\r\n0\r\n\r\n", 413, GOES_ON),
    ]])


def announced(server):
    """Bodies of a tebibyte, announced and not sent."""
    check(server, [case for path in [*ROUTES, "/health/live"] for case in [
        (f"1 TiB to {path}", wire.request("POST", path, b"", Content_Length=str(1 << 40)),
         405 if path == "/health/live" else 413, CLOSES),
        (f"most that fits to {path}", wire.request("POST", path, b"", Content_Length=str((1 << 63) - 1)),
         405 if path == "/health/live" else 413, CLOSES),
    ]])


def many_bodies(server):
    """Bodies just below the limit from a hundred clients, most of them withheld."""
    data = wire.request("POST", "/1.0/kb/accounts", b" " * MIB)
    opened = [wire.Connection(server.address) for _ in range(100)]
    for it in opened:
        it.send(data[:-1])
    for it in opened:
        it.offer(data[-1:])
        status = it.answer()[0]
        assert status in (400, 503), status
        it.close()


def anonymous_bodies(server):
    """Bodies that are announced by clients without credentials, from two networks, and not sent."""
    data = wire.request("POST", "/v1/registrations", b"", Authorization=None, X_Killbill_ApiKey=None,
                        X_Killbill_ApiSecret=None, Content_Length=str(64 * 1024))
    opened = [wire.Connection(server.address, f"127.0.4.{1 + it % 2}") for it in range(1_800)]
    for it in opened:
        it.offer(data)
    for it in opened:
        status = it.answer()[0]
        assert status in (408, 503), status
        it.close()


def compressed(server):
    """Bodies in an encoding."""
    check(server, [(f"{encoding} to {path}", wire.request("POST", path, b"\x1f\x8b\x08" + b"0" * 200,
                    Content_Encoding=encoding), 415, GOES_ON) for path in ROUTES for encoding in ("gzip", "br", "x")])


def heads(server):
    """Headers and URLs above the limit, and as many as fit."""
    line = b"GET /health/live HTTP/1.1\r\nHost: hostile\r\n"
    check(server, [
        ("a header of 70 KB", line + b"X-Big: " + b"a" * 70_000 + b"\r\n\r\n", 431, CLOSES),
        ("a header of 70 MB", line + b"X-Big: " + b"a" * 70_000_000 + b"\r\n\r\n", 431, CLOSES),
        ("a header of 60 KB", line + b"X-Big: " + b"a" * 60_000 + b"\r\n\r\n", 200, GOES_ON),
        ("a name of 70 KB", line + b"a" * 70_000 + b": b\r\n\r\n", 431, CLOSES),
        ("3,000 headers", line + b"a: b\r\n" * 3_000 + b"\r\n", 431, CLOSES),
        ("3,000 headers with names of their own", line + b"".join(b"a%d: b\r\n" % it for it in range(3_000)) + b"\r\n",
         431, CLOSES),
        ("300,000 headers", line + b"a: b\r\n" * 300_000 + b"\r\n", 431, CLOSES),
        ("a URL of 70 KB", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: hostile\r\n\r\n", 431, CLOSES),
        ("a URL of 60 KB", b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: hostile\r\n\r\n", 404, GOES_ON),
        ("a path of 30,000 segments", b"GET " + b"/a" * 30_000 + b" HTTP/1.1\r\nHost: hostile\r\n\r\n", 404, GOES_ON),
        ("a method of 5 KB", b"A" * 5_000 + b" / HTTP/1.1\r\nHost: hostile\r\n\r\n", 405, GOES_ON),
        ("300,000 empty lines", b"\r\n" * 300_000 + line + b"\r\n", 431, CLOSES),
    ])


def parameters(server):
    """Thousands of query parameters."""
    query = "&".join(f"a{it}=b" for it in range(6_000))
    same = "&".join(["tag=a"] * 9_000)
    check(server, [
        ("6,000 to Kill Bill's API", wire.request("GET", f"/1.0/kb/accounts/pagination?{query}"), 200, GOES_ON),
        ("6,000 to /v1", wire.request("GET", f"/v1/flags?{query}"), 400, GOES_ON),
        ("one of them 9,000 times", wire.request("GET", f"/v1/flags?{same}"), 400, GOES_ON),
        ("6,000 to /streaming", wire.request("GET", f"/streaming?{query}"), 400, GOES_ON),
    ])


def values(server):
    """Texts and numbers as long as a body may be."""
    cases = []
    for path, name in (("/1.0/kb/accounts", "externalKey"), ("/1.0/kb/accounts", "name"), ("/v1/registrations", "email"),
                       ("/user/auth/register", "password"), ("/v1/flags?environment=dev", "key")):
        body = json.dumps({name: "a" * 1_000_000}).encode()
        # Sign-up reads 64 KiB.
        status = {"/1.0/kb/accounts": 400, "/v1/flags?environment=dev": 422}.get(path, 413)
        cases.append((f"{name} to {path}", wire.request("POST", path, body), status, GOES_ON))
    digits = b'{"currency": "USD", "billCycleDayLocal": ' + b"1" * 1_000_000 + b"}"
    cases.append(("a million digits", wire.request("POST", "/1.0/kb/accounts", digits), 400, GOES_ON))
    check(server, cases)


def websocket_frames(server):
    """Frames of a WebSocket above the limit, announced and sent."""
    for data in (frame(TEXT, b"a" * 10_000), frame(TEXT, length=1 << 40), frame(TEXT, length=(1 << 63) - 1),
                 frame(TEXT, b"a" * 5_000, first=0) + frame(0, b"a" * 5_000), frame(TEXT, b"a" * 3_000_000)):
        with WebSocket(server.address, server.secret) as socket:
            socket.accepted().offer(data)
            code = socket.close_code()
            assert code == 1009, f"closed with {code} after {data[:14]!r}"


def grpc_messages(server):
    """Messages of gRPC above the limit, announced and sent."""
    block = http2.call(PAY, **http2.credentials())
    for payload in (http2.message(b"")[:1] + b"\xff\xff\xff\xff", http2.message(b"\x0a" * (MIB + 1))[:60_000]):
        with http2.Http2(server.grpc) as connection:
            connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, block))
            for at in range(0, len(payload), 16_000):
                connection.send(http2.frame(http2.DATA, 0, 1, payload[at:at + 16_000]))
            assert connection.ended_streams(1) == {1} and connection.pong()


ATTACKS = [bodies, announced, many_bodies, anonymous_bodies, compressed, heads, parameters, values, websocket_frames, grpc_messages]
