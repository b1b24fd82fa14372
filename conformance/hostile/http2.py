"""HTTP/2 by hand: frames as a hostile client of gRPC sends them, and those that the server answers with."""

import struct

import wire

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL, ENHANCE_YOUR_CALM = 8, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value, prefix_bits=7):
    """An integer of HPACK (RFC 7541, 5.1), with zeros before it."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([value])
    value, encoded = value - most, [most]
    while value >= 128:
        encoded.append(value % 128 + 128)
        value //= 128
    return bytes([*encoded, value])


def field(name, value):
    """A header as a literal that is neither indexed nor compressed."""
    name, value = name.encode(), value.encode("latin-1")
    return b"\0" + integer(len(name)) + name + integer(len(value)) + value


def call(path, **metadata):
    """The header block of a gRPC call."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "hostile", "te": "trailers",
              "content-type": "application/grpc"}
    fields.update({name.replace("_", "-"): value for name, value in metadata.items()})
    return b"".join(field(*it) for it in fields.items())


def credentials():
    return {"authorization": wire.basic(), "x-faregate-apikey": wire.TENANT[0], "x-faregate-apisecret": wire.TENANT[1]}


def message(payload):
    """A gRPC message, not compressed."""
    return b"\0" + struct.pack(">I", len(payload)) + payload


class Http2(wire.Connection):
    """A connection after its preface and the server's settings."""

    def __init__(self, address, **options):
        super().__init__(address, **options)
        self.send(PREFACE + frame(SETTINGS))
        kind, _, _, payload = self.next()
        assert kind == SETTINGS, f"frame {kind} instead of SETTINGS"
        pairs = [struct.unpack_from(">HI", payload, at) for at in range(0, len(payload), 6)]
        self.settings = dict(pairs)
        self.send(frame(SETTINGS, ACK))

    def next(self):
        """The next frame: kind, flags, stream and payload."""
        length, kind, flags, stream = struct.unpack(">IBBI", b"\0" + self.exactly(9))
        return kind, flags, stream, self.exactly(length)

    def ended_streams(self, count):
        """Reads until this many streams have ended, by END_STREAM or RST_STREAM; their ids."""
        ended = set()
        while len(ended) < count:
            kind, flags, stream, payload = self.next()
            assert kind != GOAWAY, f"GOAWAY {struct.unpack_from('>I', payload, 4)[0]} after {len(ended)} streams"
            if kind == RST_STREAM or kind in (HEADERS, DATA) and flags & END_STREAM:
                ended.add(stream)
        return ended

    def goaway(self):
        """Reads until the server closes; the error code of its GOAWAY, or None."""
        code = None
        try:
            while True:
                kind, _, _, payload = self.next()
                if kind == GOAWAY:
                    code = struct.unpack_from(">I", payload, 4)[0]
        except wire.Closed:
            return code

    def pong(self):
        """Whether the server answers a PING, whatever comes before."""
        self.send(frame(PING, 0, 0, b"hostile!"))
        while True:
            kind, flags, _, payload = self.next()
            if kind == PING and flags & ACK and payload == b"hostile!":
                return True
            if kind == GOAWAY:
                return False
