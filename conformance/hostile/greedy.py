"""Greedy clients of another tenant: they take what all tenants share, which is the memory for answers, the readers of
the database, and the calls of a gateway."""

import json
import pathlib
import subprocess
import sys
import threading
import time

import wire
from websocket import TEXT, WebSocket, frame
from server import GATEWAY_CALLS_MAX

HERE = pathlib.Path(__file__).resolve().parent
TENANT = {"X_Killbill_ApiKey": "greedy", "X_Killbill_ApiSecret": "secret"}
MIB = 1 << 20
# What answers that nobody reads may cost the server.
UNREAD_MIB_MAX = 256
UNREAD = 1_000
UNREAD_SOCKETS = 200
# How long the server has for them. Then only the bystander's requests are in progress.
ANSWERED_WITHIN_S = 90
IN_PROGRESS_MAX = 3
# Of the server: clients that do not read are not cut before they have cost what they can.
SETTINGS = {"FAREGATE_HTTP_IDLE_TIMEOUT": "90s"}
NETWORKS = [f"127.0.6.{it}" for it in range(1, 5)]
# An environment of almost 8 MiB, and a tenant's values of as much.
FLAGS, FLAG_BYTES = 15, 500_000
VALUES, VALUE_BYTES = 31, 255 * 1024
PAYMENTS, PIPELINED = 1_500, 50
READERS = 16
QUIET_S, BESIDE_S = 3, 5
# The bystander's p99 beside the readers: so many times its p99 alone, or this, whichever is more.
P99_TIMES_MAX, P99_MS_MAX = 3, 15
SLOW_MS = 3_000


class Greedy:
    """The tenant, with what it has to be greedy with."""

    def __init__(self, server):
        self.server = server
        server.make("/1.0/kb/tenants", {"apiKey": "greedy", "apiSecret": "secret"})
        self.accounts = {}
        for gateway in ("__EXTERNAL_PAYMENT__", "faregate-simulator"):
            account = self.accounts[gateway] = self.make("/1.0/kb/accounts", {"currency": "USD"})
            self.make(f"/1.0/kb/accounts/{account}/paymentMethods?isDefault=true",
                      {"pluginName": gateway, "pluginInfo": {}})
        environments = json.loads(self.ask("GET", "/v1/environments")[2])
        dev = next(it for it in environments if it["key"] == "dev")
        self.secret = next(it["value"] for it in dev["secrets"] if it["type"] == "client")
        self.flags, self.values, self.payments = False, False, False

    def request(self, method, path, body=None, **headers):
        return wire.request(method, path, body, **{**TENANT, **headers})

    def ask(self, method, path, body=None, **headers):
        return wire.ask(self.server.address, self.request(method, path, body, **headers), timeout_s=60)

    def make(self, path, body, status=201):
        found, headers, said = self.ask("POST", path, json.dumps(body).encode())
        assert found == status, f"{path}: {found} {said[:200]!r}"
        return headers.get(b"location", b"").decode().rstrip("/").rsplit("/", 1)[-1]

    def with_flags(self):
        """Long flags in `dev`."""
        for number in range(0 if not self.flags else FLAGS, FLAGS):
            flag = {"key": f"long-{number}", "variationType": "string", "isEnabled": True, "disabledVariationId": "b",
                    "variations": [{"id": "a", "value": "x" * FLAG_BYTES}, {"id": "b", "value": "x"}],
                    "fallthrough": {"variations": [{"id": "a", "rollout": [0, 1]}]}}
            self.make("/v1/flags?environment=dev", flag)
        self.flags = True
        return self

    def with_values(self):
        """Long values under keys of the tenant's own."""
        for number in range(0 if not self.values else VALUES, VALUES):
            status = self.ask("POST", f"/1.0/kb/tenants/userKeyValue/greedy-{number}", b"x" * VALUE_BYTES,
                              Content_Type="text/plain")[0]
            assert status == 201, status
        self.values = True
        return self

    def with_payments(self):
        """Enough payments for a page that takes long."""
        path = f"/1.0/kb/accounts/{self.accounts['__EXTERNAL_PAYMENT__']}/payments"
        pay = self.request("POST", path, b'{"transactionType": "PURCHASE", "amount": 1}')
        with wire.Connection(self.server.address, timeout_s=60) as connection:
            for _ in range(0 if not self.payments else PAYMENTS, PAYMENTS, PIPELINED):
                connection.send(pay * PIPELINED)
                assert {connection.answer()[0] for _ in range(PIPELINED)} == {201}
        self.payments = True
        return self


def greedy(server):
    if not hasattr(server, "greedy"):
        server.greedy = Greedy(server)
    return server.greedy


class Reads:
    """The bystander's reads, by a process of its own."""

    def __init__(self, server):
        path = f"/1.0/kb/accounts/{server.account}"
        self.process = subprocess.Popen(
            [sys.executable, HERE / "bystander.py", server.address[0], str(server.address[1]), path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.period()

    def period(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()


def unread(server, requests, sources=NETWORKS):
    """Sends each request on a connection that is not read; what that costs the server at most, in MiB."""
    before, most, opened = server.resident_mib(), 0, []
    for number, data in enumerate(requests):
        opened.append(wire.Connection(server.address, sources[number % len(sources)], receive_bytes=4096))
        opened[-1].offer(data)
        if number % 10 == 0:
            most = max(most, server.resident_mib() - before)
            # A server without a bound would take the machine's memory.
            if most > 3 * UNREAD_MIB_MAX:
                break
    until = time.monotonic() + ANSWERED_WITHIN_S
    while time.monotonic() < until and most <= 3 * UNREAD_MIB_MAX and server.in_progress() > IN_PROGRESS_MAX:
        most = max(most, server.resident_mib() - before)
        time.sleep(0.05)
    print(f"        {len(opened)} answers that are not read: {most:.0f} MiB", flush=True)
    return most, opened


def check_unread(server, requests):
    most, opened = unread(server, requests)
    try:
        assert most <= UNREAD_MIB_MAX, f"{most:.0f} MiB"
        environments = wire.ask(server.address, wire.request("GET", "/v1/environments"), source="127.0.6.9")
        assert environments[0] == 200, environments[0]
    finally:
        for it in opened:
            it.close()


def unread_flags(server):
    """A thousand answers with all flags, 7.5 MB each, that are not read."""
    of = greedy(server).with_flags()
    body = json.dumps({"context": {"targetingKey": "ada"}}).encode()
    ask = of.request("POST", "/ofrep/v1/evaluate/flags", body, X_API_Key=of.secret, Authorization=None)
    check_unread(server, [ask] * UNREAD)


def unread_updates(server):
    """The same of FeatBit's polling."""
    of = greedy(server).with_flags()
    body = json.dumps({"keyId": "ada", "name": "Ada"}).encode()
    ask = of.request("POST", "/api/public/sdk/client/latest-all", body, Authorization=of.secret)
    check_unread(server, [ask] * UNREAD)


def unread_values(server):
    """A thousand answers with all values of a tenant, 8 MB each, that are not read."""
    of = greedy(server).with_values()
    check_unread(server, [of.request("GET", "/1.0/kb/tenants/uploadPerTenantConfig/greedy/search")] * UNREAD)


def unread_sockets(server):
    """WebSockets of clients whose first message, 7.5 MB, is not read."""
    of = greedy(server).with_flags()
    before, most, opened = server.resident_mib(), 0, []
    sync = json.dumps({"messageType": "data-sync", "data": {"timestamp": 0, "user": {"keyId": "ada", "name": "Ada"}}})
    try:
        for number in range(UNREAD_SOCKETS):
            opened.append(WebSocket(server.address, of.secret, kind="client", receive_bytes=4096,
                                    source=NETWORKS[number % len(NETWORKS)]))
            opened[-1].accepted().offer(frame(TEXT, sync.encode()))
            most = max(most, server.resident_mib() - before)
            assert most <= UNREAD_MIB_MAX, f"{most:.0f} MiB after {len(opened)}"
        time.sleep(1)
        most = max(most, server.resident_mib() - before)
        print(f"        {len(opened)} sockets that are not read: {most:.0f} MiB", flush=True)
        assert most <= UNREAD_MIB_MAX, f"{most:.0f} MiB"
    finally:
        for it in opened:
            it.close()


def big_pages(server):
    """Sixteen readers of pages of 10,000 payments with their audit."""
    of = greedy(server).with_payments()
    ask = of.request("GET", "/1.0/kb/payments/pagination?limit=10000&audit=FULL")
    reads, over, found = Reads(server), threading.Event(), []

    def read():
        with wire.Connection(server.address, "127.0.6.20", timeout_s=60) as connection:
            while not over.is_set():
                connection.send(ask)
                found.append(connection.answer()[0])
                if found[-1] != 200:
                    over.wait(0.05)

    try:
        time.sleep(QUIET_S)
        alone = reads.period()
        readers = [threading.Thread(target=read) for _ in range(READERS)]
        for it in readers:
            it.start()
        time.sleep(BESIDE_S)
        beside = reads.period()
        over.set()
        for it in readers:
            it.join()
    finally:
        reads.close()
    answered = {status: found.count(status) for status in sorted(set(found))}
    print(f"        another tenant's read: p99 {alone['p99_ms']} ms alone, {beside['p99_ms']} ms and {beside['errors']} "
          f"errors beside them; pages {answered}", flush=True)
    assert set(found) <= {200, 503} and not beside["errors"], (answered, beside)
    bound = max(P99_TIMES_MAX * alone["p99_ms"], P99_MS_MAX)
    assert beside["p99_ms"] <= bound, f"p99 {beside['p99_ms']} ms, above {bound:.0f} ms"


def slow_calls(server):
    """As many slow calls of a gateway as it may have in flight."""
    of = greedy(server)
    account = of.accounts["faregate-simulator"]
    mine = server.make("/1.0/kb/accounts", {"currency": "USD"})
    server.make(f"/1.0/kb/accounts/{mine}/paymentMethods?isDefault=true",
                {"pluginName": "faregate-simulator", "pluginInfo": {}})
    body = b'{"transactionType": "PURCHASE", "amount": 1}'
    slow = of.request("POST", f"/1.0/kb/accounts/{account}/payments?pluginProperty=delayMs%3D{SLOW_MS}", body)
    pay = wire.request("POST", f"/1.0/kb/accounts/{mine}/payments", body)
    opened = [wire.Connection(server.address, "127.0.6.30", timeout_s=30) for _ in range(GATEWAY_CALLS_MAX)]
    for it in opened:
        it.send(slow)
    time.sleep(SLOW_MS / 3_000)
    others = [wire.ask(server.address, pay)[0] for _ in range(10)]
    found = [it.answer()[0] for it in opened]
    for it in opened:
        it.close()
    print(f"        {found.count(201)} of {len(found)} slow calls went on; another tenant's: {others}", flush=True)
    assert set(others) == {201}, others
    assert found.count(201) == GATEWAY_CALLS_MAX * 3 // 4 and set(found) == {201, 503}, found


ATTACKS = [unread_flags, unread_updates, unread_values, unread_sockets, big_pages, slow_calls]
