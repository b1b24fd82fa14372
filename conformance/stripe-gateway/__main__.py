"""The gateway to Stripe against a fake of Stripe's API that keeps state (`conformance/stripe`).

    python conformance/stripe-gateway SERVER FAKE [--node NODE] [CHECK...]

Starts both, pays as clients of Kill Bill's API do, has the fake lose, cut and delay answers, and compares what the
server says with the fake's ledger. With `--node` an event is signed by Stripe's SDK for Node, which `npm install` has
put into `conformance/stripe/node`. Ends with `N passed, M failed`.
"""

import argparse
import functools
import hashlib
import hmac
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import processes  # noqa: E402

PORT_FIRST = 19_401
ROUTER = "faregate-router"
READY_WITHIN_S = 60
KEY = "sk_test_shop"
WEBHOOK_SECRET = "whsec_shopEndpoint"
AUDIT = {"X-Killbill-CreatedBy": "conformance"}


class Stripe:
    """The fake's process."""

    def __init__(self, binary, journal, port):
        self.command = [binary, "--listen", f"127.0.0.1:{port}", "--journal", str(journal)]
        self.url = f"http://127.0.0.1:{port}"
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        assert first.startswith("listening on "), first

    def post(self, path, body, form=False):
        data = urllib.parse.urlencode(body) if form else json.dumps(body)
        request = urllib.request.Request(self.url + path, data.encode(), {"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=10) as response:
            text = response.read()
        return json.loads(text) if text else None

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def faults(self, *rules):
        self.post("/_fake/faults", list(rules))

    def no_faults(self):
        urllib.request.urlopen(urllib.request.Request(self.url + "/_fake/faults", method="DELETE"), timeout=10).close()

    def ledger(self):
        """What the fake charged, by the transaction of the intent's metadata."""
        found = {}
        for intent in self.get("/_fake/ledger"):
            found.setdefault(intent["metadata"].get("faregate-transaction"), []).append(intent)
        return found


class Faregate:
    """The server's process, and its client."""

    def __init__(self, binary, folder, port, stripe):
        self.binary, self.folder, self.url, self.stripe = binary, Path(folder), f"http://127.0.0.1:{port}", stripe
        self.port = port
        self.tenant = {"X-Killbill-ApiKey": "shop", "X-Killbill-ApiSecret": "secret"}
        self.process = None

    def start(self):
        settings = {
            "FAREGATE_ADMIN_PASSWORD": "password",
            "FAREGATE_PUBLIC_URL": self.url,
            "FAREGATE_GATEWAY_STRIPE_BASE_URL": self.stripe.url,
            "FAREGATE_GATEWAY_STRIPE_TIMEOUT": "3s",
            "FAREGATE_GATEWAY_STRIPE_SETTLE_AFTER": "1s",
            "FAREGATE_RESOLVER_UNKNOWN_DELAYS": "1s,1s,1s,1s,2s,5s,10s,1d",
        }
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data-dir", self.folder / "data",
                 "--test-clock"],
                env={**os.environ, **settings}, stdout=log, stderr=log)
        until = time.monotonic() + READY_WITHIN_S
        while self.ask("GET", "/health/ready", absolute=True)[0] != 200:
            assert self.process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.05)

    def log(self):
        return (self.folder / "server.log").read_text()[-2_000:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(self, method, path, body=None, absolute=False, headers=None):
        """Status, JSON or text, and headers."""
        url = path if path.startswith("http") else self.url + (path if absolute else "/1.0/kb" + path)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        kind = "text/plain" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(url, data, method=method)
        own = {"Authorization": "Basic YWRtaW46cGFzc3dvcmQ=", "Content-Type": kind, **AUDIT, **self.tenant}
        for name, value in {**own, **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, text, given = response.status, response.read(), response.headers
        except urllib.error.HTTPError as error:
            status, text, given = error.code, error.read(), error.headers
        except OSError as error:
            return 0, str(error), {}
        try:
            return status, json.loads(text), given
        except ValueError:
            return status, text.decode(errors="replace"), given

    def made(self, path, body):
        status, said, headers = self.ask("POST", path, body)
        assert status == 201, f"{path}: {status} {said}"
        return headers["Location"].rstrip("/").rsplit("/", 1)[1]

    def account(self):
        return self.made("/accounts", {"currency": "USD"})

    def method(self, account, external, plugin="faregate-stripe", properties=()):
        info = {"externalPaymentMethodId": external, "properties": [{"key": k, "value": v} for k, v in properties]}
        return self.made(f"/accounts/{account}/paymentMethods?isDefault=true",
                         {"pluginName": plugin, "pluginInfo": info})

    def pay(self, account, amount="10.50", kind="PURCHASE", query="", **more):
        """The status of the answer, and the payment as it is read afterwards."""
        body = {"transactionType": kind, "amount": amount, "paymentExternalKey": str(uuid.uuid4()), **more}
        status, _, headers = self.ask("POST", f"/accounts/{account}/payments{query}", body)
        return status, self.payment(headers.get("Location") or self.by_key(body["paymentExternalKey"]))

    def by_key(self, key):
        return f"/payments?externalKey={key}"

    def payment(self, at):
        path = at.partition("/1.0/kb")[2] or at
        status, said, _ = self.ask("GET", path + ("&" if "?" in path else "?") + "withPluginInfo=true")
        return said if status == 200 else None

    def settled(self, payment, within_s=40):
        """The payment once no transaction is open any more."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            found = self.payment(f"/payments/{payment['paymentId']}")
            if all(it["status"] not in ("UNKNOWN", "PENDING") for it in found["transactions"]):
                return found
            time.sleep(0.3)
        return found


def last(payment):
    return payment["transactions"][-1]


def same(found, wanted, of):
    assert found == wanted, f"{of}: {found!r}, not {wanted!r}"


def a_payment_is_charged_once_with_its_metadata(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    status, payment = kb.pay(account)
    same(status, 201, last(payment))
    same((last(payment)["status"], last(payment)["processedAmount"]), ("SUCCESS", 10.5), "transaction")
    intents = stripe.ledger()[last(payment)["transactionId"]]
    same(len(intents), 1, "intents")
    same(intents[0]["id"], last(payment)["firstPaymentReferenceId"], "reference")
    same(intents[0]["metadata"]["faregate-payment"], payment["paymentId"], "metadata")
    status, payment = kb.pay(account, "7.00")
    same((status, last(payment)["status"]), (201, "SUCCESS"), "second charge")
    customers = len(stripe.get("/v1/customers?limit=100")["data"])
    kb.method(account, "pm_card_mastercard")
    same(kb.pay(account, "3.00")[0], 201, "a second method")
    same(len(stripe.get("/v1/customers?limit=100")["data"]), customers, "customers of one account")


def tokens_and_kill_bills_names_work(kb, stripe):
    account = kb.account()
    kb.method(account, "", "killbill-stripe", [("token", "tok_visa")])
    status, payment = kb.pay(account)
    same((status, last(payment)["status"]), (201, "SUCCESS"), "by token")
    status, payment = kb.pay(account, "2.00")
    same((status, last(payment)["status"]), (201, "SUCCESS"), "again, with the method that the token made")


def authorize_capture_refund_and_void(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    status, payment = kb.pay(account, "20.00", "AUTHORIZE")
    same((status, last(payment)["status"]), (201, "SUCCESS"), "authorized")
    path = f"/payments/{payment['paymentId']}"
    status, said, _ = kb.ask("POST", path, {"amount": "12.00"})
    same(status, 201, f"captured: {last(kb.payment(path))}")
    same(kb.ask("POST", path + "/refunds", {"amount": "5.00"})[0], 201, "refunded")
    payment = kb.payment(path)
    same((payment["capturedAmount"], payment["refundedAmount"]), (12, 5), "amounts")
    intent = stripe.ledger()[payment["transactions"][0]["transactionId"]][0]
    same((intent["amount_captured"], intent["amount_refunded"]), (1200, 500), "at Stripe")
    status, payment = kb.pay(account, "9.00", "AUTHORIZE")
    path = f"/payments/{payment['paymentId']}"
    status, said, _ = kb.ask("DELETE", path, {})
    assert status in (200, 204), f"voided: {status} {said}"
    same(last(kb.payment(path))["status"], "SUCCESS", "void")
    same(stripe.ledger()[payment["transactions"][0]["transactionId"]][0]["status"], "canceled", "at Stripe")


def a_customer_enters_a_card_on_stripes_page(kb, stripe):
    account = kb.account()
    path = f"/paymentGateways/hosted/form/{account}?pluginName=faregate-stripe"
    fields = [{"key": "successUrl", "value": "http://127.0.0.1:9/done"}]
    status, form, _ = kb.ask("POST", path, {"formFields": fields})
    same(status, 200, form)
    same((form["kbAccountId"], form["formMethod"]), (account, "GET"), "form")
    session = form["formFields"]["id"]
    try:
        urllib.request.urlopen(form["formUrl"], b"payment_method=pm_card_visa", timeout=10).close()
    except OSError:
        pass
    kb.method(account, "", properties=[("sessionId", session)])
    status, payment = kb.pay(account)
    same((status, last(payment)["status"]), (201, "SUCCESS"), last(payment))
    same(kb.pay(account, "2.00")[0], 201, "again")
    status, said, _ = kb.ask("POST", path, {"formFields": [{"key": "successUrl", "value": "javascript:1"}]})
    assert status == 400 and "successUrl" in said["message"], f"{status} {said}"
    status, said, _ = kb.ask("POST", path.replace("faregate-stripe", "__EXTERNAL_PAYMENT__"), {})
    assert status == 400 and "no page" in said["message"], f"{status} {said}"
    status, said, _ = kb.ask("POST", f"/paymentGateways/hosted/form/{uuid.uuid4()}?pluginName=faregate-stripe", {})
    same(status, 404, "an account that is not there")


def a_repeated_request_for_a_page_gets_the_same_session(kb, stripe):
    account = kb.account()
    path = f"/paymentGateways/hosted/form/{account}?pluginName=faregate-stripe"

    def session(key, done="done"):
        fields = [{"key": "successUrl", "value": f"http://127.0.0.1:9/{done}"}]
        status, form, _ = kb.ask("POST", path, {"formFields": fields}, headers=key and {"Idempotency-Key": key})
        same(status, 200, form)
        return form["formFields"]["id"]

    key = str(uuid.uuid4())
    first = session(key)
    same(session(key), first, "with the same key")
    others = {session(str(uuid.uuid4())), session(None), session(None), session(key, "elsewhere")}
    same(len(others | {first}), 5, "sessions of other requests")


def methods_that_were_attached_elsewhere_are_found(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    same(kb.pay(account)[0], 201, "the customer is made")
    listed = f"/accounts/{account}/paymentMethods?withPluginInfo=true"
    customer = stripe.get(f"/v1/payment_intents?limit=1")["data"][0]["customer"]
    stripe.post("/v1/payment_methods/pm_card_mastercard/attach", {"customer": customer}, form=True)
    for query in ("?pluginName=faregate-stripe", "?pluginName=faregate-stripe", ""):
        status, said, _ = kb.ask("PUT", f"/accounts/{account}/paymentMethods/refresh{query}")
        same(status, 204, said)
        same(len(kb.ask("GET", listed)[1]), 2, "methods")
    added = next(it for it in kb.ask("GET", listed)[1] if not it["isDefault"])
    status, payment = kb.pay(account, "3.00", query=f"?paymentMethodId={added['paymentMethodId']}")
    same((status, last(payment)["status"]), (201, "SUCCESS"), "with the method that was found")
    status, said, _ = kb.ask("PUT", f"/accounts/{account}/paymentMethods/refresh?pluginName=nobody")
    same(status, 400, said)


def add(kb, account, external, properties=(), plugin="faregate-stripe", query="?isDefault=true", headers=None):
    """The answer to a request that adds a method: status, body, and the path of the method."""
    info = {"externalPaymentMethodId": external, "properties": [{"key": k, "value": v} for k, v in properties]}
    body = {"pluginName": plugin, "pluginInfo": info}
    status, said, given = kb.ask("POST", f"/accounts/{account}/paymentMethods{query}", body, headers=headers)
    return status, said, (given.get("Location") or "").partition("/1.0/kb")[2]


def until(look, wanted, of, within_s=30):
    """Waits until `look` finds what is wanted."""
    end = time.monotonic() + within_s
    while (found := look()) != wanted:
        assert time.monotonic() < end, f"{of}: {found!r}, not {wanted!r}"
        time.sleep(0.2)


def customers_of(stripe, account):
    customers = stripe.get("/v1/customers?limit=100")["data"]
    return [it["id"] for it in customers if it["metadata"].get("faregate-account") == account]


def attached_to(stripe, account):
    """The methods at Stripe of the account's customers."""
    return [it["id"] for customer in customers_of(stripe, account)
            for it in stripe.get(f"/v1/customers/{customer}/payment_methods")["data"]]


def read(kb, path):
    return kb.ask("GET", path)[0]


def a_method_is_attached_before_it_is_charged(kb, stripe):
    account = kb.account()
    method = kb.method(account, "", properties=[("token", "tok_visa")])
    same(len(attached_to(stripe, account)), 1, "attached")
    same(kb.ask("GET", f"/accounts/{account}")[1]["paymentMethodId"], method, "the default")
    attach = {"method": "POST", "path": "/v1/payment_methods/*/attach"}
    stripe.faults({"match": attach, "fault": "server_error"})
    status, payment = kb.pay(account)
    stripe.no_faults()
    same((status, last(payment)["status"]), (201, "SUCCESS"), "charged without another request to attach it")


def a_refused_card_is_no_method(kb, stripe):
    account = kb.account()
    key = str(uuid.uuid4())
    body = {"pluginName": "faregate-stripe", "externalKey": key,
            "pluginInfo": {"externalPaymentMethodId": "pm_card_chargeDeclined"}}
    status, said, _ = kb.ask("POST", f"/accounts/{account}/paymentMethods?isDefault=true", body)
    assert status == 402 and "declined" in said["message"], f"{status} {said}"
    same(kb.ask("GET", f"/accounts/{account}/paymentMethods")[1], [], "methods")
    same(kb.ask("GET", f"/accounts/{account}")[1]["paymentMethodId"], None, "default")
    same(attached_to(stripe, account), [], "at Stripe")
    body["pluginInfo"]["externalPaymentMethodId"] = "pm_card_visa"
    same(kb.ask("POST", f"/accounts/{account}/paymentMethods", body)[0], 201, "its key is free")
    status, said, _ = add(kb, account, "")
    assert status == 400 and "token" in said["message"], f"nothing names a card: {status} {said}"


def a_lost_answer_about_a_method_is_asked_about(kb, stripe):
    attach = {"method": "POST", "path": "/v1/payment_methods/*/attach"}
    for fault, is_attached in [("lose_answer", True), ("cut_before", False), ("answer_garbage", True)]:
        account = kb.account()
        stripe.faults({"match": attach, "fault": fault, "count": 1})
        status, said, path = add(kb, account, "", [("token", "tok_visa")])
        assert status == 504 and path, f"{fault}: {status} {said}"
        same(read(kb, path), 404, f"{fault}: it is not active yet")
        refused, _, _ = kb.ask("POST", f"/accounts/{account}/payments?paymentMethodId={path.rsplit('/', 1)[1]}",
                               {"transactionType": "PURCHASE", "amount": "1"})
        same(refused, 404, f"{fault}: it is not charged")
        if is_attached:
            until(lambda: read(kb, path), 200, fault)
            same(kb.pay(account)[0], 201, f"{fault}: charged")
        else:
            time.sleep(6)
            same(read(kb, path), 404, fault)
        stripe.no_faults()
        same(len(attached_to(stripe, account)), int(is_attached), f"{fault}: methods at Stripe")
        same(len(customers_of(stripe, account)), 1, f"{fault}: customers")


def a_repeated_request_adds_one_method(kb, stripe):
    account = kb.account()
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first = add(kb, account, "", [("token", "tok_visa")], headers=key)
    same(first[0], 201, first[1])
    same(add(kb, account, "", [("token", "tok_visa")], headers=key)[::2], first[::2], "the same answer")
    same(len(attached_to(stripe, account)), 1, "methods at Stripe")


def methods_that_are_added_at_once_have_one_customer(kb, stripe):
    account = kb.account()
    answers = []
    tokens = ["tok_visa", "tok_mastercard"] * 2
    threads = [threading.Thread(target=lambda token=token: answers.append(
        add(kb, account, "", [("token", token)], query="")[0])) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {201, 504}, answers
    until(lambda: len(attached_to(stripe, account)), 4, "methods at Stripe")
    until(lambda: len(kb.ask("GET", f"/accounts/{account}/paymentMethods")[1]), 4, "methods here")
    same(len(customers_of(stripe, account)), 1, "customers")


def a_deleted_method_is_detached(kb, stripe):
    account = kb.account()
    detach = {"method": "POST", "path": "/v1/payment_methods/*/detach"}
    for fault in (None, "lose_answer", "cut_before", "rate_limit"):
        method = kb.method(account, "", properties=[("token", "tok_visa")])
        same(len(attached_to(stripe, account)), 1, "attached")
        if fault:
            stripe.faults({"match": detach, "fault": fault, "count": 1})
        status, said, _ = kb.ask("DELETE", f"/paymentMethods/{method}?forceDefaultPmDeletion=true")
        same(status, 204, said)
        same(read(kb, f"/paymentMethods/{method}"), 404, "gone here at once")
        until(lambda: attached_to(stripe, account), [], f"{fault}: detached")
        stripe.no_faults()


def two_methods_of_one_name_are_detached_with_the_last(kb, stripe):
    account = kb.account()
    first = kb.method(account, "", properties=[("token", "tok_visa")])
    at_stripe = attached_to(stripe, account)
    second = kb.method(account, at_stripe[0], "killbill-stripe")
    same(kb.ask("DELETE", f"/paymentMethods/{first}")[0], 204, "the first")
    time.sleep(2)
    same(attached_to(stripe, account), at_stripe, "the other is charged with it")
    same(kb.pay(account)[0], 201, "charged")
    same(kb.ask("DELETE", f"/paymentMethods/{second}?forceDefaultPmDeletion=true")[0], 204, "the second")
    until(lambda: attached_to(stripe, account), [], "detached")


def a_method_that_two_accounts_have_is_detached_with_the_last(kb, stripe):
    holder, other = kb.account(), kb.account()
    first = kb.method(holder, "", properties=[("token", "tok_visa")])
    at_stripe = attached_to(stripe, holder)
    second = kb.method(other, at_stripe[0])
    same(kb.pay(other)[0], 201, "charged with the customer of the other account")
    same(kb.ask("DELETE", f"/paymentMethods/{first}?forceDefaultPmDeletion=true")[0], 204, "the first")
    time.sleep(2)
    same(attached_to(stripe, holder), at_stripe, "the other account is charged with it")
    same(kb.pay(other)[0], 201, "charged again")
    same(kb.ask("DELETE", f"/paymentMethods/{second}?forceDefaultPmDeletion=true")[0], 204, "the second")
    until(lambda: attached_to(stripe, holder), [], "detached")


def a_combo_payment_attaches_its_method_first(kb, stripe):
    def combo(external, **more):
        body = {"account": {"currency": "USD"}, "paymentMethod": {
            "pluginName": "faregate-stripe", "pluginInfo": {"externalPaymentMethodId": external, **more}},
            "transaction": {"transactionType": "PURCHASE", "amount": "3.00", "paymentExternalKey": str(uuid.uuid4())}}
        status, _, _ = kb.ask("POST", "/payments/combo", body)
        payment = kb.payment(kb.by_key(body["transaction"]["paymentExternalKey"]))
        return status, payment, payment["accountId"]

    token = {"properties": [{"key": "token", "value": "tok_visa"}]}
    status, payment, account = combo("", **token)
    same((status, last(payment)["status"]), (201, "SUCCESS"), "paid")
    same(kb.ask("GET", f"/accounts/{account}")[1]["paymentMethodId"], payment["paymentMethodId"], "the default")
    same(len(attached_to(stripe, account)), 1, "attached")
    same(kb.pay(account)[0], 201, "charged again")
    status, payment, account = combo("pm_card_chargeDeclined")
    same((status, last(payment)["status"]), (402, "PAYMENT_FAILURE"), "refused when it was attached")
    same(kb.ask("GET", f"/accounts/{account}/paymentMethods")[1], [], "no method")
    status, payment, account = combo("pm_card_chargeCustomerFail")
    same((status, last(payment)["status"]), (402, "PAYMENT_FAILURE"), "declined when it was charged")
    same(len(kb.ask("GET", f"/accounts/{account}/paymentMethods")[1]), 1, "it is attached")
    stripe.faults({"match": {"method": "POST", "path": "/v1/payment_methods/*/attach"}, "fault": "lose_answer", "count": 1})
    status, payment, account = combo("", **token)
    stripe.no_faults()
    same(last(kb.settled(payment))["status"], "PLUGIN_FAILURE", "not charged")
    until(lambda: len(kb.ask("GET", f"/accounts/{account}/paymentMethods")[1]), 1, "asked about by itself")


def a_killed_server_asks_about_its_methods(kb, stripe):
    """Killed while the answer of attaching, of a request that never arrives, and of detaching is out."""
    attach = {"method": "POST", "path": "/v1/payment_methods/*/attach"}
    detach = {"method": "POST", "path": "/v1/payment_methods/*/detach"}
    accounts = [kb.account() for _ in range(3)]
    deleted = kb.method(accounts[2], "", properties=[("token", "tok_visa")])
    stripe.faults({"match": attach, "fault": "delay", "delay_ms": 20_000, "when": "after", "count": 1})
    def start(account):
        thread = threading.Thread(target=add, args=(kb, account, "", [("token", "tok_visa")]))
        thread.start()
        return thread
    first = start(accounts[0])
    until(lambda: len(attached_to(stripe, accounts[0])), 1, "it has arrived", 3)
    stripe.faults({"match": attach, "fault": "delay", "delay_ms": 20_000, "when": "before", "count": 1},
                  {"match": detach, "fault": "delay", "delay_ms": 20_000, "when": "before", "count": 1})
    second = start(accounts[1])
    same(kb.ask("DELETE", f"/paymentMethods/{deleted}?forceDefaultPmDeletion=true")[0], 204, "deleted")
    time.sleep(1)
    kb.kill()
    for thread in (first, second):
        thread.join()
    stripe.no_faults()
    kb.start()
    methods = lambda account: len(kb.ask("GET", f"/accounts/{account}/paymentMethods")[1])
    until(lambda: methods(accounts[0]), 1, "what was attached is active")
    same(kb.pay(accounts[0])[0], 201, "charged")
    same(len(attached_to(stripe, accounts[0])), 1, "methods at Stripe")
    until(lambda: attached_to(stripe, accounts[2]), [], "what was deleted is detached")
    until(lambda: methods(accounts[1]), len(attached_to(stripe, accounts[1])), "both agree")


def no_secret_is_in_a_file_or_a_log(kb, stripe):
    """Keys and secrets of webhooks and challenges, in what the server wrote: sealed, or not at all."""
    account = kb.account()
    kb.method(account, "pm_card_threeDSecure2Required")
    _, payment = kb.pay(account, query="?pluginProperty=offSession%3Dfalse")
    action = {it["key"]: it["value"] for it in last(payment)["properties"]}
    for name in ("server.log", *(it.name for it in (kb.folder / "data").iterdir() if it.is_file())):
        at = kb.folder / name if name == "server.log" else kb.folder / "data" / name
        written = at.read_bytes()
        for secret in (action["clientSecret"], KEY, WEBHOOK_SECRET):
            assert secret.encode() not in written, f"{name} has a secret"


def a_decline_says_why(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_chargeCustomerFail")
    status, payment = kb.pay(account)
    same((status, last(payment)["status"]), (402, "PAYMENT_FAILURE"), "declined")
    assert last(payment)["gatewayErrorCode"], last(payment)
    account = kb.account()
    kb.method(account, "pm_card_authenticationRequired")
    status, payment = kb.pay(account)
    same((status, last(payment)["gatewayErrorCode"]), (402, "authentication_required"), "off session")


def currencies_count_as_stripe_counts(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    for currency, amount, at_stripe in [("JPY", "500", 500), ("ISK", "500", 50_000), ("UGX", "500", 50_000),
                                        ("KWD", "5.120", 5_120), ("MGA", "500.00", 500)]:
        status, payment = kb.pay(account, amount, currency=currency)
        same((status, last(payment)["status"]), (201, "SUCCESS"), currency)
        same(stripe.ledger()[last(payment)["transactionId"]][0]["amount"], at_stripe, currency)
    status, payment = kb.pay(account, "5.124", currency="KWD")
    same((status, last(payment)["status"]), (422, "PLUGIN_FAILURE"), "three decimals that Stripe does not take")


def a_customer_who_is_present_passes_a_challenge(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_threeDSecure2Required")
    for outcome, wanted in [("pass", "SUCCESS"), ("fail", "PENDING")]:
        query = "?pluginProperty=" + urllib.parse.quote("returnUrl=http://127.0.0.1:9/back", safe="")
        status, payment = kb.pay(account, query=query)
        same((status, last(payment)["status"]), (201, "PENDING"), "waits")
        action = {it["key"]: it["value"] for it in last(payment)["properties"]}
        assert action["redirectUrl"].startswith(stripe.url), action
        # The page redirects to the merchant, which is not there.
        try:
            urllib.request.urlopen(action["redirectUrl"], f"outcome={outcome}".encode(), timeout=10).close()
        except OSError:
            pass
        found = kb.payment(f"/payments/{payment['paymentId']}")
        same(last(found)["status"], wanted, f"after the challenge: {outcome}")
    # It can still be confirmed, until it is given up.
    body = {"transactionId": last(found)["transactionId"], "transactionType": "PURCHASE"}
    status, said, _ = kb.ask("PUT", f"/payments/{found['paymentId']}?pluginProperty=cancel%3Dtrue", body)
    found = kb.payment(f"/payments/{found['paymentId']}")
    same(last(found)["status"], "PAYMENT_FAILURE", f"given up: {status} {said}")
    same(stripe.ledger()[last(found)["transactionId"]][0]["status"], "canceled", "at Stripe")


class Shop(http.server.BaseHTTPRequestHandler):
    """The merchant's page, which looks the payment up when the customer comes."""

    seen = []

    def do_GET(self):
        kb, payment = self.server.looks_up
        _, found, _ = kb.ask("GET", f"/payments/{payment}")
        Shop.seen.append((self.path, self.headers.get("Referer"), last(found)["status"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def a_customer_who_comes_back_finds_the_outcome_booked(kb, stripe):
    shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
    for outcome, wanted in [("pass", "SUCCESS"), ("fail", "PENDING")]:
        account = kb.account()
        kb.method(account, "pm_card_threeDSecure2Required")
        back = urllib.parse.quote(f"returnUrl=http://127.0.0.1:{shop.server_port}/done?order=7", safe="")
        _, payment = kb.pay(account, query=f"?pluginProperty={back}")
        shop.looks_up = (kb, payment["paymentId"])
        action = {it["key"]: it["value"] for it in last(payment)["properties"]}
        urllib.request.urlopen(action["redirectUrl"], f"outcome={outcome}".encode(), timeout=20).close()
        same(Shop.seen.pop(), ("/done?order=7", None, wanted), outcome)
        # It stood in the query of the way back.
        secret = stripe.get(f"/v1/payment_intents/{last(payment)['firstPaymentReferenceId']}")["client_secret"]
        assert secret not in (kb.folder / "server.log").read_text(), "the log has a secret"
    shop.shutdown()
    same(kb.ask("GET", "/v1/pay/made-up/return", absolute=True)[0], 404, "a way back that was not made here")


def a_customer_who_does_not_come_is_given_up(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_threeDSecure2Required")
    query = "?pluginProperty=offSession%3Dfalse"
    status, payment = kb.pay(account, query=query)
    same((status, last(payment)["status"]), (201, "PENDING"), "waits")
    action = {it["key"]: it["value"] for it in last(payment)["properties"]}
    assert "_secret_" in action["clientSecret"], action
    status, said, _ = kb.ask("PUT", "/test/clock?days=1&timeoutSec=30")
    assert status == 200, f"clock: {status} {said}"
    found = kb.settled(payment)
    same(last(found)["status"], "PAYMENT_FAILURE", "given up")
    same(last(found)["properties"], [], "nothing to do any more")
    same(stripe.ledger()[last(found)["transactionId"]][0]["status"], "canceled", "at Stripe")


def challenged(kb):
    """A payment that waits for a customer, and where the customer goes."""
    account = kb.account()
    kb.method(account, "pm_card_threeDSecure2Required")
    query = "?pluginProperty=" + urllib.parse.quote("returnUrl=http://127.0.0.1:9/back", safe="")
    _, payment = kb.pay(account, query=query)
    action = {it["key"]: it["value"] for it in last(payment)["properties"]}
    return payment, action["redirectUrl"]


class Stays(urllib.request.HTTPRedirectHandler):
    """A customer who closes the page."""

    def redirect_request(self, *_):
        return None


def decide(url, outcome, *handlers):
    """What the customer does; the merchant, whom the page redirects to, is not there."""
    try:
        opener = urllib.request.build_opener(*handlers)
        opener.open(url, f"outcome={outcome}".encode(), timeout=10).close()
    except OSError:
        pass


def complete(kb, payment, query=""):
    body = {"transactionId": last(payment)["transactionId"], "transactionType": "PURCHASE"}
    return kb.ask("PUT", f"/payments/{payment['paymentId']}{query}", body)


def a_customer_who_is_faster_than_giving_up_has_paid(kb, stripe):
    payment, url = challenged(kb)
    stripe.faults({"match": {"method": "POST", "path": "/v1/payment_intents/*/cancel"}, "fault": "delay",
                   "delay_ms": 1_500, "count": 1})
    # Who does not come back: only the answer to the cancellation tells.
    customer = threading.Timer(0.5, decide, (url, "pass", Stays))
    customer.start()
    complete(kb, payment, "?pluginProperty=cancel%3Dtrue")
    customer.join()
    stripe.no_faults()
    # Without its properties nothing is asked: the answer to the completion is booked.
    _, found, _ = kb.ask("GET", f"/payments/{payment['paymentId']}")
    same(last(found)["status"], "SUCCESS", "paid")
    same(stripe.ledger()[last(found)["transactionId"]][0]["amount_captured"], 1_050, "at Stripe")


def a_lost_completion_does_not_fail_what_can_still_be_confirmed(kb, stripe):
    payment, url = challenged(kb)
    decide(url, "fail")
    stripe.faults({"match": {"method": "GET", "path": "/v1/payment_intents"}, "fault": "server_error", "count": 1})
    complete(kb, payment)
    stripe.no_faults()
    for _ in range(10):
        found = kb.payment(f"/payments/{payment['paymentId']}")
        assert last(found)["status"] in ("PENDING", "UNKNOWN"), last(found)
        time.sleep(0.3)
    same(last(found)["status"], "PENDING", "it still waits")
    stripe.faults({"match": {"method": "GET", "path": "/v1/payment_intents"}, "fault": "conflict", "count": 1})
    complete(kb, payment)
    stripe.no_faults()
    same(last(kb.settled(payment, within_s=3))["status"], "PENDING", "it still waits")
    # A key that Stripe takes no more says nothing of the payment.
    upload(kb, KEY + "_revoked")
    stripe.post("/_fake/keys", {"revoke": KEY + "_revoked"})
    complete(kb, payment)
    upload(kb, KEY)
    _, found, _ = kb.ask("GET", f"/payments/{payment['paymentId']}")
    same(last(found)["status"], "PENDING", "the key was refused")


def an_answer_that_is_lost_is_asked_about(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    same(kb.pay(account)[0], 201, "first")
    create = {"method": "POST", "path": "/v1/payment_intents$"}
    for fault, wanted in [("lose_answer", "SUCCESS"), ("cut_before", "PLUGIN_FAILURE"),
                          ("cut_in_answer", "SUCCESS"), ("answer_garbage", "SUCCESS"),
                          ("server_error", "PLUGIN_FAILURE")]:
        stripe.faults({"match": create, "fault": fault, "count": 1})
        status, payment = kb.pay(account, "4.00")
        assert status in (400, 502, 504), f"{fault}: {status} {last(payment)}"
        stripe.no_faults()
        found = kb.settled(payment)
        same(last(found)["status"], wanted, fault)
        intents = stripe.ledger().get(last(found)["transactionId"], [])
        same(sum(it["amount_captured"] for it in intents), 400 if wanted == "SUCCESS" else 0, f"{fault}: at Stripe")


def an_answer_that_comes_late_is_asked_about(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    same(kb.pay(account)[0], 201, "first")
    create = {"method": "POST", "path": "/v1/payment_intents$"}
    stripe.faults({"match": create, "fault": "delay", "delay_ms": 6_000, "when": "after", "count": 1})
    status, payment = kb.pay(account, "4.00")
    same(status, 504, "too late")
    stripe.no_faults()
    same(last(kb.settled(payment))["status"], "SUCCESS", "asked about")


def what_stripe_does_not_take_is_repeated(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    create = {"method": "POST", "path": "/v1/payment_intents$"}
    for fault in ("rate_limit", "lock_timeout"):
        stripe.faults({"match": create, "fault": fault, "count": 2})
        status, payment = kb.pay(account, "4.00")
        same((status, last(payment)["status"]), (201, "SUCCESS"), fault)
        same(len(stripe.ledger()[last(payment)["transactionId"]]), 1, "intents")
    stripe.faults({"match": create, "fault": "rate_limit"})
    status, payment = kb.pay(account, "4.00")
    same(last(payment)["status"], "PLUGIN_FAILURE", "never taken")
    stripe.no_faults()


def a_routed_payment_goes_on_after_a_decline(kb, stripe):
    routed(kb)
    account = kb.account()
    # The code of this card's declines is one after which another gateway may be tried.
    kb.method(account, "", ROUTER, [("faregate-stripe.externalPaymentMethodId", "pm_card_chargeDeclinedProcessingError"),
                                    ("faregate-simulator.externalPaymentMethodId", "anything")])
    status, payment = kb.pay(account)
    tries = [(it["status"], it["gatewayErrorCode"] if it["status"] != "SUCCESS" else None)
             for it in payment["transactions"]]
    same((status, tries), (201, [("PAYMENT_FAILURE", "processing_error"), ("SUCCESS", None)]), "tries")
    account = kb.account()
    kb.method(account, "", ROUTER, [("faregate-stripe.externalPaymentMethodId", "pm_card_chargeDeclinedFraudulent"),
                                    ("faregate-simulator.externalPaymentMethodId", "anything")])
    status, payment = kb.pay(account)
    same((status, len(payment["transactions"])), (402, 1), "a decline that goes on to no other gateway")


def a_routed_payment_whose_answer_is_lost_is_asked_about(kb, stripe):
    routed(kb)
    account = kb.account()
    kb.method(account, "", ROUTER, [("faregate-stripe.externalPaymentMethodId", "pm_card_visa"),
                                    ("faregate-simulator.externalPaymentMethodId", "anything")])
    same(kb.pay(account)[0], 201, "first")
    customers = len(stripe.get("/v1/customers?limit=100")["data"])
    create = {"method": "POST", "path": "/v1/payment_intents$"}
    for fault, wanted in [("lose_answer", "SUCCESS"), ("cut_before", "PLUGIN_FAILURE")]:
        stripe.faults({"match": create, "fault": fault, "count": 1})
        _, payment = kb.pay(account, "4.00")
        stripe.no_faults()
        found = kb.settled(payment)
        same([it["status"] for it in found["transactions"]], [wanted], f"{fault}: no second gateway")
    same(len(stripe.get("/v1/customers?limit=100")["data"]), customers, "customers of one account")


def routed(kb):
    rules = {"rules": [{"name": "all", "gateways": ["faregate-stripe", "faregate-simulator"]}]}
    path = f"/tenants/uploadPluginConfig/{ROUTER}"
    status, said, _ = kb.ask("POST", path, json.dumps(rules).encode())
    assert status == 201, f"rules: {status} {said}"


def what_one_tenant_asks_for_in_vain_keeps_no_other_away(kb, stripe):
    """Calls that cannot be sent for their own sake do not open the breaker of the gateway."""
    account = kb.account()
    method = {"pluginName": "faregate-stripe", "pluginInfo": {"externalPaymentMethodId": "no id of Stripe's"}}
    body = {"account": {"accountId": account, "currency": "USD"}, "paymentMethod": method,
            "transaction": {"transactionType": "PURCHASE", "amount": "1.00"}}
    for _ in range(40):
        same(add(kb, account, "no id of Stripe's")[0], 400, "it was not sent")
        status, said, _ = kb.ask("POST", "/payments/combo", body)
        same(status, 502, said)
    account = kb.account()
    kb.method(account, "pm_card_visa")
    status, payment = kb.pay(account)
    same((status, last(payment)["status"]), (201, "SUCCESS"), "another's payment")


def a_lost_refund_and_a_lost_capture_are_asked_about(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    status, payment = kb.pay(account, "20.00", "AUTHORIZE")
    path = f"/payments/{payment['paymentId']}"
    stripe.faults({"match": {"method": "POST", "path": "/v1/payment_intents/*/capture"}, "fault": "lose_answer",
                   "count": 1})
    kb.ask("POST", path, {"amount": "20.00"})
    stripe.no_faults()
    same(last(kb.settled(payment))["status"], "SUCCESS", "capture")
    stripe.faults({"match": {"method": "POST", "path": "/v1/refunds"}, "fault": "lose_answer", "count": 1})
    kb.ask("POST", path + "/refunds", {"amount": "6.00"})
    stripe.no_faults()
    found = kb.settled(payment)
    same((last(found)["status"], found["refundedAmount"]), ("SUCCESS", 6), "refund")
    intent = stripe.ledger()[payment["transactions"][0]["transactionId"]][0]
    same((intent["amount_captured"], intent["amount_refunded"]), (2000, 600), "at Stripe")


def a_refund_that_fails_later_is_notified(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_refundFail")
    _, payment = kb.pay(account, "8.00")
    path = f"/payments/{payment['paymentId']}"
    same(kb.ask("POST", path + "/refunds", {"amount": "8.00"})[0], 201, "refunded")
    stripe.post("/_fake/clock", {"advance_s": 120})
    refund = last(kb.payment(path))
    event = {"id": "evt_1", "object": "event", "type": "refund.failed",
             "data": {"object": {"object": "refund", "id": refund["firstPaymentReferenceId"]}}}
    same(notify(kb, event), 200, "notified")
    same(last(kb.payment(path))["status"], "PAYMENT_FAILURE", "refund")
    same(notify(kb, event), 200, "notified twice")


def only_signed_events_are_believed(kb, stripe):
    event = {"id": "evt_1", "object": "event", "type": "refund.failed",
             "data": {"object": {"object": "refund", "id": "re_1"}}}
    same(notify(kb, event), 200, "an unknown object")
    same(notify(kb, event, secret="whsec_other"), 400, "another secret")
    same(notify(kb, event, age_s=600), 400, "old")
    same(notify(kb, event, age_s=-600), 400, "of the future")
    same(kb.ask("POST", "/paymentGateways/notification/faregate-stripe", event)[0], 400, "unsigned")
    # The endpoint for Stripe itself, which has no credentials of ours.
    status, said, _ = kb.ask("GET", "/v1/gateways/stripe/endpoint", absolute=True)
    same(status, 200, said)
    same(notify(kb, event, at=said["path"]), 200, "at the tenant's endpoint")
    same(notify(kb, event, secret="whsec_other", at=said["path"]), 400, "another secret there")
    same(notify(kb, event, at=said["path"][:-4] + "AAAA"), 404, "an endpoint that was made up")


def an_event_that_stripes_sdk_signed_is_believed(node, kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    _, payment = kb.pay(account)
    about = {"object": "payment_intent", "id": last(payment)["firstPaymentReferenceId"]}
    event = json.dumps({"id": "evt_7", "object": "event", "type": "payment_intent.succeeded",
                        "data": {"object": about}}).encode()
    path = kb.ask("GET", "/v1/gateways/stripe/endpoint", absolute=True)[1]["path"]

    def signed_with(secret):
        script = ROOT / "conformance/stripe/node/sign.js"
        return subprocess.run([node, script, secret], input=event, capture_output=True, check=True).stdout.decode().strip()

    signature = signed_with(WEBHOOK_SECRET)
    same(post(kb, path, event, signature), 200, signature)
    for at in range(0, len(event), 7):
        changed = event[:at] + bytes([event[at] ^ 1]) + event[at + 1:]
        same(post(kb, path, changed, signature), 400, changed)
    same(post(kb, path, event, signed_with("whsec_other")), 400, "another secret")


def notify(kb, event, secret=WEBHOOK_SECRET, age_s=0, at=None):
    body, signed = json.dumps(event).encode(), int(time.time()) - age_s
    tag = hmac.new(secret.encode(), b"%d." % signed + body, hashlib.sha256).hexdigest()
    signature = f"t={signed},v1={tag}"
    if at is None:
        headers = {"Stripe-Signature": signature}
        return kb.ask("POST", "/paymentGateways/notification/faregate-stripe", body, headers=headers)[0]
    return post(kb, at, body, signature)


def post(kb, at, body, signature):
    """Posts an event as Stripe does, without credentials."""
    headers = {"Stripe-Signature": signature}
    request = urllib.request.Request(kb.url + at, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def a_configuration_names_what_is_wrong(kb, stripe):
    upload = "/tenants/uploadPluginConfig/faregate-stripe"
    for text, field in [(b'{"apiKey":"pk_test_1"}', "apiKey"), (b"{}", "apiKey"), (b'{"apiKey":', "JSON"),
                        (b'{"apiKey":"sk_test_shop","webhookSecrets":["x"]}', "webhookSecrets")]:
        status, said, _ = kb.ask("POST", upload, text)
        assert status == 400 and field in said["message"], f"{text}: {status} {said}"
    found = kb.ask("GET", upload)[1]
    assert WEBHOOK_SECRET in found["values"][0], "the configuration before is still there"


def a_tenant_without_a_key_cannot_pay(kb, stripe):
    other = Faregate(kb.binary, kb.folder, kb.port, stripe)
    other.tenant = {"X-Killbill-ApiKey": "other", "X-Killbill-ApiSecret": "secret"}
    other.made("/tenants", {"apiKey": "other", "apiSecret": "secret"})
    account = other.account()
    status, said, _ = add(other, account, "pm_card_visa")
    assert status == 400 and "configuration" in said["message"], f"{status} {said}"
    # A routed method is not attached before it is charged.
    other.method(account, "", ROUTER, [("faregate-stripe.externalPaymentMethodId", "pm_card_visa")])
    rules = {"rules": [{"name": "all", "gateways": ["faregate-stripe"]}]}
    same(other.ask("POST", f"/tenants/uploadPluginConfig/{ROUTER}", json.dumps(rules).encode())[0], 201, "rules")
    status, said, _ = other.ask("POST", f"/accounts/{account}/payments",
                                {"transactionType": "PURCHASE", "amount": "1.00"})
    assert status == 400 and "configuration" in said["message"], f"{status} {said}"


def another_accounts_key_finds_nothing_out(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    same(kb.pay(account)[0], 201, "first")
    stripe.faults({"match": {"method": "POST", "path": "/v1/payment_intents$"}, "fault": "lose_answer", "count": 1},
                  {"match": {"method": "GET", "path": "/v1/payment_intents"}, "fault": "server_error"})
    _, payment = kb.pay(account, "4.00")
    upload(kb, "sk_test_elsewhere")
    stripe.no_faults()
    time.sleep(6)
    same(last(kb.payment(f"/payments/{payment['paymentId']}"))["status"], "UNKNOWN", "under another account's key")
    status, said, _ = kb.ask("POST", f"/payments/{payment['paymentId']}/refunds", {"amount": "1.00"})
    assert status >= 400, "what is in doubt is not refunded"
    upload(kb, KEY)
    same(last(kb.settled(payment))["status"], "SUCCESS", "under its own again")


def another_accounts_customers_are_not_looked_for(kb, stripe):
    """A method that was added under another key has a customer that is not there."""
    account = kb.account()
    add(kb, account, "pm_card_visa")
    upload(kb, "sk_test_elsewhere")
    status, said, _ = add(kb, account, "pm_card_visa")
    upload(kb, KEY)
    same(status, 201, said)


def an_event_names_what_is_read(kb, stripe):
    """The answer to the call was lost, and no list can be read: the event's object is."""
    account = kb.account()
    kb.method(account, "pm_card_visa")
    stripe.faults({"match": {"method": "POST", "path": "/v1/payment_intents$"}, "fault": "lose_answer", "count": 1},
                  {"match": {"method": "GET", "path": "/v1/payment_intents$"}, "fault": "server_error"})
    _, payment = kb.pay(account, "7.00")
    path = f"/payments/{payment['paymentId']}"
    [intent] = stripe.ledger()[last(kb.payment(path))["transactionId"]]
    event = {"id": "evt_1", "object": "event", "type": "payment_intent.succeeded",
             "data": {"object": {"object": "payment_intent", "id": intent["id"]}}}
    same(notify(kb, event), 200, intent)
    same(last(kb.payment(path))["status"], "SUCCESS", "booked from the object")
    stripe.no_faults()


def reconciliation_finds_what_differs(kb, stripe):
    """All that was paid above agrees; then Stripe has a charge and a refund that the books do not have."""
    account = kb.account()
    kb.method(account, "pm_card_visa")
    _, payment = kb.pay(account)
    before = reconciled(kb)
    same((before["differences"], before["notCompared"]), ([], []), "before")
    assert before["booked"] and before["fees"]["USD"] > 0, before
    intent = last(payment)["firstPaymentReferenceId"]
    stripe.post("/v1/refunds", {"payment_intent": intent, "amount": "100"}, form=True)
    unbooked(kb, stripe)
    # What nobody of ours made is not ours to miss.
    stripe.post("/v1/payment_intents", CHARGE, form=True)
    after = reconciled(kb)
    same((len(after["differences"]), after["others"] - before["others"]), (2, 1), after)
    refund = f"payment {payment['paymentId']} refund re_", ": 100 USD at the gateway, nothing in the store; fee 0 USD"
    charge = " charge ch_", ": 700 USD at the gateway, nothing in the store; fee "
    for parts in (refund, charge):
        assert any(all(part in it for part in parts) for it in after["differences"]), after


CHARGE = {"amount": "700", "currency": "usd", "payment_method": "pm_card_visa", "confirm": "true",
          "capture_method": "automatic",
          "automatic_payment_methods[enabled]": "true", "automatic_payment_methods[allow_redirects]": "never"}


def unbooked(kb, stripe):
    """Charges for the tenant what its books do not have, as after the restore of a backup."""
    ids = {it: str(uuid.uuid4()) for it in ("faregate-payment", "faregate-transaction")}
    ids["faregate-tenant"] = kb.ask("GET", "/tenants?apiKey=shop")[1]["tenantId"]
    intent = CHARGE | {f"metadata[{name}]": value for name, value in ids.items()}
    return stripe.post("/v1/payment_intents", intent, form=True)


def an_event_about_what_a_restored_backup_lacks_comes_again(kb, stripe):
    intent = unbooked(kb, stripe)
    event = {"id": "evt_1", "object": "event", "type": "payment_intent.succeeded",
             "data": {"object": {"object": "payment_intent", "id": intent["id"]}}}
    same(notify(kb, event), 503, intent)
    payment = intent["metadata"]["faregate-payment"]
    assert any("is not in the database" in line and payment in line for line in kb.log().splitlines()), payment


def reconciled(kb):
    settings = {"FAREGATE_GATEWAY_STRIPE_BASE_URL": kb.stripe.url}
    ran = subprocess.run(
        [kb.binary, "reconcile", "--gateway", "faregate-stripe", "--older-than", "0", "--json", "--data-dir",
         kb.folder / "data"], env={**os.environ, **settings}, capture_output=True, text=True, timeout=60)
    assert ran.stdout, ran.stderr
    found = json.loads(ran.stdout)
    same(ran.returncode, 1 if found["differences"] or found["notCompared"] else 0, ran.stderr)
    return found


def a_killed_server_asks_about_what_it_charged(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    same(kb.pay(account)[0], 201, "first")
    key = str(uuid.uuid4())
    stripe.faults({"match": {"method": "POST", "path": "/v1/payment_intents$"}, "fault": "delay", "delay_ms": 1_500,
                   "when": "after", "count": 1})
    body = json.dumps({"transactionType": "PURCHASE", "amount": "4.00", "paymentExternalKey": key})
    client = subprocess.Popen(
        ["python3", "-c", "import sys,urllib.request as u;r=u.Request(sys.argv[1],sys.argv[2].encode(),"
         "eval(sys.argv[3]));u.urlopen(r,timeout=20)", f"{kb.url}/1.0/kb/accounts/{account}/payments", body,
         repr({"Authorization": "Basic YWRtaW46cGFzc3dvcmQ=", "Content-Type": "application/json", **AUDIT,
               **kb.tenant})], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 10
    while kb.payment(kb.by_key(key)) is None and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)
    kb.kill()
    client.wait()
    stripe.no_faults()
    kb.start()
    found = kb.settled(kb.payment(kb.by_key(key)))
    same(last(found)["status"], "SUCCESS", "after the restart")
    same(len(stripe.ledger()[last(found)["transactionId"]]), 1, "intents")


def event_of(kind, about):
    """An event as Stripe posts it: what it says beside the id is not believed."""
    return {"id": f"evt_{uuid.uuid4().hex}", "object": "event", "type": f"charge.dispute.{kind}",
            "data": {"object": {"object": "dispute", "id": about, "status": "won", "amount": 1}}}


def disputed(kb, stripe, **opening):
    """A payment, and its dispute at Stripe."""
    account = kb.account()
    kb.method(account, "pm_card_visa")
    _, payment = kb.pay(account, "10.00")
    intent = last(payment)["firstPaymentReferenceId"]
    return payment, stripe.post("/_fake/disputes", {"payment_intent": intent, **opening}, form=True)["id"]


def moved(stripe, dispute, status):
    stripe.post(f"/_fake/disputes/{dispute}", {"status": status}, form=True)


def disputes(kb, payment):
    status, said, _ = kb.ask("GET", f"/v1/disputes?payment={payment['paymentId']}", absolute=True)
    same(status, 200, said)
    return said["disputes"]


def booked(kb, payment):
    """What is booked of a payment's disputes, and the chargebacks of the payment, with their reversals."""
    found = kb.payment(f"/payments/{payment['paymentId']}")
    backs = [f"{it['status']} {it['amount'] or 0:.2f}" for it in found["transactions"]
             if it["transactionType"] == "CHARGEBACK"]
    return [tuple(it["booked"].values()) for it in disputes(kb, payment)], backs


def a_dispute_is_charged_back_and_reversed_when_it_is_won(kb, stripe):
    payment, dispute = disputed(kb, stripe)
    same(notify(kb, event_of("created", dispute)), 200, "created")
    found = disputes(kb, payment)
    same(len(found), 1, "disputes")
    it = found[0]
    same((it["gateway"], it["gatewayDisputeId"], it["status"], it["reason"], it["amount"], it["currency"]),
         ("faregate-stripe", dispute, "NEEDS_RESPONSE", "fraudulent", "10.00", "USD"), "as Stripe says")
    assert it["evidenceDueBy"] and it["transactionId"] == last(payment)["transactionId"], it
    same(kb.ask("GET", f"/v1/disputes/{it['disputeId']}", absolute=True)[1], it, "by id")
    back = [("10.00", "0.00", "0.00", "0.00")], ["SUCCESS 10.00"]
    same(booked(kb, payment), back, "withdrawn")
    for kind in ("funds_withdrawn", "created", "updated"):
        same(notify(kb, event_of(kind, dispute)), 200, kind)
    same(booked(kb, payment), back, "twice, and out of order")
    moved(stripe, dispute, "won")
    same(notify(kb, event_of("closed", dispute)), 200, "closed before the money")
    won = [("10.00", "10.00", "0.00", "0.00")], ["SUCCESS 10.00", "PAYMENT_FAILURE 0.00"]
    same(booked(kb, payment), won, "reinstated")
    same(disputes(kb, payment)[0]["status"], "WON", "status")
    for kind in ("funds_reinstated", "closed", "funds_withdrawn"):
        same(notify(kb, event_of(kind, dispute)), 200, kind)
    same(booked(kb, payment), won, "notified again")


def a_dispute_that_is_lost_stays_charged_back(kb, stripe):
    payment, dispute = disputed(kb, stripe)
    moved(stripe, dispute, "lost")
    same(notify(kb, event_of("closed", dispute)), 200, "only that it is closed")
    same(booked(kb, payment), ([("10.00", "0.00", "0.00", "0.00")], ["SUCCESS 10.00"]), "booked")
    same(disputes(kb, payment)[0]["status"], "LOST", "status")


def partial_and_repeated_disputes_are_booked(kb, stripe):
    payment, first = disputed(kb, stripe)
    notify(kb, event_of("created", first))
    moved(stripe, first, "won")
    notify(kb, event_of("closed", first))
    intent = last(payment)["firstPaymentReferenceId"]
    for amount in (400, 600):
        again = stripe.post("/_fake/disputes", {"payment_intent": intent, "amount": amount}, form=True)["id"]
        same(notify(kb, event_of("created", again)), 200, amount)
    amounts, backs = booked(kb, payment)
    same([it[0] for it in amounts], ["10.00", "4.00", "6.00"], "charged back")
    same(backs, ["SUCCESS 10.00", "PAYMENT_FAILURE 0.00", "SUCCESS 4.00", "SUCCESS 6.00"], "transactions")


def a_warning_moves_nothing_until_it_is_a_dispute(kb, stripe):
    payment, dispute = disputed(kb, stripe, inquiry="true")
    same(notify(kb, event_of("created", dispute)), 200, "an inquiry")
    same(booked(kb, payment), ([("0.00", "0.00", "0.00", "0.00")], []), "nothing is booked")
    same(disputes(kb, payment)[0]["status"], "WARNING_NEEDS_RESPONSE", "status")
    moved(stripe, dispute, "needs_response")
    same(notify(kb, event_of("updated", dispute)), 200, "escalated")
    same(booked(kb, payment), ([("10.00", "0.00", "0.00", "0.00")], ["SUCCESS 10.00"]), "booked")


def more_than_is_left_is_excess(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    _, payment = kb.pay(account, "10.00")
    path = f"/payments/{payment['paymentId']}"
    same(kb.ask("POST", path + "/refunds", {"amount": "7.00"})[0], 201, "refunded")
    before = excess_of(kb)
    intent = last(payment)["firstPaymentReferenceId"]
    dispute = stripe.post("/_fake/disputes", {"payment_intent": intent, "amount": 1000}, form=True)["id"]
    same(notify(kb, event_of("created", dispute)), 200, "created")
    same(booked(kb, payment), ([("3.00", "0.00", "7.00", "0.00")], ["SUCCESS 3.00"]), "booked")
    same(excess_of(kb) - before, 7, "the ledger's account")
    moved(stripe, dispute, "won")
    same(notify(kb, event_of("closed", dispute)), 200, "won")
    same(booked(kb, payment)[0], [("3.00", "3.00", "7.00", "7.00")], "reinstated")
    same(excess_of(kb) - before, 0, "the ledger's account")


def excess_of(kb):
    found = kb.ask("GET", "/v1/ledger/accounts", absolute=True)[1]
    assert all(it["balanced"] for it in found["trialBalance"]), found
    named = [it for it in found["accounts"] if it["account"] == "dispute-excess:faregate-stripe"]
    return sum(float(it["balance"]) for it in named)


def a_dispute_is_booked_after_the_refund_that_runs(kb, stripe):
    account = kb.account()
    kb.method(account, "pm_card_visa")
    _, payment = kb.pay(account, "10.00")
    path = f"/payments/{payment['paymentId']}"
    stripe.faults({"match": {"method": "POST", "path": "/v1/refunds"}, "fault": "delay", "delay_ms": 2_000,
                   "when": "after", "count": 1})
    refund = threading.Thread(target=kb.ask, args=("POST", path + "/refunds", {"amount": "7.00"}))
    refund.start()
    time.sleep(0.7)
    intent = last(payment)["firstPaymentReferenceId"]
    dispute = stripe.post("/_fake/disputes", {"payment_intent": intent, "amount": 1000}, form=True)["id"]
    same(notify(kb, event_of("created", dispute)), 200, "created")
    it = disputes(kb, payment)[0]
    same((it["withdrawn"], it["booked"]["chargedBack"]), ("10.00", "0.00"), "it waits")
    assert it["bookingAt"], it
    refund.join()
    stripe.no_faults()
    same(last(kb.settled(payment))["status"], "SUCCESS", "refund")
    kb.ask("PUT", "/test/clock?days=1&timeoutSec=30")
    until = time.monotonic() + 20
    while disputes(kb, payment)[0]["bookingAt"] and time.monotonic() < until:
        time.sleep(0.2)
    same(booked(kb, payment), ([("3.00", "0.00", "7.00", "0.00")], ["SUCCESS 3.00"]), "booked by the timer")


def notifications_at_the_same_time_book_once(kb, stripe):
    payment, dispute = disputed(kb, stripe)
    moved(stripe, dispute, "won")
    kinds = ["created", "funds_withdrawn", "updated", "funds_reinstated", "closed"] * 4
    answers = []
    threads = [threading.Thread(target=lambda kind=kind: answers.append(notify(kb, event_of(kind, dispute))))
               for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(set(answers), {200}, "answers")
    won = [("10.00", "10.00", "0.00", "0.00")], ["SUCCESS 10.00", "PAYMENT_FAILURE 0.00"]
    same(booked(kb, payment), won, "booked")


def evidence_that_is_due_is_warned_of_once(kb, stripe):
    def warnings():
        after, found = "first", []
        while True:
            status, said, _ = kb.ask("GET", f"/v1/events?after={after}&limit=1000", absolute=True)
            same(status, 200, said)
            found += [it for it in said["events"] if it["type"] == "dispute.evidence-due"
                      and it["data"]["paymentId"] == payment["paymentId"]]
            if not said["events"]:
                return found
            after = said["next"]

    payment, dispute = disputed(kb, stripe)
    notify(kb, event_of("created", dispute))
    same(warnings(), [], "too early")
    # Due in 7 days of the real time, which the clock here is up to 2 days ahead of.
    kb.ask("PUT", "/test/clock?days=4&timeoutSec=30")
    until = time.monotonic() + 20
    while not warnings() and time.monotonic() < until:
        time.sleep(0.2)
    same(len(warnings()), 1, "warned")
    notify(kb, event_of("updated", dispute))
    time.sleep(1)
    same(len(warnings()), 1, "not again")


def another_payments_dispute_is_not_believed(kb, stripe):
    same(notify(kb, event_of("created", "du_1none")), 200, "an unknown dispute")
    same(notify(kb, event_of("created", "../payment_intents/pi_1")), 200, "no id")
    payment, dispute = disputed(kb, stripe)
    stripe.faults({"match": {"method": "GET", "path": "/v1/disputes/*"}, "fault": "server_error", "count": 9})
    same(notify(kb, event_of("created", dispute)), 503, "it cannot be read")
    stripe.no_faults()
    same(disputes(kb, payment), [], "nothing is recorded")
    other = Faregate(kb.binary, kb.folder, kb.port, stripe)
    other.tenant = {"X-Killbill-ApiKey": "disputed", "X-Killbill-ApiSecret": "secret"}
    other.made("/tenants", {"apiKey": "disputed", "apiSecret": "secret"})
    upload(other, KEY)
    same(notify(other, event_of("created", dispute)), 200, "at another tenant")
    same(disputes(kb, payment), [], "nothing is recorded of it")
    same(notify(kb, event_of("created", dispute)), 200, "at its own")
    it = disputes(kb, payment)[0]
    same(other.ask("GET", f"/v1/disputes/{it['disputeId']}", absolute=True)[0], 404, "another tenant's")
    same(other.ask("GET", "/v1/disputes", absolute=True)[1]["disputes"], [], "another tenant's list")


CHECKS = [
    a_method_is_attached_before_it_is_charged,
    a_refused_card_is_no_method,
    a_lost_answer_about_a_method_is_asked_about,
    a_repeated_request_adds_one_method,
    methods_that_are_added_at_once_have_one_customer,
    a_deleted_method_is_detached,
    two_methods_of_one_name_are_detached_with_the_last,
    a_method_that_two_accounts_have_is_detached_with_the_last,
    a_combo_payment_attaches_its_method_first,
    a_payment_is_charged_once_with_its_metadata,
    tokens_and_kill_bills_names_work,
    authorize_capture_refund_and_void,
    a_customer_enters_a_card_on_stripes_page,
    a_repeated_request_for_a_page_gets_the_same_session,
    methods_that_were_attached_elsewhere_are_found,
    no_secret_is_in_a_file_or_a_log,
    a_decline_says_why,
    currencies_count_as_stripe_counts,
    a_customer_who_is_present_passes_a_challenge,
    a_customer_who_comes_back_finds_the_outcome_booked,
    a_customer_who_is_faster_than_giving_up_has_paid,
    a_lost_completion_does_not_fail_what_can_still_be_confirmed,
    # By real time: the next one moves the clock.
    reconciliation_finds_what_differs,
    a_customer_who_does_not_come_is_given_up,
    an_answer_that_is_lost_is_asked_about,
    an_answer_that_comes_late_is_asked_about,
    what_stripe_does_not_take_is_repeated,
    a_routed_payment_goes_on_after_a_decline,
    a_routed_payment_whose_answer_is_lost_is_asked_about,
    what_one_tenant_asks_for_in_vain_keeps_no_other_away,
    a_lost_refund_and_a_lost_capture_are_asked_about,
    a_refund_that_fails_later_is_notified,
    only_signed_events_are_believed,
    an_event_about_what_a_restored_backup_lacks_comes_again,
    a_dispute_is_charged_back_and_reversed_when_it_is_won,
    a_dispute_that_is_lost_stays_charged_back,
    partial_and_repeated_disputes_are_booked,
    a_warning_moves_nothing_until_it_is_a_dispute,
    more_than_is_left_is_excess,
    a_dispute_is_booked_after_the_refund_that_runs,
    notifications_at_the_same_time_book_once,
    evidence_that_is_due_is_warned_of_once,
    another_payments_dispute_is_not_believed,
    a_configuration_names_what_is_wrong,
    a_tenant_without_a_key_cannot_pay,
    another_accounts_key_finds_nothing_out,
    another_accounts_customers_are_not_looked_for,
    an_event_names_what_is_read,
    a_killed_server_asks_about_what_it_charged,
    a_killed_server_asks_about_its_methods,
]


def upload(kb, key):
    json_text = json.dumps({"apiKey": key, "webhookSecrets": [WEBHOOK_SECRET]}).encode()
    status, said, _ = kb.ask("POST", "/tenants/uploadPluginConfig/faregate-stripe", json_text)
    assert status == 201, f"configuration: {status} {said}"


def main():
    parser = argparse.ArgumentParser()
    for argument in ("server", "fake"):
        parser.add_argument(argument)
    parser.add_argument("--node")
    parser.add_argument("checks", nargs="*")
    given = parser.parse_intermixed_args()
    server, fake, only, checks = given.server, given.fake, given.checks, list(CHECKS)
    if given.node:
        by_sdk = functools.partial(an_event_that_stripes_sdk_signed_is_believed, given.node)
        checks.append(functools.update_wrapper(by_sdk, an_event_that_stripes_sdk_signed_is_believed))
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        ports = processes.free_ports(PORT_FIRST, 2)
        stripe = Stripe(fake, Path(folder) / "stripe.journal", ports[0])
        stripe.start()
        kb = Faregate(server, folder, ports[1], stripe)
        try:
            kb.start()
            kb.made("/tenants", {"apiKey": "shop", "apiSecret": "secret"})
            upload(kb, KEY)
            text = f"org.killbill.billing.plugin.stripe.apiKey={KEY}\n".encode()
            status, said, _ = kb.ask("POST", "/tenants/uploadPluginConfig/killbill-stripe", text)
            assert status == 201, f"configuration: {status} {said}"
            for check in checks:
                if only and check.__name__ not in only:
                    continue
                try:
                    check(kb, stripe)
                    passed += 1
                    print(f"ok      {check.__name__}", flush=True)
                except Exception as error:  # noqa: BLE001
                    failed += 1
                    stripe.no_faults()
                    print(f"FAILED  {check.__name__}: {type(error).__name__} {error}", flush=True)
            if failed:
                print(kb.log())
        finally:
            for process in (kb.process, stripe.process):
                process.kill()
                process.wait()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
