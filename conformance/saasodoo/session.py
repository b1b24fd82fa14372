"""Requests as SaaSOdoo's services send them, and the receiver of its webhooks."""

import base64
import http.client
import http.server
import json
import threading
import time
import urllib.parse

ADMIN = "Basic " + base64.b64encode(b"admin:password").decode()
EVENTS_WITHIN_S = 20


class Session:
    """Requests of one tenant; one connection for each request, as SaaSOdoo's clients have it."""

    def __init__(self, url, key):
        self.address = urllib.parse.urlsplit(url).netloc
        self.headers = {
            "Authorization": ADMIN, "Content-Type": "application/json", "Accept": "application/json",
            "X-Killbill-CreatedBy": "billing-service", "X-Killbill-Reason": "reason", "X-Killbill-Comment": "comment",
            "X-Killbill-ApiKey": key, "X-Killbill-ApiSecret": key,
        }

    def call(self, method, path, body=None, media="application/json", **headers):
        """Status, the id at the end of `Location`, and the body."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data and data.encode(), self.headers | {"Content-Type": media} | named)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        location = (answer.getheader("location") or "").rstrip("/").split("/")[-1]
        try:
            parsed = json.loads(text) if text else None
        except ValueError:
            parsed = text.decode("utf-8", "replace")
        return answer.status, location, parsed

    def get(self, path):
        """A body that is there."""
        status, _, body = self.call("GET", path)
        assert status == 200, (path, status, body)
        return body

    def made(self, path, body, status=201):
        """The id of what a POST makes."""
        found, location, text = self.call("POST", path, body)
        assert found == status, (path, found, text)
        return location


class Receiver:
    """Receives webhooks, and reads at once what each of them is about, before it answers."""

    def __init__(self):
        self.session = None
        self.received = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                event["meta"] = json.loads(event["metaData"]) if event["metaData"] else {}
                receiver.received.append(event | {"read": receiver.read(event)})
                answer = b'{"success": true, "message": "Webhook processed"}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 256

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api/billing/webhooks/killbill"

    def read(self, event):
        """What SaaSOdoo's handler reads back when this event arrives."""
        of = event["objectId"]
        if event["eventType"] == "SUBSCRIPTION_CREATION" and event["meta"].get("actionType") == "EFFECTIVE":
            fields = self.session.call("GET", f"/1.0/kb/subscriptions/{of}/customFields")[2]
            return {"subscription": self.session.call("GET", f"/1.0/kb/subscriptions/{of}")[2], "fields": fields}
        if event["eventType"] == "INVOICE_PAYMENT_SUCCESS":
            return self.session.call("GET", f"/1.0/kb/invoices/{of}")[2]
        return None

    def of(self, account):
        """The events of an account so far."""
        return [it for it in list(self.received) if it["accountId"] == account]

    def named(self, account, name, of=None, action=None):
        """Those of a type, of one object, of one action."""
        events = [it for it in self.of(account) if it["eventType"] == name and of in (None, it["objectId"])]
        return [it for it in events if action in (None, it["meta"].get("actionType"))]

    def until(self, account, name, of=None, action=None, count=1):
        """Waits until so many are there."""
        end = time.monotonic() + EVENTS_WITHIN_S
        while time.monotonic() < end:
            found = self.named(account, name, of, action)
            if len(found) >= count:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{name} {action or ''} did not arrive: {[it['eventType'] for it in self.of(account)]}")
