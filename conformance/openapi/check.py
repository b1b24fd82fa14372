"""The three tutorials, by the Python client that openapi-generator makes of /openapi.json.

Arguments: the server's URL, and the directory into which it writes mails.
"""

import glob
import quopri
import re
import sys
import time

import faregate_client as made

URL, MAILS = sys.argv[1:3]
NAME = f"python-{time.time_ns():x}"
ENVIRONMENT = {"environment": "dev"}
passed = failed = 0


def check(what, holds, found=None):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED {what}: {found}")


def client(**credentials):
    return made.ApiClient(made.Configuration(host=URL, **credentials))


def created(response):
    """The id at the end of a response's `Location`."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return headers["location"].rstrip("/").rsplit("/", 1)[1]


def tenant():
    installation = made.TenantApi(client(username="admin", password="password"))
    tenant = installation.create_tenant(made.NewTenant(apiKey=NAME))
    check("a tenant's secret is shown", len(tenant.api_secret) >= 32, tenant)
    try:
        installation.create_tenant(made.NewTenant(apiKey=NAME))
        check("a second one of its key is refused", False)
    except made.ApiException as error:
        check("a second one of its key is refused", error.status == 409, error)
    keys = {"tenantKey": NAME, "tenantSecret": tenant.api_secret}
    return client(username="admin", password="password", api_key=keys), keys


def first_payment(of_tenant):
    accounts, payments = made.AccountApi(of_tenant), made.PaymentApi(of_tenant)
    by = {"x_killbill_created_by": "generated"}
    account = created(accounts.account_create_with_http_info(
        account_request=made.AccountRequest(name="Ada", email="ada@example.com", currency="EUR"), **by))
    accounts.account_add_payment_method(
        account, payment_method_request=made.PaymentMethodRequest(pluginName="__EXTERNAL_PAYMENT__"),
        is_default=True, **by)
    payment = created(accounts.account_start_payment_with_http_info(
        account, transaction_request=made.TransactionRequest(transactionType="AUTHORIZE", amount=100),
        idempotency_key=NAME, **by))
    payments.payment_capture(payment, transaction_request=made.TransactionRequest(amount=60), **by)
    payments.payment_refund(payment, transaction_request=made.TransactionRequest(amount=15), **by)
    try:
        payments.payment_refund(payment, transaction_request=made.TransactionRequest(amount=50), **by)
        check("no more is refunded than is left", False)
    except made.ApiException as error:
        check("no more is refunded than is left", error.status == 400 and error.data.code == 7031, error)
    read = payments.payment_get(payment)
    amounts = (read.auth_amount, read.captured_amount, read.refunded_amount)
    check("the payment has its amounts", amounts == (100, 60, 15), read)
    entries = made.LedgerApi(of_tenant).ledger_entries(payment=payment)
    check("the ledger has both postings", len(entries.entries) == 2, entries)


def first_flag(of_tenant):
    flags, key = made.FeatureFlagsApi(of_tenant), "new-checkout"
    parts = lambda *parts: made.Fallthrough(variations=[
        made.RolloutVariation(id=id, rollout=[start, end]) for id, start, end in parts])
    flag = flags.create_flag(made.FlagRequest(
        key=key, variationType="boolean", disabledVariationId="off", fallthrough=parts(("on", 0, 1)),
        variations=[made.Variation(id="on", value="true"), made.Variation(id="off", value="false")]), **ENVIRONMENT)
    check("a flag is created, off", flag.is_enabled is False, flag)
    flag = flags.patch_flag(key, made.FlagPatch(
        isEnabled=True, fallthrough=parts(("on", 0, 0.1), ("off", 0.1, 1))), **ENVIRONMENT)
    check("it is rolled out", flag.is_enabled is True, flag)
    explained = flags.explain_flag(key, made.User(keyId="ann"), **ENVIRONMENT)
    check("it is explained", explained.key == key, explained)
    secrets = next(it for it in flags.environments() if it.key == "dev").secrets
    sdk = made.OFREPApi(client(api_key={"environmentSecret": secrets[0].value}))
    value = sdk.post_ofrep_v1_evaluate_flags_key(
        key, made.OfrepRequest.from_dict({"context": {"targetingKey": "ann", "plan": "gold"}}))
    check("OpenFeature's protocol has its value", value.value in (True, False), value)


def first_sign_up(of_tenant, keys):
    sign_up, email, password = made.SignUpApi(of_tenant), f"{NAME}@example.com", "Correct-Horse-7"
    registered = sign_up.sign_up_register(made.NewRegistration(
        email=email, password=password, firstName="Ada", lastName="Lovelace", acceptTerms=True))
    check("a customer registers", registered.status == "verification-sent", registered)
    sign_up.sign_up_verify(made.Token(token=mailed_token(email)))
    session = sign_up.sign_up_log_in(made.Credentials(email=email, password=password))
    customer = client(access_token=session.access_token, api_key=keys)
    for name, key in (("X-Killbill-ApiKey", "tenantKey"), ("X-Killbill-ApiSecret", "tenantSecret")):
        customer.set_default_header(name, keys[key])
    me = made.SignUpApi(customer).sign_up_me()
    check("and sees themselves", me.email == email, me)


def mailed_token(email):
    """The token of the mail to an address; mails are sent within moments."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for file in glob.glob(f"{MAILS}/*.eml"):
            text = quopri.decodestring(open(file, "rb").read()).decode()
            token = re.search(r"verify-email\?token=([\w.~-]+)", text)
            if token and email in text:
                return token[1]
        time.sleep(0.1)
    raise TimeoutError("no mail came")


of_tenant, keys = tenant()
first_payment(of_tenant)
first_flag(of_tenant)
first_sign_up(of_tenant, keys)
print(f"{passed} passed, {failed} failed")
