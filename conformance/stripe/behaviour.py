"""What the fake does over time: keys, challenges, captures, faults, events, kills."""

import concurrent.futures
import itertools
import urllib.parse

from process import Cut, Fake, Receiver, until

CARD = [("payment_method_types[]", "card")]
numbers = itertools.count(1)


def fresh(name):
    return f"{name}-{next(numbers)}"


def payment(card="pm_card_visa", amount=2000, **others):
    others = {"capture_method": "automatic"} | others
    return [("amount", amount), ("currency", "usd"), ("confirm", "true"), ("payment_method", card), *CARD, *others.items()]


def customer_with_card(fake, card="pm_card_visa"):
    customer = fake.post("/v1/customers").json["id"]
    method = fake.post(f"/v1/payment_methods/{card}/attach", {"customer": customer}).json["id"]
    return {"customer": customer, "payment_method": method}


def events_of(fake, object_id):
    data = fake.get("/v1/events", {"limit": 100}).json["data"]
    return [event["type"] for event in reversed(data) if event["data"]["object"]["id"] == object_id]


def keys(fake, checks):
    """The account of each key, and those that are refused."""
    answer = fake.get("/v1/account", key="sk_test_shop_1")
    checks.equal("a key's account", answer.json["id"], "acct_shop")
    checks.that("Request-Id", answer.headers["request-id"].startswith("req_"), answer.headers)
    made = fake.post("/v1/customers", key="sk_test_other").json
    checks.equal("another account's object is not found", fake.get(f"/v1/customers/{made['id']}").status, 404)
    checks.equal("live mode has objects of its own", fake.get(f"/v1/customers/{made['id']}", key="sk_live_other").status, 404)
    checks.equal("livemode", fake.post("/v1/customers", key="sk_live_other").json["livemode"], True)
    checks.equal("Bearer", fake.get("/v1/account", key=None, headers={"Authorization": "Bearer sk_test_shop"}).status, 200)
    checks.equal("a restricted key", fake.get("/v1/account", key="rk_test_shop").json["id"], "acct_shop")
    for key in (None, "pk_test_shop", "sk_test_", "sk_shop", "nonsense"):
        answer = fake.get("/v1/account", key=key)
        checks.equal(f"key {key}", (answer.status, answer.error[0]), (401, "invalid_request_error"))
    fake.control("POST", "keys", {"revoke": "sk_test_shop_old"})
    answer = fake.get("/v1/account", key="sk_test_shop_old")
    checks.equal("a revoked key", (answer.status, answer.error[1]), (401, "api_key_expired"))
    checks.equal("a version that is none", fake.get("/v1/account", headers={"Stripe-Version": "new"}).status, 400)


def idempotency(fake, checks):
    key, params = fresh("key"), payment()
    first = fake.post("/v1/payment_intents", params, idempotency_key=key)
    again = fake.post("/v1/payment_intents", params, idempotency_key=key)
    checks.equal("the same key, the same answer", (again.status, again.body, again.replayed), (200, first.body, True))
    checks.equal("Original-Request", again.headers["original-request"], first.headers["request-id"])
    other = fake.post("/v1/payment_intents", payment(amount=2001), idempotency_key=key)
    checks.equal("other parameters", (other.status, other.error[0]), (400, "idempotency_error"))
    elsewhere = fake.post("/v1/payment_intents", params, idempotency_key=key, key="sk_test_other")
    checks.equal("another account's key is another key", (elsewhere.status, elsewhere.replayed), (200, False))

    key, declined = fresh("key"), payment("pm_card_visa_chargeDeclinedInsufficientFunds")
    first = fake.post("/v1/payment_intents", declined, idempotency_key=key)
    again = fake.post("/v1/payment_intents", declined, idempotency_key=key)
    checks.equal("a decline", (first.status, first.error), (402, ("card_error", "card_declined", "insufficient_funds")))
    checks.equal("a decline is stored", (again.body, again.replayed), (first.body, True))

    key = fresh("key")
    refused = fake.post("/v1/payment_intents", [("amount", "much"), ("currency", "usd")], idempotency_key=key)
    checks.equal("a validation error", refused.status, 400)
    accepted = fake.post("/v1/payment_intents", payment(), idempotency_key=key)
    checks.equal("a validation error is not stored", (accepted.status, accepted.replayed), (200, False))

    key = fresh("key")
    fake.faults({"fault": "rate_limit", "count": 1}, {"fault": "key_in_use", "count": 1, "skip": 1})
    answers = [fake.post("/v1/payment_intents", payment(), idempotency_key=key) for _ in range(4)]
    fake.faults()
    checks.equal("429 and 409 are not stored", [it.status for it in answers], [429, 409, 200, 200])
    checks.equal("what comes after them is", [it.replayed for it in answers], [False, False, False, True])
    checks.equal("codes", [it.error[1] for it in answers[:2]], ["rate_limit", "idempotency_key_in_use"])

    concurrent_use(fake, checks)
    pruning(fake, checks)


def concurrent_use(fake, checks):
    key = fresh("key")
    for when, made in (("before", 1), ("after", 1)):
        fake.faults({"fault": "delay", "delay_ms": 600, "when": when, "count": 1})
        params = payment(**{"metadata[use]": f"concurrent {when}"})
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            slow = pool.submit(fake.post, "/v1/payment_intents", params, idempotency_key=f"{key}{when}")
            checks.that("the slow request began", until(lambda: fake.control("GET", "faults")[0]["struck"] == 1))
            meanwhile = fake.post("/v1/payment_intents", params, idempotency_key=f"{key}{when}")
            first = slow.result()
        checks.equal(f"a key in use, {when} the work", (meanwhile.status, meanwhile.error[1]), (409, "idempotency_key_in_use"))
        again = fake.post("/v1/payment_intents", params, idempotency_key=f"{key}{when}")
        checks.equal("afterwards it is replayed", (again.body, again.replayed), (first.body, True))
        uses = [it for it in fake.ledger().values() if it["metadata"].get("use") == f"concurrent {when}"]
        checks.equal("and made once", len(uses), made)
    fake.faults()


def pruning(fake, checks):
    key, params = fresh("key"), payment()
    first = fake.post("/v1/payment_intents", params, idempotency_key=key).json["id"]
    fake.advance(24 * 3600 - 60)
    kept = fake.post("/v1/payment_intents", params, idempotency_key=key)
    checks.equal("a key is kept for 24 h", (kept.json["id"], kept.replayed), (first, True))
    fake.advance(120)
    after = fake.post("/v1/payment_intents", params, idempotency_key=key)
    checks.that("and then pruned: the payment is made again", after.json["id"] != first and not after.replayed, after.body)


def capture(fake, checks):
    manual = {"capture_method": "manual", "payment_method_options[card][request_multicapture]": "if_available"}
    intent = fake.post("/v1/payment_intents", payment(amount=5000, **manual)).json
    checks.equal("manual", (intent["status"], intent["amount_capturable"]), ("requires_capture", 5000))
    path = f"/v1/payment_intents/{intent['id']}/capture"
    part = fake.post(path, {"amount_to_capture": 1500, "final_capture": "false"}).json
    checks.equal("a first part", (part["status"], part["amount_received"], part["amount_capturable"]), ("requires_capture", 1500, 3500))
    more = fake.post(path, {"amount_to_capture": 4000, "final_capture": "false"})
    checks.equal("more than is left", (more.status, more.error[1]), (400, "amount_too_large"))
    canceled = fake.post(f"/v1/payment_intents/{intent['id']}/cancel")
    checks.equal("canceled after a part", (canceled.status, canceled.error[1]), (400, "payment_intent_unexpected_state"))
    back = fake.post("/v1/refunds", {"payment_intent": intent["id"], "amount": 1500}).json
    seen = fake.get(f"/v1/charges/{back['charge']}").json
    checks.equal("not refunded while more can be captured", (seen["captured"], seen["refunded"]), (False, False))
    last = fake.post(path, {"amount_to_capture": 2500}).json
    checks.equal("the last part", (last["status"], last["amount_received"], last["amount_capturable"]), ("succeeded", 4000, 0))
    again = fake.post(path)
    checks.equal("captured again", (again.status, again.error[1]), (400, "payment_intent_unexpected_state"))
    checks.equal("its intent stands in the error", again.json["error"]["payment_intent"]["id"], intent["id"])
    source = {"source": last["latest_charge"]}
    booked = fake.get("/v1/balance_transactions", source).json["data"]
    checks.equal("each capture is booked, newest first", [(it["amount"], it["fee"], it["net"]) for it in booked], [(2500, 102, 2398), (1500, 73, 1427)])
    kinds = events_of(fake, last["latest_charge"])
    checks.equal("events of the charge", kinds, [f"charge.{it}" for it in ("succeeded", "updated", "refunded", "updated", "captured")])
    refund = fake.post("/v1/refunds", {"payment_intent": intent["id"], "amount": 2501})
    checks.equal("more than was captured cannot be refunded", (refund.status, refund.json["error"].get("param")), (400, "amount"))

    single = fake.post("/v1/payment_intents", payment(capture_method="manual")).json
    path = f"/v1/payment_intents/{single['id']}/capture"
    refused = fake.post(path, {"amount_to_capture": 500, "final_capture": "false"})
    checks.equal("several captures have to be asked for", (refused.status, refused.json["error"]["param"]), (400, "final_capture"))
    part = fake.post(path, {"amount_to_capture": 500}).json
    checks.equal("the rest is released", (part["status"], part["amount_received"], part["amount_capturable"]), ("succeeded", 500, 0))

    some = fake.post("/v1/payment_intents", payment(**manual)).json
    path = f"/v1/payment_intents/{some['id']}/capture"
    checks.equal("nothing was captured yet", fake.post(path, {"amount_to_capture": 0}).status, 400)
    fake.post(path, {"amount_to_capture": 300, "final_capture": "false"})
    ended = fake.post(path, {"amount_to_capture": 0}).json
    checks.equal("nothing more", (ended["status"], ended["amount_received"], ended["amount_capturable"]), ("succeeded", 300, 0))
    card = "pm_card_credit_disableEnterpriseCardFeatures"
    intent = fake.post("/v1/payment_intents", [*payment(card, **manual), ("expand[]", "latest_charge")]).json
    available = intent["latest_charge"]["payment_method_details"]["card"]["multicapture"]["status"]
    refused = fake.post(f"/v1/payment_intents/{intent['id']}/capture", {"amount_to_capture": 1, "final_capture": "false"})
    checks.equal("a card without several captures", (available, refused.status), ("unavailable", 400))
    expiry(fake, checks, manual)

    void = fake.post("/v1/payment_intents", payment(capture_method="manual")).json
    canceled = fake.post(f"/v1/payment_intents/{void['id']}/cancel", {"cancellation_reason": "requested_by_customer"}).json
    checks.equal("canceled", (canceled["status"], canceled["amount_capturable"]), ("canceled", 0))
    entry = fake.ledger()[void["id"]]
    checks.equal("no money moved", (entry["amount_captured"], entry["amount_refunded"]), (0, 0))
    captured = fake.post(f"/v1/payment_intents/{void['id']}/capture")
    checks.equal("captured after it was canceled", captured.error[1], "payment_intent_unexpected_state")


def expiry(fake, checks, manual):
    """After a week what is authorized and not captured is released."""
    none = fake.post("/v1/payment_intents", payment(**manual)).json["id"]
    some = fake.post("/v1/payment_intents", payment(**manual)).json["id"]
    fake.post(f"/v1/payment_intents/{some}/capture", {"amount_to_capture": 300, "final_capture": "false"})
    fake.advance(7 * 86_400 - 60)
    checks.equal("a week", fake.get(f"/v1/payment_intents/{none}").json["status"], "requires_capture")
    fake.advance(61)
    expired = [fake.get(f"/v1/payment_intents/{it}").json for it in (none, some)]
    seen = [(it["status"], it["cancellation_reason"], it["amount_received"], it["amount_capturable"]) for it in expired]
    checks.equal("expired", seen, [("canceled", "automatic", 0, 0), ("succeeded", None, 300, 0)])


def booking(fake, checks):
    """By default Stripe books a capture after it has answered."""
    params = [*payment(capture_method="automatic_async"), ("expand[]", "latest_charge")]
    charge = fake.post("/v1/payment_intents", params).json["latest_charge"]
    checks.equal("captured and not booked", (charge["captured"], charge["balance_transaction"]), (True, None))
    fake.advance(2)
    later = fake.get(f"/v1/charges/{charge['id']}", {"expand[]": "balance_transaction"}).json
    checks.equal("booked", later["balance_transaction"]["amount"], 2000)
    checks.equal("with an event", events_of(fake, charge["id"]), ["charge.succeeded", "charge.updated"])
    plain = fake.post("/v1/payment_intents", {"amount": 900, "currency": "usd"}).json
    checks.equal("the default", plain["capture_method"], "automatic_async")


def refunds(fake, checks):
    intent = fake.post("/v1/payment_intents", payment()).json["id"]
    charge = fake.get(f"/v1/payment_intents/{intent}").json["latest_charge"]
    first = fake.post("/v1/refunds", {"payment_intent": intent, "amount": 500, "metadata[step]": "1"}).json
    second = fake.post("/v1/refunds", {"charge": charge}).json
    checks.equal("the rest", (first["amount"], second["amount"], second["status"]), (500, 1500, "succeeded"))
    listed = fake.get("/v1/refunds", {"payment_intent": intent}).json["data"]
    checks.equal("listed, newest first", [it["id"] for it in listed], [second["id"], first["id"]])
    again = fake.post("/v1/refunds", {"payment_intent": intent})
    checks.equal("nothing is left", again.error[1], "charge_already_refunded")
    entry = fake.ledger()[intent]
    checks.equal("ledger", (entry["amount_captured"], entry["amount_refunded"], len(entry["refunds"])), (2000, 2000, 2))
    seen = fake.get(f"/v1/charges/{charge}", [("expand[]", "refunds"), ("expand[]", "balance_transaction")]).json
    checks.equal("expanded", (len(seen["refunds"]["data"]), seen["balance_transaction"]["amount"], seen["refunded"]), (2, 2000, True))

    for card, at_once, later, refunded in (
        ("pm_card_pendingRefund", "pending", "succeeded", 700),
        ("pm_card_refundFail", "succeeded", "failed", 0),
        ("pm_card_pendingRefundFail", "pending", "failed", 0),
    ):
        intent = fake.post("/v1/payment_intents", payment(card)).json["id"]
        refund = fake.post("/v1/refunds", {"payment_intent": intent, "amount": 700}).json
        checks.equal(f"{card} at once", refund["status"], at_once)
        fake.advance(61)
        refund = fake.get(f"/v1/refunds/{refund['id']}").json
        checks.equal(f"{card} later", (refund["status"], fake.ledger()[intent]["amount_refunded"]), (later, refunded))
        checks.that(f"{card} events", ("refund.failed" in events_of(fake, refund["id"])) == (later == "failed"))


def challenge(fake, checks):
    card = "pm_card_threeDSecure2Required"
    back = "https://shop.example/return?order=7"
    intent = fake.post("/v1/payment_intents", payment(card, return_url=back)).json
    action = intent["next_action"]
    checks.equal("a redirect", (intent["status"], action["type"], action["redirect_to_url"]["return_url"]), ("requires_action", "redirect_to_url", back))
    path = action["redirect_to_url"]["url"].removeprefix(fake.url)
    page = fake.get(path, key=None)
    checks.that("its page", page.status == 200 and b'value=pass' in page.body, page.body)
    checks.equal("left open", fake.post(path, {"outcome": "abandon"}, key=None).status, 200)
    checks.equal("still to be done", fake.get(f"/v1/payment_intents/{intent['id']}").json["status"], "requires_action")
    done = fake.post(path, {"outcome": "pass"}, key=None)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(done.headers["location"]).query))
    expected = {"order": "7", "payment_intent": intent["id"], "payment_intent_client_secret": intent["client_secret"], "source_type": "card", "redirect_status": "succeeded"}
    checks.equal("the browser returns", (done.status, query), (303, expected))
    paid = fake.get(f"/v1/payment_intents/{intent['id']}", {"expand[]": "latest_charge"}).json
    secure = paid["latest_charge"]["payment_method_details"]["card"]["three_d_secure"]
    checks.equal("paid", (paid["status"], paid["next_action"], secure["result"]), ("succeeded", None, "authenticated"))
    checks.equal("the challenge has ended", fake.post(path, {"outcome": "pass"}, key=None).status, 410)
    checks.equal("another secret", fake.get(path.replace("secret_", "secret_x"), key=None).status, 404)

    sdk = fake.post("/v1/payment_intents", payment(card)).json
    action = sdk["next_action"]
    checks.equal("without a return URL", action["type"], "use_stripe_sdk")
    path = action["use_stripe_sdk"]["stripe_js"].removeprefix(fake.url)
    checks.equal("failed", fake.post(path, {"outcome": "fail"}, key=None).status, 200)
    failed = fake.get(f"/v1/payment_intents/{sdk['id']}").json
    error = failed["last_payment_error"]["code"]
    checks.equal("may be tried again", (failed["status"], error, failed["payment_method"]), ("requires_payment_method", "payment_intent_authentication_failure", None))
    retried = fake.post(f"/v1/payment_intents/{sdk['id']}/confirm", {"payment_method": "pm_card_visa"}).json
    checks.equal("with another card", (retried["status"], retried["last_payment_error"]), ("succeeded", None))
    kinds = events_of(fake, sdk["id"])
    checks.equal("events", kinds, [f"payment_intent.{it}" for it in ("created", "requires_action", "payment_failed", "succeeded")])

    manual = fake.post("/v1/payment_intents", payment(card, capture_method="manual", return_url=back)).json
    fake.post(manual["next_action"]["redirect_to_url"]["url"].removeprefix(fake.url), {"outcome": "pass"}, key=None)
    checks.equal("to be captured", fake.get(f"/v1/payment_intents/{manual['id']}").json["status"], "requires_capture")
    canceled = fake.post("/v1/payment_intents", payment(card, return_url=back)).json
    checks.equal("canceled instead", fake.post(f"/v1/payment_intents/{canceled['id']}/cancel").json["next_action"], None)
    late = fake.post(canceled["next_action"]["redirect_to_url"]["url"].removeprefix(fake.url), {"outcome": "pass"}, key=None)
    checks.equal("and then it is too late", late.status, 410)
    declined = fake.post("/v1/payment_intents", payment("pm_card_threeDSecureRequiredChargeDeclined", return_url=back)).json
    done = fake.post(declined["next_action"]["redirect_to_url"]["url"].removeprefix(fake.url), {"outcome": "pass"}, key=None)
    checks.that("declined after the challenge", "redirect_status=failed" in done.headers["location"], done.headers)
    off_session(fake, checks)


def off_session(fake, checks):
    card = customer_with_card(fake, "pm_card_authenticationRequired")
    refused = fake.post("/v1/payment_intents", payment(card["payment_method"], customer=card["customer"], off_session="true"))
    checks.equal("off session", (refused.status, refused.error), (402, ("card_error", "authentication_required", "authentication_required")))
    checks.equal("its intent", refused.json["error"]["payment_intent"]["status"], "requires_payment_method")
    checks.equal("its method", refused.json["error"]["payment_method"]["id"], card["payment_method"])
    customer = fake.post("/v1/customers").json["id"]
    setup = {"customer": customer, "payment_method": "pm_card_authenticationRequiredOnSetup", "confirm": "true", "return_url": "https://shop.example/"}
    intent = fake.post("/v1/setup_intents", setup).json
    checks.equal("a setup with a challenge", intent["status"], "requires_action")
    charge = payment(intent["payment_method"], customer=customer, off_session="true")
    fake.post(intent["next_action"]["redirect_to_url"]["url"].removeprefix(fake.url), {"outcome": "pass"}, key=None)
    done = fake.get(f"/v1/setup_intents/{intent['id']}").json
    checks.equal("set up", done["status"], "succeeded")
    paid = fake.post("/v1/payment_intents", charge)
    checks.equal("off session from then on", (paid.status, paid.json.get("status")), (200, "succeeded"))
    owned = fake.get(f"/v1/customers/{customer}/payment_methods").json["data"]
    checks.equal("attached", [it["id"] for it in owned], [intent["payment_method"]])
    plain = payment(intent["payment_method"], off_session="true")
    checks.equal("without its customer", fake.post("/v1/payment_intents", plain).status, 400)
    automatic = [("amount", 2000), ("currency", "usd"), ("confirm", "true"), ("payment_method", "pm_card_visa")]
    refused = fake.post("/v1/payment_intents", automatic)
    checks.that("methods that may redirect need a return URL", refused.status == 400 and "return_url" in refused.json["error"]["message"], refused.body)


def methods(fake, checks):
    shown = fake.get("/v1/payment_methods/pm_card_visa").json
    checks.that("a test payment method is a new one", shown["id"].startswith("pm_1") and shown["card"]["brand"] == "visa", shown)
    token = fake.post("/v1/payment_methods", {"type": "card", "card[token]": "tok_visa", "billing_details[name]": "Ana"}).json
    checks.equal("of a token", (token["card"]["last4"], token["billing_details"]["name"]), ("4242", "Ana"))
    data = [("payment_method_data[type]", "card"), ("payment_method_data[card][token]", "tok_mastercard")]
    paid = fake.post("/v1/payment_intents", [("amount", 900), ("currency", "eur"), ("confirm", "true"), *CARD, *data]).json
    checks.equal("of a token in a payment", paid["status"], "succeeded")
    again = fake.post("/v1/payment_intents", payment(paid["payment_method"]))
    checks.equal("a method without a customer is used once", (again.status, again.error[1]), (400, "payment_method_unexpected_state"))
    declined = fake.post("/v1/payment_methods/pm_card_visa_chargeDeclined/attach", {"customer": fake.post("/v1/customers").json["id"]})
    checks.equal("declined when it is attached", (declined.status, declined.error[1]), (402, "card_declined"))
    card = customer_with_card(fake, "pm_card_chargeCustomerFail")
    declined = fake.post("/v1/payment_intents", payment(card["payment_method"], customer=card["customer"]))
    checks.equal("declined when it is charged", declined.error, ("card_error", "card_declined", "generic_decline"))
    detached = fake.post(f"/v1/payment_methods/{card['payment_method']}/detach").json
    checks.equal("detached", detached["customer"], None)
    number = fake.post("/v1/payment_methods", {"type": "card", "card[number]": "4" + "2" * 3 * 5})
    checks.equal("card numbers are refused", number.status, 400)
    unknown = fake.post("/v1/payment_intents", [*payment(), ("application_fee_amount", 5)])
    checks.equal("what the fake does not know is refused", unknown.error[1], "parameter_unknown")
    unknown = fake.post("/v1/payment_intents", [*payment(), ("payment_method_options[card][network]", "visa")])
    checks.equal("also within a parameter", unknown.error[1], "parameter_unknown")
    for currency, amount, status in (("isk", 500, 200), ("isk", 550, 400), ("ugx", 150, 400), ("kwd", 5120, 200), ("kwd", 5124, 400), ("jpy", 500, 200), ("xyz", 500, 400), ("usd", 49, 400)):
        answer = fake.post("/v1/payment_intents", {"amount": amount, "currency": currency})
        checks.equal(f"{amount} {currency}", answer.status, status)


def search(fake, checks):
    mark = fresh("mark")
    made = {fake.post("/v1/payment_intents", payment(**{"metadata[mark]": mark})).json["id"] for _ in range(12)}
    query = {"query": f"metadata['mark']:'{mark}' AND status:'succeeded'", "limit": 100}
    found = fake.get("/v1/payment_intents/search", query).json
    checks.that("search lags", len(found["data"]) < 12, len(found["data"]))
    fake.advance(61)
    found = fake.get("/v1/payment_intents/search", query).json
    checks.equal("by up to a minute", {it["id"] for it in found["data"]}, made)
    checks.equal("a query that is none", fake.get("/v1/payment_intents/search", {"query": "order 7"}).status, 400)


def lists(fake, checks):
    customer = fake.post("/v1/customers", {"email": f"{fresh('ana')}@example.com"}).json
    found = fake.get("/v1/customers", {"email": customer["email"]}).json["data"]
    checks.equal("by email", [it["id"] for it in found], [customer["id"]])
    made = []
    for _ in range(5):
        made.insert(0, fake.post("/v1/payment_intents", {"amount": 100, "currency": "usd", "customer": customer["id"]}).json)
        fake.advance(10)
    ids = [it["id"] for it in made]
    page, seen = {"customer": customer["id"], "limit": 2}, []
    while True:
        answer = fake.get("/v1/payment_intents", page).json
        seen += [it["id"] for it in answer["data"]]
        if not answer["has_more"]:
            break
        page["starting_after"] = seen[-1]
    checks.equal("pages, newest first", seen, ids)
    since = fake.get("/v1/payment_intents", {"customer": customer["id"], "created[gte]": made[2]["created"]}).json["data"]
    checks.equal("created since", [it["id"] for it in since], ids[:3])
    before = fake.get("/v1/payment_intents", {"customer": customer["id"], "ending_before": ids[3], "limit": 2}).json
    checks.equal("backwards", ([it["id"] for it in before["data"]], before["has_more"]), (ids[1:3], True))
    checks.equal("a page of too many", fake.get("/v1/payment_intents", {"limit": 101}).status, 400)
    deleted = fake.request("DELETE", f"/v1/customers/{customer['id']}").json
    checks.equal("deleted", (deleted["deleted"], fake.get(f"/v1/customers/{customer['id']}").json["deleted"]), (True, True))
    refused = fake.post("/v1/payment_intents", {"amount": 100, "currency": "usd", "customer": customer["id"]})
    checks.equal("and pays no more", refused.error[1], "resource_missing")


def faults(fake, checks):
    """What each fault does to the money and to the answer."""
    for fault, made in (("lose_answer", 1), ("cut_before", 0), ("cut_in_answer", 1)):
        mark = fresh(fault)
        fake.faults({"fault": fault, "match": {"method": "POST", "metadata": {"mark": mark}}, "count": 1})
        params, key = payment(**{"metadata[mark]": mark}), fresh("key")
        try:
            fake.post("/v1/payment_intents", params, idempotency_key=key)
            checks.that(f"{fault} cuts", False, "it was answered")
        except Cut:
            checks.that(f"{fault} cuts", True)
        found = [it for it in fake.ledger().values() if it["metadata"].get("mark") == mark]
        checks.equal(f"{fault} does the work or not", len(found), made)
        again = fake.post("/v1/payment_intents", params, idempotency_key=key)
        checks.equal(f"{fault}, repeated", (again.status, again.replayed), (200, made == 1))
    fake.faults({"fault": "answer_garbage", "count": 1})
    checks.that("garbage", b"<html" in fake.get("/v1/account").body)
    for fault, when, status, made, replayed in (
        ("server_error", "before", 500, 0, False),
        ("server_error", "after", 500, 1, True),
        ("key_in_use", "after", 409, 1, True),
        ("lock_timeout", "before", 429, 0, False),
        ("conflict", "before", 409, 0, False),
    ):
        mark, key = fresh(fault), fresh("key")
        fake.faults({"fault": fault, "when": when, "match": {"path": "/v1/payment_intents$"}, "count": 1})
        params = payment(**{"metadata[mark]": mark})
        answer = fake.post("/v1/payment_intents", params, idempotency_key=key)
        found = [it for it in fake.ledger().values() if it["metadata"].get("mark") == mark]
        again = fake.post("/v1/payment_intents", params, idempotency_key=key)
        seen = (answer.status, len(found), again.replayed, again.status)
        checks.equal(f"{fault} {when}", seen, (status, made, replayed, 500 if fault == "server_error" and replayed else 200))
    fake.faults({"fault": "rate_limit", "match": {"path": "/v1/payment_intents/*/capture"}})
    intent = fake.post("/v1/payment_intents", payment(capture_method="manual")).json["id"]
    checks.equal("another path", fake.post(f"/v1/payment_intents/{intent}/capture").error[1], "rate_limit")
    fake.faults()
    checks.equal("no longer", fake.post(f"/v1/payment_intents/{intent}/capture").status, 200)
    drawn = []
    for _ in range(200):
        drawn.append(fake.get("/v1/account").status)
    checks.equal("without rules nothing fails", set(drawn), {200})
    fake.faults({"fault": "rate_limit", "probability": 0.3})
    drawn = [fake.get("/v1/account").status for _ in range(300)]
    checks.that("three of ten", 60 <= drawn.count(429) <= 120, drawn.count(429))
    fake.faults()
    wrong = fake.request("POST", "/_fake/faults", key=None, body='[{"fault": "explode"}]')
    checks.equal("a fault that is none", wrong.status, 400)


def disputes(fake, checks):
    intent = fake.post("/v1/payment_intents", payment("pm_card_createDispute")).json["id"]
    checks.equal("not at once", fake.get("/v1/disputes", {"payment_intent": intent}).json["data"], [])
    fake.advance(2)
    (dispute,) = fake.get("/v1/disputes", {"payment_intent": intent}).json["data"]
    seen = (dispute["status"], dispute["reason"], [(it["amount"], it["fee"]) for it in dispute["balance_transactions"]])
    checks.equal("by the card", seen, ("needs_response", "fraudulent", [(-2000, 1500)]))
    refund = fake.post("/v1/refunds", {"payment_intent": intent})
    checks.equal("no refund of what is disputed", refund.error[1], "charge_disputed")
    won = fake.post(f"/v1/disputes/{dispute['id']}", {"evidence[uncategorized_text]": "winning_evidence"}).json
    checks.equal("won", (won["status"], sum(it["amount"] for it in won["balance_transactions"])), ("won", 0))
    expected = ["created", "funds_withdrawn", "updated", "funds_reinstated", "closed"]
    checks.equal("its events", events_of(fake, dispute["id"]), [f"charge.dispute.{it}" for it in expected])

    intent = fake.post("/v1/payment_intents", payment("pm_card_createDisputeInquiry")).json["id"]
    fake.advance(2)
    (inquiry,) = fake.get("/v1/disputes", {"payment_intent": intent}).json["data"]
    checks.equal("an inquiry moves nothing", (inquiry["status"], inquiry["balance_transactions"]), ("warning_needs_response", []))
    escalated = fake.post(f"/_fake/disputes/{inquiry['id']}", {"status": "needs_response"}).json
    checks.equal("until it is a dispute", len(escalated["balance_transactions"]), 1)
    lost = fake.post(f"/v1/disputes/{inquiry['id']}/close").json
    checks.equal("accepted", lost["status"], "lost")

    intent = fake.post("/v1/payment_intents", payment()).json["id"]
    opened = fake.post("/_fake/disputes", {"payment_intent": intent, "amount": 700, "reason": "duplicate"}).json
    checks.equal("opened by a test", (opened["amount"], opened["reason"]), (700, "duplicate"))
    total = sum(it["net"] for it in fake.get("/v1/balance_transactions", {"source": opened["id"]}).json["data"])
    checks.equal("listed by its source", total, -700 - 1500)


def checkout(fake, checks):
    customer = fake.post("/v1/customers").json["id"]
    urls = {"success_url": "https://shop.example/ok?session={CHECKOUT_SESSION_ID}", "cancel_url": "https://shop.example/no"}
    session = fake.post("/v1/checkout/sessions", {"mode": "setup", "customer": customer, "currency": "usd", **urls}).json
    path = session["url"].removeprefix(fake.url)
    checks.equal("its page", fake.get(path, key=None).status, 200)
    checks.equal("left", fake.post(path, {"leave": 1}, key=None).headers["location"], urls["cancel_url"])
    declined = fake.post(path, {"payment_method": "pm_card_visa_chargeDeclined"}, key=None)
    checks.equal("declined", declined.status, 402)
    done = fake.post(path, {"payment_method": "pm_card_visa"}, key=None)
    checks.equal("set up", done.headers.get("location"), f"https://shop.example/ok?session={session['id']}")
    session = fake.get(f"/v1/checkout/sessions/{session['id']}", {"expand[]": "setup_intent"}).json
    seen = (session["status"], session["setup_intent"]["status"], session["url"])
    checks.equal("complete", seen, ("complete", "succeeded", None))
    owned = fake.get(f"/v1/customers/{customer}/payment_methods").json["data"]
    checks.equal("the card is the customer's", [it["id"] for it in owned], [session["setup_intent"]["payment_method"]])

    item = {"line_items[0][price_data][currency]": "eur", "line_items[0][price_data][unit_amount]": 700, "line_items[0][price_data][product_data][name]": "Book", "line_items[0][quantity]": 2}
    session = fake.post("/v1/checkout/sessions", {"mode": "payment", **item, **urls, "payment_intent_data[metadata][order]": "7"}).json
    checks.equal("unpaid", (session["amount_total"], session["payment_status"]), (1400, "unpaid"))
    page = fake.post(session["url"].removeprefix(fake.url), {"payment_method": "pm_card_threeDSecure2Required"}, key=None)
    done = fake.post(page.headers["location"].removeprefix(fake.url), {"outcome": "pass"}, key=None)
    checks.equal("after the challenge", done.headers.get("location"), f"https://shop.example/ok?session={session['id']}")
    session = fake.get(f"/v1/checkout/sessions/{session['id']}", {"expand[]": "payment_intent"}).json
    seen = (session["payment_status"], session["payment_intent"]["amount_received"], session["payment_intent"]["metadata"])
    checks.equal("paid", seen, ("paid", 1400, {"order": "7"}))
    open_one = fake.post("/v1/checkout/sessions", {"mode": "setup", "currency": "usd", **urls}).json
    checks.equal("expired", fake.post(f"/v1/checkout/sessions/{open_one['id']}/expire").json["status"], "expired")


def events(fake, checks):
    """Sent signed, again until they are taken, and doubled, dropped and delayed on request."""
    receiver = Receiver()
    endpoint = fake.post("/v1/webhook_endpoints", {"url": receiver.url, "enabled_events[]": "*"}, key="sk_test_hooks").json
    checks.that("its secret is in the first answer only", endpoint["secret"].startswith("whsec_"), endpoint)
    shown = fake.get(f"/v1/webhook_endpoints/{endpoint['id']}", key="sk_test_hooks").json
    checks.that("and in no other one", "secret" not in shown, shown)

    def pay(**others):
        return fake.post("/v1/payment_intents", payment(**others), key="sk_test_hooks").json["id"]

    def kinds(intent):
        found = [it["type"] for it in receiver.events() if it["data"]["object"]["id"] == intent]
        return sorted(found)

    both = ["payment_intent.created", "payment_intent.succeeded"]
    intent = pay()
    checks.that("sent", until(lambda: kinds(intent) == both), kinds(intent))
    receiver.status = 503
    intent = pay()
    checks.that("refused", until(lambda: kinds(intent) == both), kinds(intent))
    receiver.status = 200
    fake.advance(2)
    taken = lambda: {it["id"] for it in receiver.events(200) if it["data"]["object"]["id"] == intent}  # noqa: E731
    checks.that("sent again", until(lambda: len(taken()) == 2), receiver.events())
    ids = {it["id"] for it in receiver.events() if it["data"]["object"]["id"] == intent}
    checks.equal("with the same ids", ids, taken())

    succeeded = {"event": "payment_intent.succeeded"}
    fake.faults({"fault": "double_event", "match": succeeded})
    intent = pay()
    checks.that("doubled", until(lambda: kinds(intent) == both + both[1:]), kinds(intent))
    fake.faults({"fault": "drop_event", "match": succeeded})
    dropped = pay()
    checks.that("dropped", until(lambda: kinds(dropped) == both[:1]), kinds(dropped))
    fake.faults({"fault": "delay_event", "match": succeeded, "delay_ms": 3_600_000})
    delayed = pay()
    checks.that("delayed", until(lambda: kinds(delayed) == both[:1]), kinds(delayed))
    fake.faults()
    after = pay()
    checks.that("a later one is there first", until(lambda: kinds(after) == both), kinds(after))
    checks.equal("the delayed one is still to come", kinds(delayed), both[:1])
    fake.advance(3601)
    checks.that("and comes", until(lambda: kinds(delayed) == both), kinds(delayed))
    checks.equal("the dropped one never does", kinds(dropped), both[:1])

    # What no endpoint took before a kill is sent after it.
    receiver.status = 500
    intent = pay()
    checks.that("refused", until(lambda: kinds(intent) == both), kinds(intent))
    receiver.status = 200
    fake.restart()
    checks.that("sent after a kill", until(lambda: len(taken()) == 2), kinds(intent))
    receiver.close()


def kills(binary, scratch, checks):
    """kill -9 in the middle of payments: what was answered is there, under the same key, and made once."""
    journal = scratch / "kills.journal"
    fake = Fake(binary, scratch / "kills.log", ["--journal", str(journal), "--seed", "7"])
    card = customer_with_card(fake)
    answered, asked = {}, set()

    def pay(number):
        params = payment(card["payment_method"], customer=card["customer"], **{"metadata[n]": number})
        asked.add(number)
        try:
            answer = fake.post("/v1/payment_intents", params, idempotency_key=f"kill-{number}")
        except (Cut, OSError):
            return
        if answer.status == 200:
            answered[number] = answer.json["id"]

    for round_ in range(5):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            running = [pool.submit(pay, f"{round_}-{n}") for n in range(60)]
            until(lambda: sum(it.done() for it in running) > 25)
            fake.kill()
        fake.start()
        ledger = fake.ledger()
        lost = [it for it in answered.values() if it not in ledger]
        checks.equal(f"nothing that was answered is lost, kill {round_}", lost, [])
    checks.that("some were answered, some were not", 0 < len(answered) < len(asked), (len(answered), len(asked)))
    for number in sorted(asked):
        pay(number)
    by_number = {}
    for entry in fake.ledger().values():
        by_number.setdefault(entry["metadata"].get("n"), []).append(entry)
    checks.equal("each payment is there once", {len(it) for it in by_number.values()}, {1})
    checks.equal("none is missing", set(by_number), asked)
    checks.equal("and charged once", {it[0]["charges_paid"] for it in by_number.values()}, {1})
    ids = [it["id"] for it in fake.ledger().values()]
    checks.equal("no id is given twice", len(ids), len(set(ids)))

    fake.advance(3600)
    offset = fake.control("GET", "clock")["offset_ms"]
    before = fake.ledger()
    fake.kill()
    with journal.open("ab") as torn:
        torn.write(b'{"account":"shop","rows":[{"charge":')
    fake.start()
    checks.equal("half a line is left out", fake.ledger(), before)
    checks.equal("the clock is where it was", fake.control("GET", "clock")["offset_ms"], offset)
    again = fake.post("/v1/payment_intents", payment(amount=2500)).json["id"]
    fake.restart()
    checks.that("and the journal goes on behind it", again in fake.ledger())
    fake.close()
