"""A year of subscriptions and invoices of two accounts, on the test clock: everything that can be read of them."""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "subscriptions"))
from play import tag_id  # noqa: E402
from processes import Problem  # noqa: E402
from session import Session  # noqa: E402

CATALOG = HERE.parent / "vectors" / "subscriptions" / "catalogs" / "core.xml"
FIRST_DAY = "2027-01-01"
# After what happens on these days both accounts are read.
READ_ON = {"2027-01-10", "2027-02-05", "2027-04-20", "2027-05-05", "2027-07-05", "2027-10-05", "2028-01-05"}
QUIET_WITHIN_S = 60
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# The clock goes on between two requests: minutes and less are each installation's own.
INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d):\d\d:\d\d(\.\d+)?")
# Numbers of a partition, and places in its journal.
NUMBERS = {"accountRecordId", "invoiceNumber", "journal", "next", "number", "paymentNumber", "recordId", "seq", "version"}
# Of an account: {account} is its id.
OF_ACCOUNT = [
    "/1.0/kb/accounts/{account}?accountWithBalanceAndCBA=true", "/1.0/kb/accounts/{account}/bundles?audit=FULL",
    "/1.0/kb/accounts/{account}/invoices?includeInvoiceComponents=true&includeVoidedInvoices=true&audit=FULL",
    "/1.0/kb/accounts/{account}/invoices?unpaidInvoicesOnly=true", "/1.0/kb/accounts/{account}/invoicePayments",
    "/1.0/kb/accounts/{account}/payments?withAttempts=true", "/1.0/kb/accounts/{account}/timeline?audit=MINIMAL",
    "/1.0/kb/accounts/{account}/block", "/1.0/kb/accounts/{account}/overdue", "/1.0/kb/accounts/{account}/allTags",
    "/1.0/kb/accounts/{account}/auditLogs", "/1.0/kb/accounts/{account}/auditLogsWithHistory",
    "/v1/accounts/{account}/entitlements",
]
OF_INVOICE = ["/1.0/kb/invoices/{id}?withItems=true", "/1.0/kb/invoices/{id}/payments",
              "/1.0/kb/invoices/{id}/auditLogsWithHistory", "/v1/invoices/{id}/explain"]
OF_TENANT = ["/1.0/kb/catalog", "/1.0/kb/catalog/versions", "/1.0/kb/catalog/availableBasePlans", "/v1/billing",
             "/v1/billing/forecast?to=2028-03-01", "/v1/ledger/accounts", "/v1/features", "/v1/plans/beta-monthly/features"]
# Of all accounts, in the order of partitions.
LISTS = ["/1.0/kb/accounts/pagination", "/1.0/kb/bundles/pagination", "/1.0/kb/invoices/pagination",
         "/1.0/kb/payments/pagination", "/v1/events?limit=1000"]


class Year:
    """The year, on an installation whose processes have a clock each."""

    def __init__(self, urls):
        self.session, self.clocks = Session(urls[0]), [Session(it) for it in urls]
        self.names, self.numbers, self.answers = {}, {}, []
        self.accounts, self.shown_before = {}, set()

    def play(self):
        for name in sorted(name for name in dir(self) if name.startswith("on_")):
            day = name[3:].replace("_", "-")
            self.clock(day)
            getattr(self, name)()
            # Payments are made by a gateway.
            self.wait(day)
            for account in self.accounts.values() if day in READ_ON else ():
                self.read_account(account)
        for path in OF_TENANT:
            self.read(path)
        for path in LISTS:
            self.read(path, is_ordered=False)
        return self.answers

    # Requests.

    def clock(self, day):
        """Sets all clocks, and waits until nothing is due. Accounts are made at six: what happens later is on no side of
        their time of day by chance."""
        query = {"requestedDate": f"{day}T{'06' if day == FIRST_DAY else '07'}:00:00.000Z", "timeoutSec": 0}
        for it in self.clocks:
            it.call("POST", "/1.0/kb/test/clock", query=query)
        self.wait(day)

    def wait(self, day):
        """Waits until nothing is due."""
        for it in self.clocks:
            status = it.call("GET", "/1.0/kb/test/queues", query={"timeoutSec": QUIET_WITHIN_S})[0]
            if status != 200:
                raise Problem(f"on {day} not everything that is due was done: {status}")

    def send(self, request, body=None, media="application/json", **query):
        """Sends a request that has to be accepted; the id in its Location."""
        method, path = request.split(" ")
        status, headers, found = self.session.call(method, path, body, query, media)
        if status >= 300:
            raise Problem(f"{request}: {status} {found}")
        self.note(request, status, found)
        at = next((value for name, value in headers.items() if name.lower() == "location"), "")
        return at.split("?")[0].rstrip("/").split("/")[-1]

    def read(self, path, is_ordered=True):
        status, _, found = self.session.call("GET", path)
        self.note(path, status, found, is_ordered)
        return found

    def note(self, request, status, found, is_ordered=True):
        shown = self.shown(found, is_ordered)
        if not is_ordered:
            shown = sorted(shown["events"] if isinstance(shown, dict) else shown, key=json.dumps)
        self.answers.append((self.named(request), status, json.dumps(shown, indent=1)))

    def read_account(self, account):
        for path in OF_ACCOUNT:
            self.read(path.format(account=account))
        for invoice in self.invoices(account):
            # All of them are read once more at the end.
            if invoice["invoiceId"] not in self.shown_before:
                self.shown_before.add(invoice["invoiceId"])
                for path in OF_INVOICE:
                    self.read(path.format(id=invoice["invoiceId"]))
        for bundle in self.session.get(f"/1.0/kb/accounts/{account}/bundles"):
            self.read(f"/1.0/kb/bundles/{bundle['bundleId']}/auditLogsWithHistory")
            for it in bundle["subscriptions"]:
                self.read(f"/1.0/kb/subscriptions/{it['subscriptionId']}?audit=FULL")

    def invoices(self, account):
        query = {"includeInvoiceComponents": True, "includeVoidedInvoices": True}
        found = self.session.get(f"/1.0/kb/accounts/{account}/invoices", query)
        return sorted(found, key=lambda it: int(it["invoiceNumber"]))

    def subscription(self, account, plan):
        for bundle in self.session.get(f"/1.0/kb/accounts/{account}/bundles"):
            for it in bundle["subscriptions"]:
                if it["planName"] == plan:
                    return it["subscriptionId"], bundle["bundleId"]
        raise Problem(f"there is no subscription to {plan}")

    # An answer without what differs between two installations.

    def shown(self, value, is_ordered, key=None):
        """Ids and numbers by the order in which they come; in lists without an order those that did not come before are
        all the same."""
        if isinstance(value, dict):
            return {self.named(name): self.shown(it, is_ordered, name) for name, it in value.items()}
        if isinstance(value, list):
            # Items of an invoice come by their ids, which are drawn.
            if key == "items":
                value = sorted(value, key=lambda it: INSTANT.sub("", UUID.sub("", json.dumps(it))))
            return [self.shown(it, is_ordered, key) for it in value]
        if key in NUMBERS and value is not None:
            return self.numbers.setdefault((key, value), f"{key} {len(self.numbers)}") if is_ordered else "a number"
        return self.named(value, is_ordered) if isinstance(value, str) else value

    def named(self, text, is_ordered=True):
        def name(found):
            if is_ordered:
                self.names.setdefault(found[0], f"id {len(self.names)}")
            return self.names.get(found[0], "another id")

        text = INSTANT.sub(r"\1", UUID.sub(name, text))
        return text.replace(self.session.key, "tenant").replace(self.session.address, "server")

    # What happens.

    def account(self, name, gateway, **more):
        body = {"name": name, "externalKey": name, "currency": "USD", **more}
        self.accounts[name] = account = self.send("POST /1.0/kb/accounts", body)
        method = {"pluginName": gateway, "externalKey": f"{name}-method", "pluginInfo": {}}
        self.send(f"POST /1.0/kb/accounts/{account}/paymentMethods", method, isDefault=True)
        return account

    def subscribe(self, account, plan, **more):
        return self.send("POST /1.0/kb/subscriptions", {"accountId": account, "planName": plan, **more})

    def on_2027_01_01(self):
        self.send("POST /1.0/kb/catalog/xml", CATALOG.read_text(), media="text/xml")
        self.send("PUT /v1/features/reports", {"name": "Reports", "kind": "switch"})
        self.send("PUT /v1/features/seats", {"name": "Seats", "kind": "limit", "unit": "seats"})
        features = {"reports": {"value": True, "from": "paid"}, "seats": {"value": 5, "timesQuantity": True}}
        self.send("PUT /v1/plans/beta-monthly/features", {"features": features})
        ada = self.account("ada", "faregate-simulator")
        bob = self.account("bob", "__EXTERNAL_PAYMENT__", timeZone="Europe/Berlin")
        self.subscribe(ada, "alpha-trial-monthly")
        self.subscribe(bob, "alpha-annual")
        self.subscribe(bob, "kit-monthly")

    def on_2027_01_10(self):
        ada = self.accounts["ada"]
        self.subscribe(ada, "boost-monthly", bundleId=self.subscription(ada, "alpha-trial-monthly")[1])

    def on_2027_02_05(self):
        of = self.subscription(self.accounts["ada"], "alpha-trial-monthly")[0]
        self.send(f"PUT /1.0/kb/subscriptions/{of}", {"planName": "beta-monthly"}, billingPolicy="IMMEDIATE")
        self.send(f"PUT /1.0/kb/subscriptions/{of}/quantity", {"quantity": 3})

    def on_2027_03_05(self):
        bob = self.accounts["bob"]
        item = {"accountId": bob, "amount": 12.34, "currency": "USD", "description": "by hand"}
        self.send(f"POST /1.0/kb/invoices/charges/{bob}", [item], autoCommit=True)
        self.send("POST /1.0/kb/credits", [item | {"amount": 50, "description": "sorry"}], autoCommit=True)

    def on_2027_04_05(self):
        self.send(f"PUT /1.0/kb/bundles/{self.subscription(self.accounts['ada'], 'beta-monthly')[1]}/pause")

    def on_2027_04_20(self):
        self.send(f"PUT /1.0/kb/bundles/{self.subscription(self.accounts['ada'], 'beta-monthly')[1]}/resume")

    def on_2027_05_05(self):
        of = self.subscription(self.accounts["bob"], "alpha-annual")[0]
        self.send(f"PUT /1.0/kb/subscriptions/{of}", {"planName": "alpha-monthly"}, billingPolicy="IMMEDIATE")

    def on_2027_05_20(self):
        self.send(f"POST /1.0/kb/accounts/{self.accounts['ada']}/tags", [tag_id("AUTO_PAY_OFF")])

    def on_2027_07_05(self):
        ada = self.accounts["ada"]
        unpaid = [it for it in self.invoices(ada) if it["balance"] > 0]
        body = {"accountId": ada, "targetInvoiceId": unpaid[0]["invoiceId"], "purchasedAmount": 5}
        self.send(f"POST /1.0/kb/invoices/{unpaid[0]['invoiceId']}/payments", body, externalPayment=True)
        self.send(f"PUT /1.0/kb/invoices/{unpaid[-1]['invoiceId']}/voidInvoice")

    def on_2027_07_20(self):
        self.send(f"DELETE /1.0/kb/accounts/{self.accounts['ada']}/tags", tagDef=tag_id("AUTO_PAY_OFF"))
        self.clock("2027-07-21")

    def on_2027_08_05(self):
        ada = self.accounts["ada"]
        add_on = self.subscription(ada, "boost-monthly")[0]
        self.send(f"DELETE /1.0/kb/subscriptions/{add_on}", entitlementPolicy="END_OF_TERM", billingPolicy="END_OF_TERM")
        paid = next(it for it in reversed(self.invoices(ada)) if it["amount"] > 5 and it["status"] == "COMMITTED")
        recurring = [it for it in paid["items"] if it["itemType"] == "RECURRING"]
        item = max(recurring, key=lambda it: (it["amount"], it["startDate"]))
        body = {"accountId": ada, "invoiceItemId": item["invoiceItemId"], "currency": "USD", "amount": 1.5}
        self.send(f"POST /1.0/kb/invoices/{paid['invoiceId']}", body)

    def on_2027_09_20(self):
        self.send("POST /1.0/kb/invoices/dryRun", {"dryRunType": "UPCOMING_INVOICE"}, accountId=self.accounts["ada"])

    def on_2027_10_05(self):
        kit = self.subscription(self.accounts["bob"], "kit-monthly")[0]
        self.send(f"DELETE /1.0/kb/subscriptions/{kit}", entitlementPolicy="IMMEDIATE", billingPolicy="IMMEDIATE")

    def on_2027_11_15(self):
        of = self.subscription(self.accounts["bob"], "alpha-monthly")[0]
        self.send(f"DELETE /1.0/kb/subscriptions/{of}", entitlementPolicy="IMMEDIATE", billingPolicy="IMMEDIATE")

    def on_2028_01_05(self):
        self.shown_before.clear()
