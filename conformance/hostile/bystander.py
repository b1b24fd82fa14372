"""The bystander: an honest client beside the attacks.

    python3 bystander.py HOST PORT [PATH]

A process of its own, so that what the hostile clients compute does not count as the server's delay. It
makes payments on a connection that it keeps, and every tenth time asks for the server's health on a new one. With a
PATH it reads that instead.
Each request has a time at which it is due, and its latency counts from then: a server that stalls is seen
by all requests that were due meanwhile. A line on standard input ends a period; its numbers are answered as
a line of JSON.
"""

import itertools
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import wire  # noqa: E402

SOURCE = "127.0.0.3"
EVERY_S = 0.01
NEW_CONNECTION_EVERY = 10
ERRORS_MAX = 3


class Bystander:
    """What it does in turn, and what it has measured since the last report."""

    def __init__(self, address, path=None):
        self.address, self.path = address, path
        self.connection = wire.Connection(address, SOURCE)
        self.latencies_ms, self.errors = [], []
        self.lock = threading.Lock()

    def run(self):
        due = time.monotonic()
        account = None
        for number in itertools.count():
            due += EVERY_S
            time.sleep(max(0, due - time.monotonic()))
            try:
                if self.path:
                    self.connection.send(wire.request("GET", self.path))
                    self.expect(200, self.connection.answer())
                elif number % NEW_CONNECTION_EVERY == 0:
                    self.expect(200, wire.ask(self.address, wire.request("GET", "/health/ready"), source=SOURCE))
                elif number % NEW_CONNECTION_EVERY == 1:
                    account = self.post("/1.0/kb/accounts", {"currency": "USD"})
                elif number % NEW_CONNECTION_EVERY == 2:
                    self.post(f"/1.0/kb/accounts/{account}/paymentMethods?isDefault=true",
                              {"pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {}})
                else:
                    self.post(f"/1.0/kb/accounts/{account}/payments", {"transactionType": "PURCHASE", "amount": 1})
            except Exception as error:  # it is counted, and the next request is made
                self.count(due, f"{type(error).__name__}: {error}"[:200])
                self.connection.close()
                self.connection = wire.Connection(self.address, SOURCE)
            else:
                self.count(due)

    def post(self, path, body):
        self.connection.send(wire.request("POST", path, json.dumps(body).encode()))
        answer = self.connection.answer()
        self.expect(201, answer)
        return answer[1][b"location"].decode().rstrip("/").rsplit("/", 1)[1]

    def expect(self, status, answer):
        assert answer[0] == status, f"{answer[0]} instead of {status}: {answer[2][:120]!r}"

    def count(self, due, error=None):
        with self.lock:
            self.latencies_ms.append(1000 * (time.monotonic() - due))
            if error:
                self.errors.append(error)

    def report(self):
        """Ends a period."""
        with self.lock:
            latencies, errors = sorted(self.latencies_ms), self.errors
            self.latencies_ms, self.errors = [], []
        p99 = latencies[int(0.99 * (len(latencies) - 1))] if latencies else 0
        return {"requests": len(latencies), "p99_ms": round(p99, 1), "errors": len(errors),
                "first": errors[:ERRORS_MAX]}


def main():
    bystander = Bystander((sys.argv[1], int(sys.argv[2])), *sys.argv[3:])
    threading.Thread(target=bystander.run, daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(bystander.report()), flush=True)


if __name__ == "__main__":
    main()
