"""Half-closed connections: clients that stop sending, and clients that go, at every stage of a request."""

import json
import time

import wire
from server import SLACK_S

TIMES = 50


def after_request(server):
    """The end of sending right after the request: it is answered all the same."""
    for data, status in ((wire.request("GET", "/health/live"), 200), (wire.request("GET", "/v1/flags"), 200),
                         (wire.request("POST", "/1.0/kb/accounts", b"{}"), 201)):
        with wire.Connection(server.address) as connection:
            connection.send(data)
            connection.finish_sending()
            found = connection.statuses()
            assert found == [status, "closed"], found


def in_parts(server):
    """The end of sending in the middle of a request line, of headers, of a body and of chunks."""
    post = wire.request("POST", "/1.0/kb/accounts", b" " * 100)
    chunks = wire.request("POST", "/1.0/kb/accounts", Transfer_Encoding="chunked", Content_Type="application/json")
    for data, expected in ((b"GE", ["closed"]), (b"GET / HTTP/1.1\r\nHost: ho", ["closed"]), (post[:-50], [400, "closed"]),
                           (post[:-100], [400, "closed"]), (chunks + b"10\r\nabc", [400, "closed"]),
                           (chunks + b"1\r\na\r\n", [400, "closed"]), (b"", ["closed"])):
        with wire.Connection(server.address) as connection:
            connection.send(data)
            connection.finish_sending()
            found = connection.statuses(SLACK_S)
            assert found in (expected, [400, "closed"]), f"{data[-20:]!r}: {found} instead of {expected}"


def reset_in_answer(server):
    """A reset in the middle of a long answer."""
    for _ in range(TIMES):
        connection = wire.Connection(server.address, receive_bytes=4096)
        connection.send(wire.request("GET", "/openapi.json"))
        connection.receive()
        connection.reset()


def reset_in_body(server):
    """A reset in the middle of a body."""
    data = wire.request("POST", "/1.0/kb/accounts", b" " * 500_000)
    for _ in range(TIMES):
        connection = wire.Connection(server.address)
        connection.send(data[:len(data) // 2])
        connection.reset()


def reset_in_payment(server):
    """A reset while a payment is processed: it is made once or not at all, and its key tells which."""
    keys = [f"reset-{server.next_number()}" for _ in range(TIMES)]
    path = f"/1.0/kb/accounts/{server.account}/payments"
    for number, key in enumerate(keys):
        body = json.dumps({"transactionType": "PURCHASE", "amount": 1, "paymentExternalKey": key}).encode()
        connection = wire.Connection(server.address)
        connection.send(wire.request("POST", path, body))
        time.sleep(0.0005 * (number % 10))
        connection.reset()
    with wire.Connection(server.address) as connection:
        for key in keys:
            connection.send(wire.request("GET", f"/1.0/kb/payments?externalKey={key}"))
            status, _, body = connection.answer()
            assert status in (200, 404), status
            if status == 200:
                found = json.loads(body)
                states = [it["status"] for it in found["transactions"]]
                assert states in (["SUCCESS"], ["PENDING"]), states


ATTACKS = [after_request, in_parts, reset_in_answer, reset_in_body, reset_in_payment]
