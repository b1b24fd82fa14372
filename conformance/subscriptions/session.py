"""Requests to Kill Bill's API."""

import base64
import http.client
import json
import sys
import urllib.parse
import uuid

ADMIN = "Basic " + base64.b64encode(b"admin:password").decode()


class Session:
    """Requests on one connection, of a tenant of its own."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url).netloc
        self.connection = http.client.HTTPConnection(self.address, timeout=120)
        self.key = None
        key = "t" + uuid.uuid4().hex[:12]
        self.call("POST", "/1.0/kb/tenants", {"apiKey": key, "apiSecret": key})
        self.key = key

    def call(self, method, path, body=None, query=None, media="application/json"):
        """Status, headers and body; parameters that are None are not sent."""
        given = {k: v for k, v in (query or {}).items() if v is not None}
        text = [(k, str(v).lower() if isinstance(v, bool) else str(v)) for k, v in given.items()]
        target = path + ("?" + urllib.parse.urlencode(text) if text else "")
        if body is None:
            data = b"{}" if method == "POST" else None
        else:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
        headers = {"Authorization": ADMIN, "X-Killbill-CreatedBy": "runner", "Content-Type": media,
                   "Accept": "application/json"}
        if self.key:
            headers |= {"X-Killbill-ApiKey": self.key, "X-Killbill-ApiSecret": self.key}
        for attempt in range(2):
            try:
                self.connection.request(method, target, data, headers)
                answer = self.connection.getresponse()
                text = answer.read()
                break
            except (http.client.HTTPException, OSError):
                self.connection.close()
                if attempt or method == "POST":
                    raise
        try:
            parsed = json.loads(text) if text else None
        except ValueError:
            parsed = text.decode("utf-8", "replace")
        return answer.status, dict(answer.getheaders()), parsed

    def get(self, path, query=None):
        return self.call("GET", path, None, query)[2]

    def clock(self, at):
        """Sets the clock, and waits until nothing is due."""
        query = {"requestedDate": f"{at}:00.000Z", "timeoutSec": 60}
        answer = self.call("POST", "/1.0/kb/test/clock", query=query)
        if answer[0] != 200:
            sys.exit(f"the clock is not set: {answer}")
