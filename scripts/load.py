"""Payments on a fixed schedule over HTTP, each sent again with the same key until it is answered."""

import asyncio
import base64
import json
import random
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Optional
from urllib.parse import quote

SIMULATOR = "faregate-simulator"
EXTERNAL = "__EXTERNAL_PAYMENT__"

# One attempt may take so long; then the key is sent again, to another front.
ATTEMPT_S = 10
# A payment that has no answer after so long is given up, which is a violation.
INSIST_S = 180
PAUSE_S, PAUSE_MAX_S = 0.05, 1.0
# Payments in progress; those that are due beyond it are not sent, and counted.
IN_PROGRESS_MAX = 20_000
MAKING_AT_ONCE = 16
# The simulated gateway takes up to so long.
DELAY_MS_MAX = 200

# What an answer to a payment means: it stands, it did not happen, or nobody knows yet.
WORKED, FAILED, AGAIN = "worked", "failed", "again"
CODE_KEY_SUCCEEDED = 7030
AGAIN_STATUS = {409, 429, 503, 504}
# Kill Bill's codes for "in doubt": the gateway said nothing, an error of its own, or another
# operation of the payment is unknown.
AGAIN_CODES = {7019, 7032, 7100, 7199}


class Unexpected(Exception):
    """An answer that nothing explains."""


@dataclass
class Account:
    """An account with one payment method."""

    id: str
    is_called: bool


@dataclass
class Payment:
    """One payment and what became of it; times in seconds of the monotonic clock."""

    key: str
    account: Account
    minor: int
    due: float
    answered: Optional[float] = None
    attempts: int = 0
    result: Optional[str] = None
    last: str = "no answer"

    def wait_s(self):
        return (self.answered or time.monotonic()) - self.due


@dataclass
class Response:
    """An answer."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body, parse_float=Decimal) if self.body else {}


def meaning(response):
    """What an answer says about the payment."""
    if response.status == 201:
        return WORKED
    if response.status in (402, 502):
        return FAILED
    if response.status in AGAIN_STATUS:
        return AGAIN
    try:
        code = response.json().get("code")
    except (ValueError, AttributeError):
        code = None
    if code == CODE_KEY_SUCCEEDED:
        return WORKED
    if code in AGAIN_CODES:
        return AGAIN
    raise Unexpected(f"{response.status} {response.body[:300].decode(errors='replace')}")


class Fronts:
    """The fronts in turn, with connections that stay open."""

    def __init__(self, urls, api_key, api_secret, user="admin", password="password"):
        self.addresses = [(it.split("//")[1].split(":")[0], int(it.rsplit(":", 1)[1])) for it in urls]
        self.idle = {address: [] for address in self.addresses}
        self.turn = 0
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.headers = (f"Authorization: Basic {credentials}\r\nX-Killbill-ApiKey: {api_key}\r\n"
                        f"X-Killbill-ApiSecret: {api_secret}\r\nX-Killbill-CreatedBy: chaos\r\n"
                        "Accept: application/json\r\n")

    async def send(self, method, target, body=None, key=None):
        """One attempt at the next front; raises OSError, EOFError or TimeoutError without an answer."""
        address = self.addresses[self.turn % len(self.addresses)]
        self.turn += 1
        return await asyncio.wait_for(self.exchange(address, method, target, body, key), ATTEMPT_S)

    async def exchange(self, address, method, target, body, key):
        reader, writer = self.idle[address].pop() if self.idle[address] else (
            await asyncio.open_connection(*address, limit=1 << 20))
        try:
            text = json.dumps(body).encode() if body is not None else b""
            head = f"{method} {target} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n{self.headers}"
            if body is not None:
                head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
            if key:
                head += f"Idempotency-Key: {key}\r\n"
            writer.write(head.encode() + b"\r\n" + text)
            response = await read_response(reader)
        except BaseException:
            writer.close()
            raise
        if response.headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self.idle[address].append((reader, writer))
        return response

    async def insist(self, method, target, body=None, key=None, within_s=INSIST_S):
        """Sends until there is an answer that is not "not now"."""
        until, pause = time.monotonic() + within_s, PAUSE_S
        while True:
            try:
                response = await self.send(method, target, body, key)
                if response.status not in AGAIN_STATUS:
                    return response
                trouble = f"{response.status} {response.body[:200]!r}"
            except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError) as error:
                trouble = repr(error)
            if time.monotonic() > until:
                raise Unexpected(f"{method} {target}: no answer in {within_s} s: {trouble}")
            pause = await wait_a_little(pause)


async def read_response(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ")[1])
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Response(status, headers, body)


async def wait_a_little(pause):
    """Waits, and returns how long to wait the next time."""
    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
    return min(2 * pause, PAUSE_MAX_S)


async def make_accounts(fronts, run, count):
    """Accounts with a payment method: two of three go through the simulated gateway."""
    gate = asyncio.Semaphore(MAKING_AT_ONCE)

    async def make(no):
        async with gate:
            key, is_called = f"{run}-a{no}", no % 3 != 0
            made = await fronts.insist(
                "POST", "/1.0/kb/accounts", {"externalKey": key, "currency": "USD", "name": key}, key)
            expect(made, 201)
            account = made.headers["location"].rstrip("/").rsplit("/", 1)[1]
            made = await fronts.insist(
                "POST", f"/1.0/kb/accounts/{account}/paymentMethods?isDefault=true",
                {"pluginName": SIMULATOR if is_called else EXTERNAL, "pluginInfo": {}}, f"{key}-m")
            expect(made, 201)
            return Account(account, is_called)

    return await asyncio.gather(*(make(no) for no in range(count)))


def expect(response, status):
    if response.status != status:
        raise Unexpected(f"{response.status} {response.body[:300].decode(errors='replace')}")


class Load:
    """`rate` payments a second for as long as it is not stopped."""

    def __init__(self, fronts, accounts, run, rate, seed):
        self.fronts, self.accounts, self.run, self.rate = fronts, accounts, run, rate
        self.random = random.Random(seed)
        self.payments, self.unexpected = [], []
        self.not_sent = 0
        self.running = set()
        self.stopping = False

    async def work(self):
        """Open loop: payments are due at fixed times, whatever became of those before."""
        begun, no = time.monotonic(), 0
        while not self.stopping:
            due = begun + no / self.rate
            await asyncio.sleep(max(0, due - time.monotonic()))
            no += 1
            if len(self.running) >= IN_PROGRESS_MAX:
                self.not_sent += 1
                continue
            payment = Payment(f"{self.run}-p{no}", self.random.choice(self.accounts),
                              self.random.randint(100, 50_000), due)
            self.payments.append(payment)
            task = asyncio.create_task(self.pay(payment))
            self.running.add(task)
            task.add_done_callback(self.running.discard)

    async def pay(self, payment):
        properties = ""
        if payment.account.is_called:
            properties = "?pluginProperty=" + quote(f"delayMs={self.random.randint(0, DELAY_MS_MAX)}", safe="")
        target = f"/1.0/kb/accounts/{payment.account.id}/payments{properties}"
        body = {"transactionType": "PURCHASE", "amount": f"{payment.minor // 100}.{payment.minor % 100:02}",
                "currency": "USD", "paymentExternalKey": payment.key, "transactionExternalKey": payment.key}
        pause = PAUSE_S
        while payment.wait_s() < INSIST_S:
            payment.attempts += 1
            try:
                response = await self.fronts.send("POST", target, body, payment.key)
                payment.last = f"{response.status} {response.body[:200].decode(errors='replace')}"
                result = meaning(response)
            except (OSError, EOFError, asyncio.TimeoutError) as error:
                payment.last, result = repr(error), AGAIN
            except Unexpected as error:
                self.unexpected.append(f"{payment.key}: {error}")
                return
            if result != AGAIN:
                payment.answered, payment.result = time.monotonic(), result
                return
            pause = await wait_a_little(pause)

    async def finish(self):
        """No new payments; those in progress come to their end."""
        self.stopping = True
        if self.running:
            await asyncio.wait(set(self.running), timeout=INSIST_S + ATTEMPT_S)
