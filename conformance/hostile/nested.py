"""JSON nested 100,000 deep, in every kind of body; 10,000 deep where a body may have 64 KiB."""

import json

import wire
from cases import GOES_ON, check
from websocket import CLOSE, TEXT, WebSocket, frame



def nested(depth):
    return {"arrays": b"[" * depth + b"]" * depth, "arrays without an end": b"[" * depth,
            "objects": b'{"a":' * depth + b"1" + b"}" * depth}


DEEP, LESS_DEEP = nested(100_000), nested(10_000)
FLAG = {"key": "deep", "variationType": "json", "variations": [{"id": "a", "value": "1"}], "disabledVariationId": "a",
        "fallthrough": {"variations": [{"id": "a", "rollout": [0, 1]}]}}
# Routes that read JSON, with the status for a body that is none that they could read.
ROUTES = [
    ("POST", "/1.0/kb/accounts", 400), ("POST", "/1.0/kb/tenants", 400),
    ("POST", "/v1/flags?environment=dev", 400), ("POST", "/v1/segments?environment=dev", 400),
    ("POST", "/v1/environments/dev/import", 400), ("POST", "/v1/flags/evaluate?environment=dev", 400),
    ("POST", "/v1/changes?environment=dev", 400),
]
# The same, of those that read 64 KiB.
SMALL_ROUTES = [("/v1/registrations", 400), ("/v1/sessions", 400), ("/user/auth/register", 422), ("/user/auth/login", 422)]


def bodies(server):
    """Deep JSON as the whole body."""
    check(server, [(f"{what} to {path}", wire.request(method, path, deep), status, GOES_ON)
                   for what, deep in DEEP.items() for method, path, status in ROUTES])
    check(server, [(f"{what} to {path}", wire.request("POST", path, deep), status, GOES_ON)
                   for what, deep in LESS_DEEP.items() for path, status in SMALL_ROUTES])


def sdk_bodies(server):
    """Deep JSON in what SDKs send."""
    secret = {"Authorization": server.secret, "X-API-Key": server.secret}
    check(server, [(f"{what} to {path}", wire.request("POST", path, deep, **secret), 400, GOES_ON)
                   for what, deep in LESS_DEEP.items()
                   for path in ("/ofrep/v1/evaluate/flags", "/api/public/featureflag/evaluate")])
    # An insight that is none is not counted.
    check(server, [(what, wire.request("POST", "/api/public/insight/track", deep, **secret),
                    200 if what == "arrays" else 400, GOES_ON) for what, deep in DEEP.items()])


def fields(server):
    """Deep JSON in a field that takes any."""
    def inside(document, name, deep):
        return json.dumps({**document, name: "DEEP"}).encode().replace(b'"DEEP"', deep)
    customer = {"email": "deep@example.com", "password": "Wr0ng-and-never-right", "firstName": "D", "lastName": "P",
                "acceptTerms": True}
    check(server, [(f"{what} in preferences", wire.request(
        "POST", "/v1/registrations", inside(customer, "preferences", deep)), 422 if what != "arrays without an end" else 400,
        GOES_ON) for what, deep in LESS_DEEP.items()])
    check(server, [case for what, deep in DEEP.items() for case in [
        (f"{what} in rules", wire.request("POST", "/v1/flags?environment=dev", inside(FLAG, "rules", deep)),
         400, GOES_ON),
        (f"{what} in a patch", wire.request("PATCH", "/v1/flags/deep?environment=dev", inside({}, "rules", deep)),
         400, GOES_ON),
        (f"{what} in an unknown field", wire.request("POST", "/1.0/kb/accounts", inside({}, "unknown", deep)),
         400, GOES_ON),
    ]])


def flag_values(server):
    """Deep JSON in the value of a flag, which is a text."""
    def flag(deep):
        return json.dumps({**FLAG, "variations": [{"id": "a", "value": deep.decode()}]}).encode()
    check(server, [(what, wire.request("POST", "/v1/flags?environment=dev", flag(deep)), 422, GOES_ON)
                   for what, deep in DEEP.items()])


def websocket_messages(server):
    """Deep JSON in a message of a WebSocket, as deep as one may be long."""
    with WebSocket(server.address, server.secret) as socket:
        socket.accepted()
        for deep in (b"[" * 8_000, b'{"a":' * 1_600, b'{"messageType":"data-sync","data":' + b"[" * 8_000):
            socket.send(frame(TEXT, deep))
        socket.send(frame(CLOSE, b"\x03\xe8"))
        code = socket.close_code()
        assert code == 1000, f"closed with {code}"


ATTACKS = [bodies, sdk_bodies, fields, flag_values, websocket_messages]
