"""Wrong bytes: what is no HTTP, what two servers could read in two ways, texts and numbers that cannot be."""

import json
import os

import http2
import wire
from cases import CLOSES, GOES_ON, check
from websocket import CLOSE, PING, TEXT, WebSocket, frame

GET = b"GET /health/live HTTP/1.1\r\nHost: hostile\r\n"
POST = b"POST /v1/registrations HTTP/1.1\r\nHost: hostile\r\nContent-Type: application/json\r\n"
IN_CHUNKS = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /health/ready HTTP/1.1\r\nHost: hostile\r\n\r\n"
ACCOUNTS, FLAGS = "/1.0/kb/accounts", "/v1/flags?environment=dev"
LIST = "/1.0/kb/accounts/pagination"


def protocols(server):
    """Bytes of other protocols, and of none."""
    check(server, [
        ("random bytes", os.urandom(4096) + b"\r\n\r\n", 400, CLOSES),
        ("zeros", b"\0" * 4096, 400, CLOSES),
        ("a TLS ClientHello", bytes.fromhex("1603010200010001fc0303") + os.urandom(506), 400, CLOSES),
        ("HTTP/0.9", b"GET /\r\n\r\n", 400, CLOSES),
        ("HTTP/1.0", b"GET /health/live HTTP/1.0\r\n\r\n", 200, CLOSES),
        ("HTTP/1.9", b"GET /health/live HTTP/1.9\r\nHost: hostile\r\n\r\n", 400, CLOSES),
        ("HTTP/2.0 as text", b"GET /health/live HTTP/2.0\r\nHost: hostile\r\n\r\n", 400, CLOSES),
        ("HTTP/2 on the port of HTTP/1.1", http2.PREFACE + http2.frame(http2.SETTINGS), None, CLOSES),
        ("an upgrade to h2c", GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", 200, GOES_ON),
        ("SSH", b"SSH-2.0-hostile\r\n", 400, CLOSES),
        ("PROXY protocol", b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + GET + b"\r\n", 400, CLOSES),
    ])


def http1_on_grpc(server):
    """HTTP/1.1, TLS and random bytes on the port of gRPC."""
    for data in (GET + b"\r\n", bytes.fromhex("1603010200010001fc0303") + os.urandom(506), os.urandom(4096)):
        with wire.Connection(server.grpc) as connection:
            connection.offer(data)
            assert connection.is_closed_within(10), f"open after {data[:10]!r}"


def http2_frames(server):
    """Frames of HTTP/2 that may not be."""
    frame, block = http2.frame, http2.call("/faregate.v1.PaymentService/Pay")
    for what, data in {
        "DATA on stream 0": frame(http2.DATA, 0, 0, b"a"),
        "DATA on an idle stream": frame(http2.DATA, 0, 5, b"a"),
        "HEADERS on an even stream": frame(http2.HEADERS, http2.END_HEADERS, 2, block),
        "SETTINGS of 5 bytes": frame(http2.SETTINGS, 0, 0, b"aaaaa"),
        "PING of 7 bytes": frame(http2.PING, 0, 0, b"aaaaaaa"),
        "WINDOW_UPDATE of 0": frame(http2.WINDOW_UPDATE, 0, 0, b"\0\0\0\0"),
        "WINDOW_UPDATE beyond 2^31": frame(http2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2,
        "PUSH_PROMISE": frame(http2.PUSH_PROMISE, http2.END_HEADERS, 1, b"\0\0\0\2" + block),
        "CONTINUATION alone": frame(http2.CONTINUATION, http2.END_HEADERS, 1, block),
        "a block that is no HPACK": frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xff" * 100),
        "a frame of 16 MiB": b"\xff\xff\xff" + frame(http2.HEADERS, 0, 1)[3:] + block,
    }.items():
        with http2.Http2(server.grpc) as connection:
            connection.offer(data)
            code = connection.goaway()
            assert code, f"{what}: GOAWAY {code}"


def framing(server):
    """Lengths and chunks that two servers could read in two ways."""
    length = b"Content-Length: %d\r\n"
    cases = [
        ("length and chunks", POST + length % 5 + IN_CHUNKS + b"\r\n0\r\n\r\n" + SMUGGLED, 400, CLOSES),
        ("chunks and length", POST + IN_CHUNKS + length % 5 + b"\r\n0\r\n\r\n" + SMUGGLED, 400, CLOSES),
        ("two lengths", POST + length % 2 + length % 5 + b"\r\n{}abc", 400, CLOSES),
        ("a list of lengths", POST + b"Content-Length: 2, 2\r\n\r\n{}", 400, CLOSES),
        ("chunks in HTTP/1.0", POST.replace(b"1.1", b"1.0") + IN_CHUNKS + b"\r\n0\r\n\r\n" + SMUGGLED, 400, CLOSES),
        ("the same length twice", POST + length % 2 * 2 + b"\r\n{}", 400, GOES_ON),
        ("trailers without end", POST + IN_CHUNKS + b"\r\n0\r\n" + b"a: b\r\n" * 100_000, 400, CLOSES),
        ("an extension without end", POST + IN_CHUNKS + b"\r\n1;" + b"a" * 100_000, 400, CLOSES),
    ]
    for value in (b"+2", b"-1", b"0x2", b"2 2", b"", b"2.0", b"9" * 30):
        cases.append((f"length {value!r}", POST + b"Content-Length: " + value + b"\r\n\r\n{}", 400, CLOSES))
    for value in (b"xchunked", b"identity", b"chunked, identity", b"\x0bchunked", b"", b"chunked;q=1", b"chunked chunked"):
        cases.append((f"encoding {value!r}", POST + b"Transfer-Encoding: " + value + b"\r\n\r\n0\r\n\r\n", 400, CLOSES))
    for value in (b"-1", b"xyz", b"", b"0x1", b"1" + b"0" * 16, b"1 1", b"+1"):
        cases.append((f"chunk {value!r}", POST + IN_CHUNKS + b"\r\n" + value + b"\r\na\r\n0\r\n\r\n", 400, CLOSES))
    cases += [("a chunk longer than its size", POST + IN_CHUNKS + b"\r\n1\r\nabc\r\n0\r\n\r\n", 400, CLOSES),
              ("chunks that end in LF", POST + IN_CHUNKS + b"\r\n1\n{\n0\n\n", 400, CLOSES)]
    check(server, cases)


def headers(server):
    """Header lines that may not be."""
    cases = [(f"{line!r}", GET + line + b"\r\n\r\n", 400, CLOSES) for line in (
        b"X: a\0b", b"X: a\rb", b"X: a\r\n b", b"X", b": a", b"X : a", "é: a".encode(), b"X\0: a", b"X: \x7f", b"X: \x01",
        b" X: a", b"Content-Length : 2", b"Transfer-Encoding : chunked")]
    cases += [(f"{line!r}", GET + line + b"\r\n\r\n", status, GOES_ON) for line, status in (
        (b"X: \xe9\xff", 200), ("X: é".encode(), 200), (b"Host: other", 400), (b"Connection: \xff", 200),
        (b"X-Request-Id: " + b"a" * 5_000, 200), (b"Authorization: Basic \xff\xff", 200))]
    cases += [
        ("no Host", b"GET /health/live HTTP/1.1\r\n\r\n", 400, GOES_ON),
        ("a Host with a space", b"GET /v1/flags HTTP/1.1\r\nHost: a b\r\n\r\n", 400, GOES_ON),
        ("lines that end in LF", b"GET /health/live HTTP/1.1\nHost: hostile\n\n", 200, GOES_ON),
        ("an unknown expectation", POST + b"Expect: x\r\nContent-Length: 2\r\n\r\n{}", 400, GOES_ON),
    ]
    for value in ("Basic", "Basic !", "Basic YQ==", "Basic " + "A" * 50_000, "Bearer x", "Digest x", "\xff"):
        cases.append((f"Authorization {value[:20]!r}", wire.request("GET", LIST, Authorization=value), 401, GOES_ON))
    check(server, cases)


def paths(server):
    """Request lines, paths and queries that may not be, and methods that are not for them."""
    cases = [(f"{target[:40]!r}", b"GET " + target + b" HTTP/1.1\r\nHost: hostile\r\n\r\n", 400, CLOSES) for target in (
        b"/a\0b", b"/a b", b"/\xff\xfe", b"/a\x7f", b"", b"http://", b"/a\tb")]
    cases += [(path, wire.request("GET", path), status, GOES_ON) for path, status in (
        ("/1.0/kb/accounts/%ff", 400), ("/1.0/kb/accounts/%", 400), ("/1.0/kb/accounts/%zz", 400),
        ("/1.0/kb/accounts/%00", 400), ("/v1/flags/%ff", 400), ("/v1/flags/%zz", 404), ("/v1/flags/%00", 404),
        (f"{LIST}?offset=%ff", 400), (f"{LIST}?offset=%zz", 400), ("/v1/flags?limit=%ff", 400),
        ("/../../etc/passwd", 404), ("/..%2f..%2fetc%2fpasswd", 404), ("/docs/../health/live", 404),
        ("/health/%2e%2e/metrics", 404), ("//health/live", 404), ("/health/live/", 404), ("/HEALTH/live", 404),
        ("/health/live?%00", 200), ("/health/live#a", 200), ("http://other/health/live", 200))]
    cases += [(f"{method} {path}", wire.request(method, path), status, GOES_ON) for method, path, status in (
        ("TRACE", "/health/live", 405), ("DELETE", "/health/live", 405), ("get", "/health/live", 405),
        ("GET", "a", 404), ("PATCH", ACCOUNTS, 405), ("PROPFIND", ACCOUNTS, 405), ("PUT", "/v1/flags", 405),
        ("CONNECT", "other:443", 404), ("OPTIONS", "*", 404))]
    cases.append(("G@T", b"G@T / HTTP/1.1\r\nHost: hostile\r\n\r\n", 400, CLOSES))
    check(server, cases)


def texts(server):
    """Bodies that are no UTF-8, and texts that cannot be stored."""
    bad = [b'{"name": "\xff"}', b'{"name": "\xed\xa0\x80"}', b'{"name": "\\ud800"}', b'{"name": "\\udc00\\ud800"}',
           b'{"name": "\\u12"}', b'{"name": "\\x"}', b'{"name": "a\nb"}', b'\xef\xbb\xbf{}', '{"name": "a"}'.encode("utf-16"),
           b"{", b"{}{}", b"{'a': 1}", b'{"a": 1,}', b"", b"\0", b"nan"]
    check(server, [(f"{data[:24]!r} to {path}", wire.request("POST", path, data), 400, GOES_ON)
                   for path in (ACCOUNTS, FLAGS, "/v1/registrations") for data in bad])


def numbers(server):
    """Amounts and numbers that cannot be."""
    pay = f"/1.0/kb/accounts/{server.account}/payments"
    amounts = ["1e400", "-1", "-0", "0", "1e30", "1" + "0" * 400, "0.001", "1e-400", "NaN", "Infinity", "-Infinity", '"NaN"',
               "0x10", "01", "+1", "1.", ".5", "[1]", "{}", "true", "9223372036854775808", '"1e999999999"', "1e999999999"]
    cases = [(f"amount {it[:24]}", wire.request("POST", pay, b'{"transactionType": "PURCHASE", "amount": %s}' % it.encode()),
              400, GOES_ON) for it in amounts]
    for it in ("-1", "99999999999999999999", "1e3", "NaN", "a", "9223372036854775807"):
        cases.append((f"offset {it}", wire.request("GET", f"{LIST}?offset={it}"), 400, GOES_ON))
        cases.append((f"limit {it}", wire.request("GET", f"/v1/flags?limit={it}"), 400, GOES_ON))
    for it in ("1e400", "-1", "1e308", "2"):
        rollout = b'{"key": "n", "variationType": "number", "variations": [{"id": "a", "value": "1"}], "disabledVariationId": "a",' \
                  b' "fallthrough": {"variations": [{"id": "a", "rollout": [0, %s]}]}}' % it.encode()
        cases.append((f"rollout {it}", wire.request("POST", FLAGS, rollout), 400 if it == "1e400" else 422, GOES_ON))
    check(server, cases)


def websocket_frames(server):
    """Frames of a WebSocket that may not be."""
    for what, data, codes in (
        ("not masked", frame(TEXT, b"{}", mask=0), {1002}), ("a reserved bit", frame(TEXT, b"{}", first=0xC0), {1002}),
        ("all reserved bits", frame(TEXT, b"{}", first=0xF0), {1002}), ("opcode 3", frame(3, b"{}"), {1002}),
        ("opcode 11", frame(11), {1002}), ("a fragmented ping", frame(PING, b"a", first=0), {1002}),
        ("a ping of 126 bytes", frame(PING, b"a" * 126), {1002}), ("a continuation first", frame(0, b"a"), {1002}),
        ("a text within a text", frame(TEXT, b"a", first=0) + frame(TEXT, b"a"), {1002}),
        ("a close of 1 byte", frame(CLOSE, b"a"), {1002}), ("close code 1005", frame(CLOSE, b"\x03\xed"), {1002}),
        ("HTTP", GET + b"\r\n", {1002}), ("random bytes", b"\xff" + os.urandom(4096), {1002}),
    ):
        with WebSocket(server.address, server.secret) as socket:
            socket.accepted().offer(data)
            code = socket.close_code()
            assert code in codes, f"{what}: closed with {code}"


def websocket_messages(server):
    """Messages of a WebSocket that say nothing: the stream stays."""
    with WebSocket(server.address, server.secret) as socket:
        socket.accepted()
        for data in (b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"messageType": 1}', json.dumps({"messageType": "x"}).encode(),
                     b'{"messageType": "data-sync", "data": {"timestamp": 1e400}}', b'{"messageType": "\\ud800"}'):
            socket.offer(frame(TEXT, data))
        socket.offer(frame(CLOSE, b"\x03\xe8"))
        code = socket.close_code()
        assert code in (1000, 1007), f"closed with {code}"


ATTACKS = [protocols, http1_on_grpc, http2_frames, framing, headers, paths, texts, numbers, websocket_frames,
           websocket_messages]
