"""Drives a running server through Python's gRPC, with code generated from our protos.

    python check.py HTTP_URL HOST:PORT
"""

import json
import pathlib
import sys
import urllib.request
import uuid

import grpc
from grpc_status import rpc_status
from google.rpc import error_details_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import grpc_stubs  # noqa: E402

EXTERNAL = "__EXTERNAL_PAYMENT__"
SIMULATOR = "faregate-simulator"


grpc_stubs.generate()

from faregate.v1 import account_service_pb2 as accounts_pb  # noqa: E402
from faregate.v1 import account_service_pb2_grpc as accounts_rpc  # noqa: E402
from faregate.v1 import balance_service_pb2 as balances_pb  # noqa: E402
from faregate.v1 import balance_service_pb2_grpc as balances_rpc  # noqa: E402
from faregate.v1 import entitlement_service_pb2 as entitlements_pb  # noqa: E402
from faregate.v1 import entitlement_service_pb2_grpc as entitlements_rpc  # noqa: E402
from faregate.v1 import flag_service_pb2 as flags_pb  # noqa: E402
from faregate.v1 import flag_service_pb2_grpc as flags_rpc  # noqa: E402
from faregate.v1 import money_pb2, payment_pb2, property_pb2  # noqa: E402
from faregate.v1 import payment_service_pb2 as payments_pb  # noqa: E402
from faregate.v1 import payment_service_pb2_grpc as payments_rpc  # noqa: E402

http_url, target = sys.argv[1:]
run = uuid.uuid4().hex[:8]
tenant = f"grpc-{run}"
metadata = grpc_stubs.credentials(tenant, "secret")
channel = grpc.insecure_channel(target)
payments = payments_rpc.PaymentServiceStub(channel)
balances = balances_rpc.BalanceServiceStub(channel)
accounts = accounts_rpc.AccountServiceStub(channel)
entitlements = entitlements_rpc.EntitlementServiceStub(channel)
flags = flags_rpc.FlagServiceStub(channel)
counts = {"passed": 0, "failed": 0}


def step(check):
    try:
        check()
        counts["passed"] += 1
        print(f"passed  {check.__name__}")
    except Exception as error:  # one that fails does not hide the others
        counts["failed"] += 1
        print(f"FAILED  {check.__name__}: {type(error).__name__}: {error}")


def http(method, path, body=None):
    headers = {"Authorization": metadata[0][1], "X-Killbill-CreatedBy": "python", "Content-Type": "application/json"}
    headers |= {"X-Killbill-ApiKey": tenant, "X-Killbill-ApiSecret": "secret"}
    body = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(http_url + path, body, headers, method=method)
    return urllib.request.urlopen(request, timeout=10).read()


def make_tenant():
    http("POST", "/1.0/kb/tenants", {"apiKey": tenant, "apiSecret": "secret"})


def make_flag():
    """A flag that is on for everybody; the metadata that opens its environment."""
    everybody = [{"id": "on", "rollout": [0, 1], "exptRollout": 1}]
    variations = [{"id": "on", "value": "true"}, {"id": "off", "value": "false"}]
    flag = {"key": "dark-mode", "name": "Dark mode", "variationType": "boolean", "variations": variations}
    flag |= {"isEnabled": True, "disabledVariationId": "off", "fallthrough": {"variations": everybody}}
    http("POST", "/v1/environments/dev/import", {"featureFlags": [flag]})
    secrets = json.loads(http("GET", "/v1/environments"))[0]["secrets"]
    return [("x-api-key", next(it["value"] for it in secrets if it["type"] == "server"))]


def usd(minor_units):
    return money_pb2.Money(minor_units=minor_units, currency_code="USD")


def account(gateway):
    made = accounts.Create(accounts_pb.AccountServiceCreateRequest(currency_code="USD"), metadata=metadata)
    method = accounts_pb.AddPaymentMethodRequest(account_id=made.account_id, gateway=gateway, is_default=True)
    accounts.AddPaymentMethod(method, metadata=metadata)
    return made.account_id


def pay(account_id, minor_units=1000, extra=(), timeout=None, **more):
    request = payments_pb.PayRequest(account_id=account_id, amount=usd(minor_units), **more)
    return payments.Pay(request, metadata=[*metadata, *extra], timeout=timeout).outcome


def refused(call):
    """The error's code, its reason, and the fields that it names."""
    try:
        call()
    except grpc.RpcError as error:
        reason, fields = None, []
        status = rpc_status.from_call(error)
        for detail in status.details if status else []:
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                assert info.domain == "faregate", info.domain
                reason = info.reason
            elif detail.Unpack(bad):
                fields = [it.field for it in bad.field_violations]
        return error.code(), reason, fields
    raise AssertionError("was not refused")


def equal(found, expected):
    assert found == expected, f"{found!r} instead of {expected!r}"


def a_payment_is_in_the_balance():
    paid = pay(account_id := account(EXTERNAL))
    equal(paid.status, payment_pb2.TRANSACTION_STATUS_SUCCESS)
    answer = balances.GetBalance(balances_pb.GetBalanceRequest(account_id=account_id), metadata=metadata)
    equal([(it.currency_code, it.balance_minor_units) for it in answer.balances], [("USD", -1000)])


def authorize_capture_refund_void():
    account_id = account(EXTERNAL)
    start = payments_pb.AuthorizeRequest(account_id=account_id, amount=usd(500), payment_key=f"order-{run}")
    payment_id = payments.Authorize(start, metadata=metadata).outcome.payment_id
    payments.Capture(payments_pb.CaptureRequest(payment_id=payment_id, amount=usd(200)), metadata=metadata)
    payments.Refund(payments_pb.RefundRequest(payment_id=payment_id, amount=usd(50)), metadata=metadata)
    asked = payments_pb.PaymentServiceGetByKeyRequest(payment_key=f"order-{run}")
    payment = payments.GetByKey(asked, metadata=metadata).payment
    equal(payment.id, payment_id)
    equal((payment.amounts.captured_minor_units, payment.amounts.refunded_minor_units), (200, 50))
    equal(len(payment.transactions), 3)
    other = payments.Authorize(payments_pb.AuthorizeRequest(account_id=account_id, amount=usd(7)), metadata=metadata)
    gone = payments.Void(payments_pb.VoidRequest(payment_id=other.outcome.payment_id), metadata=metadata)
    equal(gone.outcome.status, payment_pb2.TRANSACTION_STATUS_SUCCESS)


def a_decline_is_an_answer():
    wishes = {"outcome": "ERROR", "errorCode": "51", "errorMessage": "no money"}
    wishes = [property_pb2.Property(key=key, value=value) for key, value in wishes.items()]
    declined = pay(account(SIMULATOR), properties=wishes)
    equal(declined.status, payment_pb2.TRANSACTION_STATUS_PAYMENT_FAILURE)
    equal((declined.gateway_error_code, declined.gateway_error_message), ("51", "no money"))


def a_repeated_call_has_the_same_answer():
    account_id, key = account(EXTERNAL), [("idempotency-key", f"once-{run}")]
    first = pay(account_id, extra=key)
    equal(pay(account_id, extra=key), first)
    code, reason, _ = refused(lambda: pay(account_id, 1001, extra=key))
    equal((code, reason), (grpc.StatusCode.FAILED_PRECONDITION, "IDEMPOTENCY_KEY_REUSED"))


def pages():
    account_id = account(EXTERNAL)
    made, seen, token = [pay(account_id, amount).payment_id for amount in (1, 2, 3)], [], ""
    while True:
        asked = payments_pb.PaymentServiceListRequest(account_id=account_id, page_size=2, page_token=token)
        page = payments.List(asked, metadata=metadata)
        seen += [it.id for it in page.payments]
        token = page.next_page_token
        if not token:
            break
    # In the order of their ids, which within a millisecond is any.
    equal(seen, sorted(made))


def errors_have_details():
    code, _, fields = refused(lambda: pay(account(EXTERNAL), -5))
    equal((code, fields), (grpc.StatusCode.INVALID_ARGUMENT, ["amount.minor_units"]))
    code, reason, _ = refused(lambda: pay("0192aabb-ccdd-7123-9456-789abcdef012"))
    equal((code, reason), (grpc.StatusCode.NOT_FOUND, "ACCOUNT_NOT_FOUND"))
    anonymous = lambda: payments.Pay(payments_pb.PayRequest())  # noqa: E731
    equal(refused(anonymous)[:2], (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_MISSING"))


def a_deadline_is_kept():
    slow = [property_pb2.Property(key="delayMs", value="5000")]
    code, _, _ = refused(lambda: pay(account(SIMULATOR), timeout=0.3, properties=slow))
    equal(code, grpc.StatusCode.DEADLINE_EXCEEDED)


def values(message):
    return {it.key: getattr(it, it.WhichOneof("value")) for it in message.flags}


def flags_are_evaluated_and_followed():
    secret, user = make_flag(), flags_pb.FlagUser(key="ada", attributes={"plan": "pro"})
    watching = flags.Watch(flags_pb.WatchRequest(user=user), metadata=secret, timeout=30)
    message = next(watching)
    equal(message.is_full, True)
    while "dark-mode" not in values(message):  # a change arrives a moment after its commit
        message = next(watching)
    equal(values(message), {"dark-mode": True})
    equal(values(flags.Evaluate(flags_pb.EvaluateRequest(user=user), metadata=secret)), {"dark-mode": True})
    http("PATCH", "/v1/flags/dark-mode?environment=dev", {"isEnabled": False})
    message = next(watching)
    equal((message.is_full, values(message), message.flags[0].reason), (False, {"dark-mode": False}, "flag disabled"))
    http("DELETE", "/v1/flags/dark-mode?environment=dev")
    equal(list(next(watching).removed_keys), ["dark-mode"])
    watching.cancel()


def flags_need_a_secret():
    ask = lambda secret: flags.Evaluate(flags_pb.EvaluateRequest(), metadata=secret)  # noqa: E731
    equal(refused(lambda: ask(metadata))[:2], (grpc.StatusCode.UNAUTHENTICATED, "SECRET_WRONG"))
    code, _, fields = refused(lambda: ask(make_flag()))
    equal((code, fields), (grpc.StatusCode.INVALID_ARGUMENT, ["user.key"]))


def entitlements_are_read_watched_and_reserved():
    account_id, limit = account(EXTERNAL), {"name": "Calls", "kind": "limit", "unit": "calls"}
    http("PUT", "/v1/features/calls", limit)
    watching = entitlements.Watch(
        entitlements_pb.EntitlementServiceWatchRequest(account_id=account_id), metadata=metadata, timeout=30)
    equal(next(watching).entitlements.version, 0)
    granted = {"feature": "calls", "value": 5, "reason": "test"}
    http("POST", f"/v1/accounts/{account_id}/grants", granted)
    document = next(watching).entitlements
    equal((document.version, document.features[0].value.limit), (1, 5))
    asked = entitlements_pb.EntitlementServiceGetRequest(account_id=account_id)
    equal(entitlements.Get(asked, metadata=metadata).entitlements.version, 1)
    watching.cancel()
    ask = entitlements_pb.ReserveRequest(account_id=account_id, feature="calls", quantity=4)
    ask.ttl.FromSeconds(60)
    reserved = entitlements.Reserve(ask, metadata=metadata)
    equal(reserved.usage.left, 1)
    code, reason, fields = refused(lambda: entitlements.Reserve(ask, metadata=metadata))
    equal((code, reason, fields), (grpc.StatusCode.FAILED_PRECONDITION, "LIMIT_REACHED", ["quantity"]))
    of = {"account_id": account_id, "reservation_id": reserved.reservation_id}
    equal(entitlements.Confirm(entitlements_pb.ConfirmRequest(quantity=1, **of), metadata=metadata).usage.left, 4)
    code, reason, _ = refused(lambda: entitlements.Release(entitlements_pb.ReleaseRequest(**of), metadata=metadata))
    equal((code, reason), (grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_ENDED"))
    check = entitlements_pb.CheckRequest(account_id=account_id, feature="calls")
    checked = entitlements.Check(check, metadata=metadata)
    equal((checked.allowed, checked.reason, checked.usage.used), (True, entitlements_pb.CHECK_REASON_GRANTED, 1))


make_tenant()
step(a_payment_is_in_the_balance)
step(authorize_capture_refund_void)
step(a_decline_is_an_answer)
step(a_repeated_call_has_the_same_answer)
step(pages)
step(errors_have_details)
step(a_deadline_is_kept)
step(entitlements_are_read_watched_and_reserved)
step(flags_are_evaluated_and_followed)
step(flags_need_a_secret)
print(f"{counts['passed']} passed, {counts['failed']} failed")
