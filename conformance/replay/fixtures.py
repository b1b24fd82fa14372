"""Makes what the recordings build on: their setup calls were not recorded.

A variable that no answer has set yet tells by its name and its place what it has to be:
`${account3jpy}` is an account in JPY, the `${uuid8}` of a refund is a payment that can be refunded.
"""

import re

from session import id_in

EXTERNAL = "__EXTERNAL_PAYMENT__"
TEST = "killbill-payment-test"

# Files whose accounts pay through the plugin whose failures can be configured.
TEST_PLUGIN_FILES = {
    "payment_outcome", "payment_pending", "payment_keys", "chargeback", "system", "own_keys", "own_idempotency",
}
TEST_PLUGIN_ACCOUNTS = {"account2r"}
PENDING = "pluginProperty=ACTION_RETURN_PLUGIN_STATUS_PENDING%3D%2A"
ERROR = "pluginProperty=ACTION_RETURN_PLUGIN_STATUS_ERROR%3D%2A"


def begin(session):
    """Makes the file's tenant and what its first recording finds."""
    if session.name == "tenant":
        return
    add_tenant(session, f"{session.name}-{session.run}")
    session.tenant = (f"{session.name}-{session.run}", "secret")
    if session.name == "auth":
        add_tenant(session, "t1")
    if session.name in ("payment_read", "audit"):
        payments_to_read(session)


def before(session, exchange, receiver):
    """Makes what one recording needs."""
    name = exchange["id"]
    if name == "tenant.kv-get-none":
        # The first recordings of this file were made without a tenant.
        session.tenant = ("t1", "secret")
    if name == "payment_method.delete-default-autopayoff":
        account = session.variables.values["pmacc1"]
        session.variables.values["pm4"] = add_method(session, account, EXTERNAL)
    if name == "push.complete":
        account = session.variables.values["account1"]
        payment = add_payment(session, account, "PURCHASE", 5, query=f"?{PENDING}")
        session.variables.values["payment4"] = payment
        session.must("GET", "/1.0/kb/test/queues?timeoutSec=20", status=200)
        receiver.take()
    request = exchange.get("request")
    if not request:
        return
    other = request.get("headers", {}).get("X-Killbill-ApiKey")
    if other and exchange["response"]["status"] != 401:
        add_tenant(session, other)
    for variable in session.variables.unbound(request["path"]):
        invent(session, variable, request)


def after(session, exchange):
    """Learns what the recorder learnt between two recordings."""
    letter = re.fullmatch(r"payment_pending\.([a-z])", exchange["id"])
    if letter:
        payment = session.must("GET", f"/1.0/kb/payments?externalKey=p-{letter[1]}", status=200).body
        session.variables.values[f"payment_{letter[1]}"] = payment["paymentId"]
        transaction = payment["transactions"][0]["transactionId"]
        session.variables.values[f"transaction_{letter[1]}"] = transaction


def invent(session, variable, request):
    """Makes what an unset variable in a path stands for, as far as the path tells."""
    path, method = request["path"], request["method"]
    if re.match(r"(pm)?acc(ount)?\d", variable) and not variable.endswith("_pm"):
        add_account(session, variable)
    elif f"/payments/${{{variable}}}" in path:
        refund = "/refunds" in path or "/chargebacks" in path
        kind = "PURCHASE" if refund else "AUTHORIZE"
        if method in ("POST", "DELETE"):
            session.variables.values[variable] = add_payment(session, default_account(session), kind, 10)


def default_account(session):
    """The account that the file's recordings pay from."""
    values = session.variables.values
    names = [name for name in values if re.match(r"account1", name) and not name.endswith("_pm")]
    return values[names[0]]


def payments_to_read(session):
    """An authorization captured in part, and a purchase that failed, on two accounts."""
    values = session.variables.values
    first = add_account(session, "account1r")
    payment = add_payment(session, first, "AUTHORIZE", 10, keys=("r1", "r1-a"))
    capture = {"amount": 4, "transactionExternalKey": "r1-c"}
    session.must("POST", f"/1.0/kb/payments/{payment}", capture)
    second = add_account(session, "account2r")
    failed = add_payment(session, second, "PURCHASE", 6, keys=("r2", "r2-p"), query=f"?{ERROR}", status=402)
    if session.name == "audit":
        headers = {"X-Killbill-Reason": "r", "X-Killbill-Comment": "c"}
        session.must("PUT", f"/1.0/kb/accounts/{first}", {"name": "Zed"}, 204, headers)
    for at, made in enumerate((payment, failed), 1):
        values[f"payment{at}"] = made
    transactions = session.must("GET", f"/1.0/kb/payments/{payment}", status=200).body["transactions"]
    values["transaction1"] = transactions[0]["transactionId"]
    values["transaction2"] = transactions[1]["transactionId"]


def add_tenant(session, api_key):
    """A tenant with this key and the secret `secret`; one that is there already will do."""
    if api_key in session.known_tenants:
        return
    session.known_tenants.add(api_key)
    body = {"apiKey": api_key, "apiSecret": "secret", "externalKey": api_key}
    answer = session.send({"method": "POST", "path": "/1.0/kb/tenants", "body": body})
    if answer.status not in (201, 409):
        session.must("POST", "/1.0/kb/tenants", body)


def add_account(session, name):
    """The account of this name with a default payment method, unless its name says otherwise."""
    body = {"name": name, "externalKey": name, "currency": "USD"}
    if "jpy" in name:
        body["currency"] = "JPY"
    if "nocurrency" in name:
        del body["currency"]
    answer = session.must("POST", "/1.0/kb/accounts", body)
    account = id_in(answer.headers["location"])
    session.variables.values[name] = account
    bare = "nopm" in name or "nocurrency" in name or name.startswith("pmacc") or session.name == "auth"
    if not bare:
        test = session.name in TEST_PLUGIN_FILES or name in TEST_PLUGIN_ACCOUNTS
        method = add_method(session, account, TEST if test else EXTERNAL)
        session.variables.values[f"{name}_pm"] = method
    return account


def add_method(session, account, plugin):
    """A default payment method."""
    path = f"/1.0/kb/accounts/{account}/paymentMethods?isDefault=true"
    answer = session.must("POST", path, {"pluginName": plugin, "pluginInfo": {}})
    return id_in(answer.headers["location"])


def add_payment(session, account, kind, amount, keys=None, query="", status=201):
    """A payment of the account's currency."""
    body = {"transactionType": kind, "amount": amount}
    if keys:
        body["paymentExternalKey"], body["transactionExternalKey"] = keys
    answer = session.must("POST", f"/1.0/kb/accounts/{account}/payments{query}", body, status)
    return id_in(answer.headers["location"])
