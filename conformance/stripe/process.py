"""The fake as a process, requests to it without an SDK, and a receiver of its events."""

import base64
import http.client
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.parse

READY_S = 30
ANSWER_S = 20


class Cut(Exception):
    """The connection ended before a whole answer."""


class Body(dict):
    def __missing__(self, name):
        raise KeyError(f"{name} is not in {json.dumps(self)[:600]}")


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def json(self):
        """With the refusal in the message of the error, if a field of what was expected is missing."""
        value = json.loads(self.body)
        return Body(value) if isinstance(value, dict) else value

    @property
    def replayed(self):
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def error(self):
        """Type, code and decline code."""
        error = self.json["error"]
        return error["type"], error.get("code"), error.get("decline_code")


class Fake:
    """One process of the fake; `restart` kills it as a machine would, and starts it on its journal."""

    def __init__(self, binary, log, options=()):
        self.command = [binary, *options]
        self.log = open(log, "ab")
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.command, "--listen", self.listen], stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            raise SystemExit(f"the fake did not start: {line!r}")
        self.url = line.removeprefix("listening on ").strip()
        # The same port after a restart.
        self.listen = self.url.removeprefix("http://")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def close(self):
        self.kill()
        self.process.stdout.close()
        self.log.close()

    def request(self, method, path, params=None, key="sk_test_shop", idempotency_key=None, headers=(), body=None):
        """`params`: names and values as they are sent; a list of pairs, or a dict."""
        encoded = urllib.parse.urlencode(params or {})
        if method in ("GET", "DELETE") and encoded:
            path, encoded = f"{path}?{encoded}", ""
        sent = dict(headers)
        if key:
            sent["Authorization"] = "Basic " + base64.b64encode(f"{key}:".encode()).decode()
        if idempotency_key:
            sent["Idempotency-Key"] = idempotency_key
        if body is None and method == "POST":
            body, sent["Content-Type"] = encoded, "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(self.listen, timeout=ANSWER_S)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        except (http.client.HTTPException, ConnectionError) as error:
            raise Cut(repr(error)) from error
        finally:
            connection.close()

    def post(self, path, params=None, **options):
        return self.request("POST", path, params, **options)

    def get(self, path, params=None, **options):
        return self.request("GET", path, params, **options)

    def control(self, method, path, value=None):
        body = None if value is None else json.dumps(value)
        answer = self.request(method, f"/_fake/{path}", key=None, body=body or "")
        if answer.status != 200:
            raise AssertionError(f"{method} /_fake/{path}: {answer.status} {answer.body!r}")
        return answer.json

    def advance(self, seconds):
        return self.control("POST", "clock", {"advance_s": seconds})

    def faults(self, *rules):
        self.control("DELETE", "faults")
        if rules:
            self.control("POST", "faults", list(rules))

    def ledger(self):
        return {entry["id"]: entry for entry in self.control("GET", "ledger")}


class Receiver:
    """A webhook endpoint: keeps what it is sent, and answers what `status` says."""

    def __init__(self):
        self.received = []
        self.status = 200
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((self.headers["Stripe-Signature"], body, receiver.status))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/events"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def events(self, status=None):
        found = [(body, answered) for _, body, answered in list(self.received)]
        return [json.loads(body) for body, answered in found if status is None or answered == status]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def until(holds, seconds=10.0):
    """Waits until it holds, and returns whether it does."""
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def that(self, what, holds, seen=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {str(seen)[:1000]}", flush=True)

    def equal(self, what, found, expected):
        self.that(what, found == expected, f"{found!r} instead of {expected!r}")
