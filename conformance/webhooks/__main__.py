"""Webhooks as other people's libraries of Standard Webhooks verify them.

    python conformance/webhooks URL [--node NODE] [--go PROGRAM]

Makes an endpoint of a running server with a test clock, has events delivered before, during and after the
rotation of its secret, and hands each delivery to the libraries of PyPI, npm and Go, with each of both
secrets. An Ed25519 signature is verified with the public key that the server shows. The callback of Kill Bill's API is
verified with the secret that the server shows later.
"""

import argparse
import base64
import http.server
import json
import queue
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError

HERE = Path(__file__).resolve().parent
WITHIN_S = 20


class Receiver(http.server.BaseHTTPRequestHandler):
    received = {"/": queue.Queue(), "/callback": queue.Queue()}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.received[self.path].put(({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server:
    def __init__(self, url):
        self.url = url
        self.headers = {
            "Authorization": "Basic " + base64.b64encode(b"admin:password").decode(),
            "Content-Type": "application/json",
            "X-Killbill-CreatedBy": "webhooks",
        }
        key, secret = "webhooks-" + base64.b32encode(threading.get_native_id().to_bytes(4)).decode()[:6], "secret of webhooks"
        self.call("POST", "/1.0/kb/tenants", {"apiKey": key, "apiSecret": secret})
        self.headers |= {"X-Killbill-ApiKey": key, "X-Killbill-ApiSecret": secret}

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers, method=method)
        with urllib.request.urlopen(request, timeout=WITHIN_S) as response:
            text = response.read()
        return json.loads(text) if text else None

    def event(self):
        """Has an account made, and returns what was posted of it."""
        self.call("POST", "/1.0/kb/accounts", {"currency": "USD"})
        return Receiver.received["/"].get(timeout=WITHIN_S)


def by_python(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def by_program(*command):
    def verifies(secret, headers, body):
        given = json.dumps({"secret": secret, "headers": headers, "body": body})
        ended = subprocess.run(command, input=given, text=True, capture_output=True, timeout=WITHIN_S)
        if ended.stdout.strip() not in ("yes", "no"):
            raise RuntimeError(f"{command[0]}: {ended.stderr[-500:]}")
        return ended.stdout.strip() == "yes"

    return verifies


def by_public_key(public, headers, body):
    """Whether one of the v1a signatures is of the key."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
    for signature in headers["webhook-signature"].split(" "):
        if signature.startswith("v1a,"):
            try:
                key.verify(base64.b64decode(signature.removeprefix("v1a,")), message)
                return True
            except InvalidSignature:
                pass
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--node")
    parser.add_argument("--go")
    options = parser.parse_args()
    libraries = {"PyPI standardwebhooks": by_python}
    if options.node:
        libraries["npm standardwebhooks"] = by_program(options.node, str(HERE / "node" / "verify.js"))
    if options.go:
        libraries["Go standardwebhooks"] = by_program(options.go)

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    receiver = f"http://127.0.0.1:{listener.server_port}"
    server = Server(options.url)
    endpoint = server.call(
        "POST",
        "/v1/webhooks/endpoints",
        {
            "url": f"{receiver}/",
            "events": ["account.created"],
            "asymmetric": True,
        },
    )
    path = f"/v1/webhooks/endpoints/{endpoint['id']}/secret"
    before = server.event()
    rotated = server.call("POST", path, {"overlapSeconds": 3600})
    during = server.event()
    server.call("PUT", "/1.0/kb/test/clock?days=1", {})
    after = server.event()
    # Programs that come later find the real time.
    server.call("POST", "/1.0/kb/test/clock")
    server.call("POST", f"/1.0/kb/tenants/registerNotificationCallback?cb={receiver}/callback")
    headers_of_callback, body_of_callback = Receiver.received["/callback"].get(timeout=WITHIN_S)
    shown = server.call("POST", "/v1/webhooks/endpoints/callback/secret", {})["secret"]

    passed = failed = 0

    def expect(what, found, expected):
        nonlocal passed, failed
        if found == expected:
            passed += 1
        else:
            failed += 1
            print(f"FAILED {what}: {found}, expected {expected}")

    first, second = endpoint["secret"], rotated["secret"]
    verified = [("before", before, True, False), ("during", during, True, True), ("after", after, False, True)]
    for when, (headers, body), by_first, by_second in verified:
        for name, verifies in libraries.items():
            expect(f"{name} {when} with the first secret", verifies(first, headers, body), by_first)
            expect(f"{name} {when} with the second secret", verifies(second, headers, body), by_second)
            changed = body.replace("account.created", "account.deleted")
            expect(f"{name} {when}, another body", verifies(second, headers, changed), False)
        ours = by_public_key(endpoint["publicKey"], headers, body)
        expect(f"Ed25519 {when} with the first key", ours, by_first)
        theirs = by_public_key(rotated["publicKey"], headers, body)
        expect(f"Ed25519 {when} with the second key", theirs, by_second)
    for name, verifies in libraries.items():
        expect(f"{name}, Kill Bill's callback", verifies(shown, headers_of_callback, body_of_callback), True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
