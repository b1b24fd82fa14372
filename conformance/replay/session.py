"""Sends requests the way the recordings were made."""

import base64
import http.client
import urllib.parse
import uuid

import verbatim
from compare import Variables

TIMEOUT_S = 60
ADMIN = "admin:password"


class Answer:
    """A response, its body parsed where it is JSON."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.raw = response.read()
        try:
            self.body = verbatim.load(self.raw) if self.raw else None
        except ValueError:
            self.body = self.raw.decode("utf-8", "replace")


class Session:
    """One file's replay: its server, its tenant, its variables."""

    def __init__(self, base, name):
        self.base = base
        self.name = name
        self.run = uuid.uuid4().hex[:8]
        self.variables = Variables({"base": base, "nosuch": str(uuid.uuid4()), "requestId": str(uuid.uuid4())})
        self.tenant = None
        self.known_tenants = set()
        # Texts of the recordings that stand for this run's own: users, the callback's address.
        self.substitutes = {"_RUN": f"_{self.run}"}

    def localize(self, value):
        """A recorded value with this run's own names and addresses in it."""
        if isinstance(value, str):
            for recorded, ours in self.substitutes.items():
                value = value.replace(recorded, ours)
                quoted = urllib.parse.quote(recorded, safe="")
                value = value.replace(quoted, urllib.parse.quote(ours, safe=""))
            return value
        if isinstance(value, dict):
            return {self.localize(key): self.localize(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.localize(item) for item in value]
        return value

    def texts(self, request):
        """Every text of a recorded request that may hold variables, in one."""
        return "\n".join([request["path"], verbatim.dump(request.get("body")), str(request.get("headers"))])

    def send(self, request):
        """Sends a recorded request, with the defaults that the recordings leave out."""
        method = request["method"]
        path = self.variables.fill(self.localize(request["path"]))
        headers = {"Accept": "application/json"}
        auth = request.get("auth", ADMIN)
        if auth is not None:
            token = base64.b64encode(self.localize(auth).encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        if self.tenant:
            headers["X-Killbill-ApiKey"], headers["X-Killbill-ApiSecret"] = self.tenant
        if method not in ("GET", "OPTIONS", "HEAD"):
            headers["X-Killbill-CreatedBy"] = "wire"
            headers["Content-Type"] = "application/json"
        for name, value in request.get("headers", {}).items():
            headers[name] = value if value is None else self.variables.fill(value)
        body = request.get("body")
        if "body" in request and not isinstance(body, str):
            body = verbatim.dump(body)
        if body is not None:
            body = self.variables.fill(self.localize(body)).encode()
        return self.exchange(method, path, headers, body)

    def exchange(self, method, path, headers, body):
        """One request on a connection of its own, with exactly these headers."""
        address = urllib.parse.urlsplit(self.base)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT_S)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None or method not in ("GET", "OPTIONS", "HEAD"):
                connection.putheader("Content-Length", str(len(body or b"")))
            connection.endheaders(body)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def must(self, method, path, body=None, status=201, headers=None):
        """A request that a fixture needs; anything but the wanted status ends the file."""
        request = {"method": method, "path": path, "headers": headers or {}}
        if body is not None:
            request["body"] = body
        answer = self.send(request)
        if answer.status != status:
            text = answer.raw[:300].decode("utf-8", "replace")
            raise FixtureError(f"fixture {method} {path}: {answer.status} instead of {status}: {text}")
        return answer


class FixtureError(Exception):
    """What a recording builds on could not be made."""


def id_in(location):
    """The id at the end of a Location."""
    return location.rstrip("/").rsplit("/", 1)[1]
