"""The requests behind the pages of Kaui, Kill Bill's user interface for operators: each is answered.

  python3 conformance/kaui URL

URL is a server with a test clock. Makes an account with a subscription, an invoice, a payment, tags and fields, and
sends the reads of `READS` and the writes of `WRITES`, in their order. A line of those that begins with `-` is not built
yet and has to answer 501. Prints a line for each failure, at last `N passed, M failed`.
"""

import json
import os
import sys
import urllib.parse
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "saasodoo"))
import catalog  # noqa: E402
from session import Session  # noqa: E402

READS = """
accounts/pagination?offset=0&limit=10&accountWithBalance=false&accountWithBalanceAndCBA=false&audit=NONE
accounts/search/Ada?offset=0&limit=10&accountWithBalance=true&audit=NONE
accounts/{account}?accountWithBalance=false&accountWithBalanceAndCBA=true&audit=NONE
accounts?externalKey={key}&accountWithBalance=true&accountWithBalanceAndCBA=true
accounts/{account}/tags?includedDeleted=false&audit=NONE
accounts/{account}/allTags?objectType=INVOICE&includedDeleted=false&audit=NONE
accounts/{account}/emails?audit=NONE
accounts/{account}/overdue
accounts/{account}/paymentMethods?withPluginInfo=true
accounts/{account}/children?accountWithBalance=false&accountWithBalanceAndCBA=false&audit=NONE
accounts/{account}/customFields?audit=NONE
accounts/{account}/allCustomFields?objectType=INVOICE&audit=NONE
accounts/{account}/timeline?audit=MINIMAL
accounts/{account}/bundles?audit=NONE
accounts/{account}/bundles/pagination?offset=0&limit=10&audit=NONE
accounts/{account}/invoices?unpaidInvoicesOnly=false&withItems=false&includeVoidedInvoices=true&audit=NONE
accounts/{account}/invoices/pagination?offset=0&limit=10&audit=NONE
accounts/{account}/payments?withAttempts=true&withPluginInfo=false&audit=NONE
accounts/{account}/invoicePayments?withPluginInfo=true&withAttempts=true
accounts/{account}/block?blockingStateTypes=ACCOUNT&blockingStateTypes=SUBSCRIPTION_BUNDLE&audit=NONE
accounts/{account}/auditLogs
accounts/{account}/auditLogsWithHistory
invoices/pagination?offset=0&limit=10&audit=NONE
invoices/search/{invoiceNumber}?offset=0&limit=10
invoices/byNumber/{invoiceNumber}?withItems=true
invoices/byItemId/{item}?withChildrenItems=false&audit=NONE
invoices/{invoice}?withItems=true&withChildrenItems=false&audit=FULL
invoices/{invoice}/payments?withPluginInfo=false&withAttempts=true&audit=NONE
invoices/{invoice}/tags?includedDeleted=false&audit=NONE
invoices/{invoice}/customFields?audit=NONE
invoices/{invoice}/auditLogsWithHistory
invoiceItems/{item}/tags?accountId={account}&includedDeleted=false&audit=NONE
invoiceItems/{item}/customFields?audit=NONE
invoiceItems/{item}/auditLogsWithHistory
- invoices/{invoice}/html
payments/pagination?offset=0&limit=10&withPluginInfo=false&withAttempts=false&audit=NONE
payments/search/{payment}?offset=0&limit=10
payments/{payment}?withPluginInfo=true&withAttempts=true&audit=FULL
payments/{payment}/tags
payments/{payment}/customFields
payments/{payment}/auditLogsWithHistory
invoicePayments/{payment}?withPluginInfo=true&withAttempts=true
- invoicePayments/{payment}/tags
- invoicePayments/{payment}/customFields
paymentTransactions/{transaction}?withPluginInfo=true
paymentTransactions/{transaction}/auditLogsWithHistory
paymentMethods/{method}?withPluginInfo=true
bundles/{bundle}?audit=NONE
bundles?externalKey={key}&includedDeleted=true
bundles/{bundle}/tags?includedDeleted=false
bundles/{bundle}/customFields
bundles/{bundle}/auditLogsWithHistory
subscriptions/{subscription}?audit=FULL
subscriptions/{subscription}/tags
subscriptions/{subscription}/customFields
subscriptions/events/{event}/auditLogsWithHistory
catalog?requestedDate=2026-12-01
catalog?accountId={account}
catalog/versions?accountId={account}
catalog/availableBasePlans?accountId={account}
catalog/availableAddons?baseProductName=basic&priceListName=DEFAULT&accountId={account}
overdue
tenants/uploadPerTenantConfig
tagDefinitions?audit=NONE
tags/pagination?offset=0&limit=10
tags/search/blue?offset=0&limit=10
customFields/pagination?offset=0&limit=10
customFields/search/size?offset=0&limit=10
security/permissions
security/subject
nodesInfo
pluginsInfo
test/clock
"""

WRITES = """
POST invoices/dryRun?accountId={account} {{"dryRunType": "UPCOMING_INVOICE"}}
POST invoices?accountId={account}&targetDate={soon}
POST invoices/charges/{account}?autoCommit=true [{{"accountId": "{account}", "amount": 5, "currency": "USD"}}]
POST credits?autoCommit=true [{{"accountId": "{account}", "amount": 1, "currency": "USD", "description": "x"}}]
POST invoices/{invoice} {{"accountId": "{account}", "invoiceItemId": "{item}", "amount": 1, "currency": "USD"}}
POST accounts/{account}/invoicePayments?externalPayment=true
POST subscriptions/{subscription}/tags ["{definition}"]
POST invoices/{invoice}/tags ["{definition}"]
PUT subscriptions/{subscription}?billingPolicy=IMMEDIATE {{"planName": "standard-monthly"}}
PUT subscriptions/{subscription}/bcd?forceNewBcdWithPastEffectiveDate=false {{"billCycleDayLocal": 15}}
PUT bundles/{bundle}/renameKey {{"externalKey": "{key}-renamed"}}
PUT bundles/{bundle}/pause
PUT bundles/{bundle}/resume
PUT accounts/{account}/cbaRebalancing
PUT accounts/{account}/paymentMethods/{method}/setDefault?payAllUnpaidInvoices=false
PUT accounts/{account}/paymentMethods/refresh
DELETE subscriptions/{subscription}?entitlementPolicy=END_OF_TERM&billingPolicy=END_OF_TERM
PUT subscriptions/{subscription}/uncancel
- POST invoicePayments/{payment}/refunds {{"amount": 1}}
- POST invoicePayments/{payment}/chargebacks {{"amount": 1, "currency": "USD"}}
DELETE accounts/{child}?cancelAllSubscriptions=true&writeOffUnpaidInvoices=false&itemAdjustUnpaidInvoices=false
"""


def world(session, key):
    """An account with one of each; the names and ids that the lines have in braces."""
    made = lambda path, body, status=201: session.made(f"/1.0/kb/{path}", body, status)
    session.call("POST", "/1.0/kb/tenants", {"apiKey": key, "apiSecret": key})
    stored = session.call("POST", "/1.0/kb/catalog/xml", catalog.text(), "text/xml")
    assert stored[0] == 201, stored
    account = made("accounts", {"name": "Ada", "currency": "USD", "externalKey": key})
    of = {"account": account, "key": key, "child": made("accounts", {"parentAccountId": account, "currency": "USD"})}
    method = {"pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {}}
    of["method"] = made(f"accounts/{account}/paymentMethods?isDefault=true", method)
    wanted = {"accountId": account, "planName": "basic-immediate", "bundleExternalKey": key}
    of["subscription"] = made("subscriptions", wanted)
    shown = session.get(f"/1.0/kb/subscriptions/{of['subscription']}")
    of |= {"bundle": shown["bundleId"], "event": shown["events"][0]["eventId"]}
    invoice = session.get(f"/1.0/kb/accounts/{account}/invoices?includeInvoiceComponents=true")[0]
    of |= {name: invoice[field] for name, field in (("invoice", "invoiceId"), ("invoiceNumber", "invoiceNumber"))}
    of |= {"item": invoice["items"][0]["invoiceItemId"], "soon": invoice["items"][0]["endDate"]}
    payment = session.get(f"/1.0/kb/accounts/{account}/payments")[0]
    of |= {"payment": payment["paymentId"], "transaction": payment["transactions"][0]["transactionId"]}
    types = ["ACCOUNT", "INVOICE", "SUBSCRIPTION"]
    definition = {"name": "blue", "description": "blue", "applicableObjectTypes": types}
    of["definition"] = made("tagDefinitions", definition)
    made(f"accounts/{account}/tags", [of["definition"]])
    made(f"accounts/{account}/customFields", [{"name": "size", "value": "XL"}])
    return of


def requests():
    """Each request as whether it is built, its method, its target and its body."""
    for text in READS.strip().splitlines():
        yield not text.startswith("-"), "GET", text.removeprefix("- "), ""
    for text in WRITES.strip().splitlines():
        method, target, *body = text.removeprefix("- ").split(" ", 2)
        yield not text.startswith("-"), method, target, body[0] if body else ""


def main():
    key = "kaui-" + uuid.uuid4().hex[:8]
    session = Session(sys.argv[1], key)
    of = world(session, key)
    passed = failed = 0
    for is_built, method, target, body in requests():
        target = target.format(**{name: urllib.parse.quote(value) for name, value in of.items()})
        body = json.loads(body.format(**of)) if body else None
        status, _, answer = session.call(method, f"/1.0/kb/{target}", body)
        is_right = status < 300 if is_built else status == 501
        # Of what there is one, no list is empty.
        is_right = is_right and not (answer == [] and "pagination" in target)
        passed += is_right
        failed += not is_right
        if not is_right:
            print(f"FAILED {method} {target}: {status} {json.dumps(answer)[:200]}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
