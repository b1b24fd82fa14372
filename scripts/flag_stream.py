"""A stream of feature flags as FeatBit's SDKs open it, and what they keep of it. Standard library only."""

import asyncio
import base64
import calendar
import hashlib
import json
import os
import random
import struct
import time
from collections import OrderedDict

DIGITS = "QBWSPHDXZU"
TEXT, CLOSE = 1, 8
SHORT_MAX, SIXTEEN_BITS, SIXTY_FOUR_BITS = 125, 126, 127
FRAME_BYTES_MAX = 8 << 20
OPEN_WITHIN_S = 20
# Messages to server SDKs are the same for all of them: so many are read once for all.
READ_ONCE_MAX = 64


def token(secret, at_ms=None):
    """The secret with the time in it, which is how SDKs show it."""
    text = secret.rstrip("=")
    stamp = str(int(time.time() * 1000) if at_ms is None else at_ms)
    at = max(random.randrange(len(text)), 2)
    return encoded(at, 3) + encoded(len(stamp), 2) + text[:at] + encoded(stamp, len(stamp)) + text[at:]


def encoded(number, digits):
    return "".join(DIGITS[int(it)] for it in str(number).rjust(digits, "0"))


def milliseconds(text):
    """An `updatedAt` as the number that versions are."""
    second, _, part = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(second, "%Y-%m-%dT%H:%M:%S")) * 1000 + int(part.ljust(3, "0")[:3])


def digest(item):
    """What an item holds, in short: the same for the same, however it is written."""
    return hashlib.md5(json.dumps(item, sort_keys=True).encode()).hexdigest()


def defined(flags, segments):
    """Of documents: {(kind, key): (version, digest)}."""
    # Segments of who is entitled to a feature are made for server SDKs, and are in no export.
    own = [it for it in segments if not it["name"].startswith("entitled")]
    items = [("flag", it["key"], it) for it in flags] + [("segment", it["id"], it) for it in own]
    return {(kind, key): (milliseconds(it["updatedAt"]), digest(it)) for kind, key, it in items}


def evaluated(user, flags):
    """Of what a user gets: {(user, flag): (version, digest)}."""
    return {(user, it["id"]): (it["timestamp"], digest(it)) for it in flags}


class Reading:
    """Messages that were read lately."""

    def __init__(self):
        self.lately = OrderedDict()

    def of(self, text):
        """A message as (type, is it all, items)."""
        if text not in self.lately:
            self.lately[text] = self.read(json.loads(text))
            if len(self.lately) > READ_ONCE_MAX:
                self.lately.popitem(last=False)
        return self.lately[text]

    @staticmethod
    def read(message):
        data = message["data"]
        if message["messageType"] != "data-sync":
            return message["messageType"], False, {}
        if "userKeyId" in data:
            items = evaluated(data["userKeyId"], data["featureFlags"])
        else:
            items = defined(data["featureFlags"], data["segments"])
        return "data-sync", data["eventType"] == "full", items


class Held:
    """What an SDK keeps, through all of its streams."""

    def __init__(self):
        self.items = {}
        self.version = 0

    def take(self, is_all, items):
        """An older item never replaces a newer one."""
        if is_all:
            self.items = dict(items)
        else:
            for key, item in items.items():
                if item[0] >= self.items.get(key, (0,))[0]:
                    self.items[key] = item
        self.version = max([self.version, *(version for version, _ in items.values())])


class Stream:
    """One connection of a client; a user is what makes it one of a page."""

    def __init__(self, address, kind, secret, user, held):
        self.address, self.kind, self.secret, self.user, self.held = address, kind, secret, user, held

    async def follow(self, reading, hear):
        """Stores received flags and passes them to `hear`; returns the code of a close, or None."""
        writer = None
        try:
            reader, writer = await asyncio.wait_for(self.open(), OPEN_WITHIN_S)
            while True:
                kind, payload = await frame(reader)
                if kind == CLOSE:
                    return struct.unpack(">H", payload[:2])[0] if payload else None
                if kind == TEXT:
                    name, is_all, items = reading.of(payload)
                    if name == "data-sync":
                        self.held.take(is_all, items)
                        hear(is_all, items)
        except (OSError, EOFError, asyncio.TimeoutError):
            return None
        finally:
            if writer:
                writer.close()

    async def open(self):
        reader, writer = await asyncio.open_connection(*self.address, limit=FRAME_BYTES_MAX)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write((
            f"GET /streaming?type={self.kind}&token={token(self.secret)} HTTP/1.1\r\n"
            f"Host: {self.address[0]}:{self.address[1]}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101 "):
            raise ConnectionRefusedError(head[:100])
        data = {"timestamp": self.held.version}
        if self.user:
            data["user"] = self.user
        writer.write(masked(json.dumps({"messageType": "data-sync", "data": data}).encode()))
        return reader, writer


def masked(payload):
    """A text frame of a client. The mask is nothing that has to be guessed at: it may be zero."""
    length = len(payload)
    if length <= SHORT_MAX:
        head = bytes([0x80 | TEXT, 0x80 | length])
    else:
        head = bytes([0x80 | TEXT, 0x80 | SIXTEEN_BITS]) + struct.pack(">H", length)
    return head + bytes(4) + payload


async def frame(reader):
    """The next frame's kind and payload. A server masks nothing, and ours does not split messages."""
    first, length = await reader.readexactly(2)
    if length == SIXTEEN_BITS:
        (length,) = struct.unpack(">H", await reader.readexactly(2))
    elif length == SIXTY_FOUR_BITS:
        (length,) = struct.unpack(">Q", await reader.readexactly(8))
    return first & 0x0F, await reader.readexactly(length)
