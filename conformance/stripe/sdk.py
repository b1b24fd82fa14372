"""Stripe's SDK for Python drives all that the fake has, and reads each answer."""

import stripe

from behaviour import fresh

CARD = {"payment_method_types": ["card"]}


def client(fake, key="sk_test_sdk", **options):
    addresses = {"api": fake.url}
    return stripe.StripeClient(key, base_addresses=addresses, max_network_retries=0, **options).v1


def refused(act):
    try:
        act()
    except stripe.StripeError as error:
        return error
    raise AssertionError("it was not refused")


def drive(fake, checks):
    checks.equal("the SDK's version of the API", stripe.api_version, fake.get("/v1/account").headers["stripe-version"])
    checks.equal("the account", client(fake).accounts.retrieve_current().id, "acct_sdk")
    methods(fake, checks)
    payments(fake, checks)
    errors(fake, checks)
    others(fake, checks)


def methods(fake, checks):
    api = client(fake)
    customer = api.customers.create({"email": "ana@example.com", "name": "Ana", "metadata": {"account": "a1"}})
    customer = api.customers.update(customer.id, {"metadata": {"tenant": "t1"}, "phone": "1"})
    checks.equal("metadata is merged", customer.metadata.to_dict(), {"account": "a1", "tenant": "t1"})
    checks.equal("retrieved", api.customers.retrieve(customer.id).email, "ana@example.com")
    checks.equal("listed", [it.id for it in api.customers.list({"email": "ana@example.com"}).data], [customer.id])
    made = api.payment_methods.create({"type": "card", "card": {"token": "tok_visa"}})
    attached = api.payment_methods.attach(made.id, {"customer": customer.id})
    checks.equal("attached", (attached.customer, attached.card.last4), (customer.id, "4242"))
    checks.equal("retrieved", api.payment_methods.retrieve(made.id).type, "card")
    checks.equal("updated", api.payment_methods.update(made.id, {"metadata": {"a": "b"}}).metadata["a"], "b")
    listed = api.customers.payment_methods.list(customer.id, {"type": "card"}).data
    checks.equal("of the customer", [it.id for it in listed], [made.id])
    checks.equal("of the customer, one", api.customers.payment_methods.retrieve(customer.id, made.id).id, made.id)
    checks.equal("by customer", [it.id for it in api.payment_methods.list({"customer": customer.id}).data], [made.id])
    api.customers.update(customer.id, {"invoice_settings": {"default_payment_method": made.id}})
    expanded = api.customers.retrieve(customer.id, {"expand": ["invoice_settings.default_payment_method"]})
    checks.equal("expanded", expanded.invoice_settings.default_payment_method.card.brand, "visa")
    setup = api.setup_intents.create({"customer": customer.id, "metadata": {"x": "y"}, **CARD})
    checks.equal("a setup intent", setup.status, "requires_payment_method")
    setup = api.setup_intents.confirm(setup.id, {"payment_method": "pm_card_mastercard"})
    checks.equal("confirmed", (setup.status, api.setup_intents.retrieve(setup.id).usage), ("succeeded", "off_session"))
    listed = api.setup_intents.list({"customer": customer.id}).data
    checks.equal("listed", [it.id for it in listed], [setup.id])
    canceled = api.setup_intents.cancel(api.setup_intents.create(CARD).id)
    checks.equal("canceled", canceled.status, "canceled")
    challenged = api.setup_intents.create({"payment_method": "pm_card_authenticationRequired", "confirm": True, "return_url": "https://shop.example/", "customer": customer.id})
    checks.equal("a challenge", challenged.next_action.type, "redirect_to_url")
    fake.post(challenged.next_action.redirect_to_url.url.removeprefix(fake.url), {"outcome": "fail"}, key=None)
    failed = api.setup_intents.retrieve(challenged.id)
    checks.equal("failed", failed.last_setup_error.code, "setup_intent_authentication_failure")
    checks.equal("detached", api.payment_methods.detach(made.id).customer, None)
    checks.equal("deleted", api.customers.delete(customer.id).deleted, True)


def payments(fake, checks):
    api = client(fake)
    customer = api.customers.create({"email": "bo@example.com"})
    method = api.payment_methods.attach("pm_card_visa", {"customer": customer.id})
    common = {"amount": 1500, "currency": "usd", "customer": customer.id, "payment_method": method.id, "capture_method": "automatic", **CARD}
    key = {"idempotency_key": fresh("sdk")}
    params = {**common, "confirm": True, "off_session": True, "metadata": {"n": "1"}, "expand": ["latest_charge.balance_transaction"]}
    paid = api.payment_intents.create(params, key)
    again = api.payment_intents.create(params, key)
    checks.equal("replayed", (again.id, again.last_response.headers["idempotent-replayed"]), (paid.id, "true"))
    charge = paid.latest_charge
    checks.equal("expanded", (paid.status, charge.paid, charge.balance_transaction.net), ("succeeded", True, 1500 - 73))
    two_steps = api.payment_intents.create({**common, "setup_future_usage": "off_session", "description": "d"})
    checks.equal("to be confirmed", two_steps.status, "requires_confirmation")
    two_steps = api.payment_intents.update(two_steps.id, {"amount": 1600, "metadata": {"n": "2"}})
    two_steps = api.payment_intents.confirm(two_steps.id, {"return_url": "https://shop.example/"})
    checks.equal("confirmed", (two_steps.status, two_steps.amount_received), ("succeeded", 1600))
    manual = api.payment_intents.create({**common, "confirm": True, "capture_method": "manual"})
    captured = api.payment_intents.capture(manual.id, {"amount_to_capture": 1000, "metadata": {"n": "3"}})
    checks.equal("captured", captured.amount_received, 1000)
    released = api.payment_intents.create({**common, "confirm": True, "capture_method": "manual"})
    checks.equal("canceled", api.payment_intents.cancel(released.id).status, "canceled")
    listed = [it.id for it in api.payment_intents.list({"customer": customer.id, "limit": 2}).auto_paging_iter()]
    checks.equal("all pages", listed, [released.id, manual.id, two_steps.id, paid.id])
    fake.advance(61)
    found = api.payment_intents.search({"query": f"customer:'{customer.id}'", "limit": 3})
    checks.equal("searched", [it.id for it in found.auto_paging_iter()], listed)
    refund = api.refunds.create({"payment_intent": paid.id, "amount": 400, "reason": "requested_by_customer", "metadata": {"t": "1"}})
    checks.equal("refunded", (refund.status, api.refunds.retrieve(refund.id).amount), ("succeeded", 400))
    api.refunds.update(refund.id, {"metadata": {"t": "2"}})
    checks.equal("listed", [it.metadata["t"] for it in api.refunds.list({"charge": charge.id}).data], ["2"])
    charges = api.charges.list({"payment_intent": paid.id}).data
    checks.equal("charges", [(it.id, it.amount_refunded) for it in charges], [(charge.id, 400)])
    checks.equal("one charge", api.charges.retrieve(charge.id).payment_method_details.card.last4, "4242")
    booked = api.balance_transactions.list({"source": refund.id}).data
    checks.equal("booked", [(it.amount, it.type, it.fee) for it in booked], [(-400, "refund", 0)])
    checks.equal("one booking", api.balance_transactions.retrieve(booked[0].id, {"expand": ["source"]}).source.id, refund.id)
    since = api.balance_transactions.list({"created": {"gte": paid.created}, "type": "charge", "limit": 100}).data
    checks.equal("captures booked since", sorted(it.amount for it in since), [1000, 1500, 1600])


def errors(fake, checks):
    api = client(fake)
    declined = refused(lambda: api.payment_intents.create({"amount": 500, "currency": "usd", "confirm": True, "payment_method": "pm_card_visa_chargeDeclinedLostCard", **CARD}))
    seen = (type(declined), declined.code, declined.error.decline_code, declined.error.payment_intent.status)
    checks.equal("a decline", seen, (stripe.CardError, "card_declined", "lost_card", "requires_payment_method"))
    checks.equal("its charge", api.charges.retrieve(declined.error.charge).failure_code, "card_declined")
    for what, kind, act in (
        ("nothing there", stripe.InvalidRequestError, lambda: api.payment_intents.retrieve("pi_none")),
        ("a wrong key", stripe.AuthenticationError, lambda: client(fake, key="nonsense").accounts.retrieve_current()),
        ("no amount", stripe.InvalidRequestError, lambda: api.payment_intents.create({"currency": "usd"})),
    ):
        checks.equal(what, type(refused(act)), kind)
    key = {"idempotency_key": fresh("sdk")}
    api.customers.create({"name": "a"}, key)
    checks.equal("a key used twice", type(refused(lambda: api.customers.create({"name": "b"}, key))), stripe.IdempotencyError)
    for fault, kind in (("rate_limit", stripe.RateLimitError), ("server_error", stripe.APIError), ("cut_before", stripe.APIConnectionError), ("answer_garbage", stripe.APIError)):
        fake.faults({"fault": fault})
        checks.equal(fault, type(refused(lambda: api.customers.create({}))), kind)
    # The SDK's own retries, with its own key: one customer.
    fake.faults({"fault": "lose_answer", "count": 1, "match": {"method": "POST"}})
    retrying = stripe.StripeClient("sk_test_retry", base_addresses={"api": fake.url}, max_network_retries=2).v1
    retrying.customers.create({"name": "once"})
    fake.faults()
    checks.equal("retried by the SDK", len(retrying.customers.list().data), 1)


def others(fake, checks):
    api = client(fake)
    disputed = api.payment_intents.create({"amount": 900, "currency": "usd", "confirm": True, "payment_method": "pm_card_createDispute", **CARD})
    fake.advance(2)
    (dispute,) = api.disputes.list({"payment_intent": disputed.id}).data
    dispute = api.disputes.update(dispute.id, {"evidence": {"uncategorized_text": "losing_evidence"}})
    checks.equal("a dispute", (dispute.status, api.disputes.retrieve(dispute.id).evidence_details.has_evidence), ("lost", True))
    kinds = [it.type for it in api.events.list({"types": ["charge.dispute.created", "charge.dispute.closed"]}).data]
    checks.equal("events by type", kinds, ["charge.dispute.closed", "charge.dispute.created"])
    (event,) = api.events.list({"type": "charge.dispute.closed"}).data
    checks.equal("an event", api.events.retrieve(event.id).data.object["id"], dispute.id)
    session = api.checkout.sessions.create({"mode": "setup", "currency": "usd", "success_url": "https://shop.example/", "metadata": {"a": "b"}})
    checks.equal("a session", api.checkout.sessions.retrieve(session.id).url, session.url)
    checks.equal("sessions", [it.id for it in api.checkout.sessions.list().data], [session.id])
    checks.equal("expired", api.checkout.sessions.expire(session.id).status, "expired")
    endpoint = api.webhook_endpoints.create({"url": "http://127.0.0.1:9/", "enabled_events": ["payment_intent.succeeded"]})
    api.webhook_endpoints.update(endpoint.id, {"disabled": True})
    checks.equal("an endpoint", api.webhook_endpoints.retrieve(endpoint.id).status, "disabled")
    checks.equal("endpoints", len(api.webhook_endpoints.list().data), 1)
    checks.equal("gone", api.webhook_endpoints.delete(endpoint.id).deleted, True)
