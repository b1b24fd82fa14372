"""WebSockets by hand: the handshake, frames of any shape, and the code that the server closes with."""

import struct
import time

import wire

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
FIN, MASKED = 0x80, 0x80
# Digits of tokens, as FeatBit's SDKs write them.
LETTERS = "QBWSPHDXZU"


def token(secret):
    """A secret with the time in it, as SDKs put it into the URL of a stream."""
    digits = lambda number, length: "".join(LETTERS[int(it)] for it in str(number).rjust(length, "0"))  # noqa: E731
    now = digits(int(time.time() * 1000), 1)
    secret = secret.rstrip("=")
    return digits(2, 3) + digits(len(now), 2) + secret[:2] + now + secret[2:]


def frame(opcode, payload=b"", first=FIN, mask=MASKED, length=None):
    """A frame of a client. `first` has FIN and the reserved bits; `length` is what it claims to have."""
    length = len(payload) if length is None else length
    if length < 126:
        head = struct.pack(">BB", first | opcode, mask | length)
    elif length < 1 << 16:
        head = struct.pack(">BBH", first | opcode, mask | 126, length)
    else:
        head = struct.pack(">BBQ", first | opcode, mask | 127, length)
    # A key of zeros leaves the payload as it is.
    return head + (b"\0\0\0\0" if mask else b"") + payload


class WebSocket(wire.Connection):
    """A stream: its handshake is sent, and `accepted` waits for the answer."""

    def __init__(self, address, secret, kind="server", **options):
        super().__init__(address, **options)
        self.send(wire.request(
            "GET", f"/streaming?type={kind}&token={token(secret)}", Connection="Upgrade", Upgrade="websocket",
            Sec_WebSocket_Version="13", Sec_WebSocket_Key="aG9zdGlsZS1jbGllbnQ9PQ=="))

    def accepted(self):
        status = self.answer()[0]
        assert status == 101, f"{status} instead of 101"
        return self

    def next(self):
        """The next frame of the server: opcode and payload."""
        first, length = self.exactly(2)
        if length >= 126:
            size = 2 if length == 126 else 8
            length = int.from_bytes(self.exactly(size), "big")
        return first & 15, self.exactly(length)

    def close_code(self):
        """Reads until the close frame; its code, None where the server closed without one."""
        try:
            while True:
                opcode, payload = self.next()
                if opcode == CLOSE:
                    return int.from_bytes(payload[:2], "big")
        except wire.Closed:
            return None
