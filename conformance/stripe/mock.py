"""stripe-mock, of the pinned version: its document, and its opinion of requests beside the fake's.

    python conformance/stripe/mock.py module|document

Prints what `go install` takes, or the path of the OpenAPI document for the fake's `--validate`.
"""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from process import until

KEY = "sk_test_mock"
VERSION = "v0.203.0"
MODULE = f"github.com/stripe/stripe-mock@{VERSION}"

# A request, and whether Stripe takes its parameters.
REQUESTS = [
    ("POST", "/v1/payment_intents", "amount=100&currency=usd", True),
    ("POST", "/v1/payment_intents", "amount=100&currency=usd&payment_method_types[]=card&metadata[a]=b", True),
    ("POST", "/v1/payment_intents", "amount=100&currency=usd&payment_method_types[0]=card", True),
    ("POST", "/v1/payment_intents", "amount=100&currency=usd&automatic_payment_methods[enabled]=true", True),
    ("POST", "/v1/payment_intents", "amount=100", False),
    ("POST", "/v1/payment_intents", "amount=100&currency=usd&colour=red", False),
    ("POST", "/v1/payment_intents", "amount=much&currency=usd", False),
    ("POST", "/v1/payment_intents", "amount=100&currency=usd&capture_method=by_hand", False),
    ("POST", "/v1/payment_intents", "amount=100&currency=usd&confirm=perhaps", False),
    ("POST", "/v1/customers", "email=a@example.com&metadata[k]=v", True),
    ("POST", "/v1/customers", "mail=a@example.com", False),
    ("POST", "/v1/setup_intents", "usage=off_session&payment_method_types[]=card", True),
    ("POST", "/v1/setup_intents", "usage=later", False),
    ("POST", "/v1/payment_methods", "type=card&card[token]=tok_visa", True),
    ("POST", "/v1/checkout/sessions", "mode=setup&currency=usd&success_url=https://shop.example/", True),
    ("POST", "/v1/checkout/sessions", "mode=sale&success_url=https://shop.example/", False),
    ("GET", "/v1/payment_intents", "limit=3&created[gte]=1", True),
    ("GET", "/v1/refunds", "limit=3", True),
    ("GET", "/v1/refunds", "colour=red", False),
    ("GET", "/v1/events", "types[]=charge.refunded", True),
    ("GET", "/v1/charges", "limit=many", False),
    ("GET", "/v1/balance_transactions", "type=charge", True),
    ("GET", "/v1/disputes", "limit=1", True),
    ("GET", "/v1/payment_intents/search", "query=status:'succeeded'", True),
    ("GET", "/v1/payment_intents/search", "", False),
    ("GET", "/v1/nothing", "", False),
]


def directory():
    """Where Go keeps the module; fetched if it is not there."""
    done = subprocess.run(["go", "mod", "download", "-json", MODULE], stdout=subprocess.PIPE, text=True, check=True)
    return Path(json.loads(done.stdout)["Dir"]) / "embedded" / "openapi"


class Mock:
    """The process; it keeps no state."""

    def __init__(self, binary, log):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(log, "ab")
        self.process = subprocess.Popen([binary, "-http-addr", f"127.0.0.1:{port}"], stdout=self.log, stderr=self.log)
        if not until(lambda: self.status("GET", "/v1/account", "") == 200):
            raise SystemExit("stripe-mock did not start")

    def status(self, method, path, params):
        return status(self.url, method, path, params)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def status(url, method, path, params):
    data = params.encode() if method == "POST" else None
    query = f"?{params}" if params and method == "GET" else ""
    request = urllib.request.Request(url + path + query, data, {"Authorization": f"Bearer {KEY}"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def agree(fake, binary, log, checks):
    """The fake and stripe-mock take the same requests and refuse the same ones."""
    mock = Mock(binary, log)
    for method, path, params, taken in REQUESTS:
        found = [status(url, method, path, params) == 200 for url in (mock.url, fake.url)]
        checks.equal(f"{method} {path} {params}: taken by stripe-mock and by the fake", found, [taken, taken])
    long = "phone=" + "1" * 21
    checks.equal("longer than the document allows", status(fake.url, "POST", "/v1/customers", long), 400)
    mock.close()


# Fields that stand in an answer only if they are expanded, or that the fake has no use for.
ABSENT = {
    "charge": {"refunds"},
    "customer": {"cash_balance", "customer_account", "invoice_credit_balance", "sources", "subscriptions", "tax", "tax_ids"},
}


def complete(fake, document, checks):
    """Each field of Stripe's own sample of a resource that its schema has is in the fake's answers."""
    samples = json.loads((document / "fixtures3.json").read_text())["resources"]
    schemas = json.loads((document / "spec3.json").read_text())["components"]["schemas"]
    customer = fake.post("/v1/customers").json
    intent = fake.post("/v1/payment_intents", [("amount", 900), ("currency", "usd"), ("confirm", "true"), ("capture_method", "automatic"), ("payment_method", "pm_card_createDispute"), ("payment_method_types[]", "card")]).json
    charge = fake.get(f"/v1/charges/{intent['latest_charge']}").json
    refund_of = fake.post("/v1/payment_intents", [("amount", 900), ("currency", "usd"), ("confirm", "true"), ("payment_method", "pm_card_visa"), ("payment_method_types[]", "card")]).json["id"]
    fake.advance(2)
    found = {
        "balance_transaction": fake.get(f"/v1/balance_transactions/{charge['balance_transaction']}").json,
        "charge": charge,
        "checkout.session": fake.post("/v1/checkout/sessions", {"mode": "setup", "currency": "usd", "success_url": "https://shop.example/"}).json,
        "customer": customer,
        "dispute": fake.get("/v1/disputes", {"payment_intent": intent["id"]}).json["data"][0],
        "event": fake.get("/v1/events", {"limit": 1}).json["data"][0],
        "payment_intent": intent,
        "payment_method": fake.post("/v1/payment_methods", {"type": "card", "card[token]": "tok_visa"}).json,
        "refund": fake.post("/v1/refunds", {"payment_intent": refund_of}).json,
        "setup_intent": fake.post("/v1/setup_intents", {"payment_method_types[]": "card"}).json,
        "webhook_endpoint": fake.post("/v1/webhook_endpoints", {"url": "http://127.0.0.1:9/", "enabled_events[]": "*"}, key="sk_test_mock").json,
    }
    for kind, answer in found.items():
        known = set(samples[kind]) & set(schemas[kind]["properties"])
        lacks = known - set(answer) - ABSENT.get(kind, set())
        checks.equal(f"fields of Stripe's {kind} that the fake lacks", lacks, set())


if __name__ == "__main__":
    print({"module": lambda: MODULE, "document": lambda: directory() / "spec3.json"}[sys.argv[1]]())
