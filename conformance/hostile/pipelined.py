"""Pipelined requests: thousands in one write, unread, and with a bad one among them."""

import json

import wire

MANY = 10_000
BEFORE, AFTER = 20, 50
LIVE = wire.request("GET", "/health/live")


def unread(server):
    """10,000 requests in one write, whose answers are read only afterwards, in order."""
    with wire.Connection(server.address, timeout_s=20) as connection:
        connection.socket.settimeout(5)
        connection.send(LIVE * MANY)
        for number in range(MANY):
            status = connection.answer()[0]
            assert status == 200, f"answer {number}: {status}"


def never_read(server):
    """Hundreds of requests from each of 20 clients that read nothing and go."""
    clients = [wire.Connection(server.address, receive_bytes=4096) for _ in range(20)]
    for client in clients:
        client.socket.setblocking(False)
        try:
            client.socket.send(LIVE * 500)
        except BlockingIOError:
            pass
    for client in clients:
        client.reset()


def bad_among_good(server):
    """A bad request among good ones: those before are answered, and nothing after it."""
    for bad in (b"G@T / HTTP/1.1\r\nHost: hostile\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET / HTTP/1.1\r\nHost : hostile\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: hostile\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"):
        with wire.Connection(server.address) as connection:
            connection.offer(LIVE * BEFORE + bad + LIVE * AFTER)
            found = connection.statuses()
        assert found == [200] * BEFORE + [400, "closed"], f"{bad[:20]!r}: {found[-5:]}, {len(found)} in all"


def payments(server):
    """Payments in one write: each is made once, in order."""
    keys = [f"pipelined-{server.next_number()}" for _ in range(BEFORE)]
    bodies = [json.dumps({"transactionType": "PURCHASE", "amount": 1, "paymentExternalKey": it}).encode() for it in keys]
    path = f"/1.0/kb/accounts/{server.account}/payments"
    with wire.Connection(server.address) as connection:
        connection.send(b"".join(wire.request("POST", path, it) for it in bodies))
        made = [connection.answer() for _ in bodies]
        assert [it[0] for it in made] == [201] * BEFORE, [it[0] for it in made]
        for key, (_, headers, _) in zip(keys, made):
            payment = headers[b"location"].decode().rstrip("/").rsplit("/", 1)[1]
            connection.send(wire.request("GET", f"/1.0/kb/payments/{payment}"))
            found = json.loads(connection.answer()[2])
            assert (found["paymentExternalKey"], found["purchasedAmount"]) == (key, 1), found


ATTACKS = [unread, never_read, bad_among_good, payments]
