"""Drives a running server through the Python client of Kill Bill's API on PyPI, unchanged."""

import sys
import uuid

from killbill import Header, KillBillClient
from killbill.enums import Audit, BillingPolicy, BlockingStateType, EntitlementPolicy, ProductCategory, SystemTags
from killbill.enums import TransactionType, TrialTimeUnit
from killbill.exceptions import AuthError, BadRequestError, KillBillError, NotFoundError

CLEAR = "__KILLBILL__CLEAR__OVERDUE_STATE__"
# `requests` sends it in ISO-8859-1.
AUTHOR = "Jürgen Müller"
CATALOG = """<?xml version="1.0" encoding="UTF-8"?><catalog><effectiveDate>2020-01-01T00:00:00+00:00</effectiveDate>
<catalogName>python</catalogName><recurringBillingMode>IN_ADVANCE</recurringBillingMode>
<currencies><currency>USD</currency></currencies><units/><products>
<product name="Small"><category>BASE</category><available><addonProduct>Extra</addonProduct></available></product>
<product name="Extra"><category>ADD_ON</category></product></products><rules>
<changePolicy><changePolicyCase><policy>IMMEDIATE</policy></changePolicyCase></changePolicy>
<cancelPolicy><cancelPolicyCase><policy>END_OF_TERM</policy></cancelPolicyCase></cancelPolicy></rules>
<plans>{plans}</plans><priceLists><defaultPriceList name="DEFAULT"><plans><plan>small</plan><plan>extra</plan></plans>
</defaultPriceList></priceLists></catalog>"""
PLAN = """<plan name="{name}"><product>{product}</product><finalPhase type="EVERGREEN">
<duration><unit>UNLIMITED</unit></duration><recurring><billingPeriod>MONTHLY</billingPeriod><recurringPrice><price>
<currency>USD</currency><value>{price}</value></price></recurringPrice></recurring></finalPhase></plan>"""
PLANS = PLAN.format(name="small", product="Small", price="10") + PLAN.format(name="extra", product="Extra", price="3")


class Check:
    """One tenant with its accounts, through the client."""

    def __init__(self, url):
        self.run = uuid.uuid4().hex[:8]
        self.client = KillBillClient("admin", "password", url)
        self.url = url
        self.header = Header(f"python-{self.run}", "secret", AUTHOR, "check", "of the client")
        self.account = self.subscriber = self.bundle = self.subscription = None
        self.counts = {"passed": 0, "failed": 0}

    def steps(self):
        """The steps in their order; each builds on those before."""
        return [
            self.create, self.read, self.update, self.tags, self.methods, self.payments, self.pages,
            self.errors, self.configuration, self.overdue, self.delete, self.catalog, self.subscribe, self.invoices,
            self.a_simple_plan, self.several_at_once, self.credit, self.bundles, self.cancel, self.close,
        ]

    def step(self, step):
        """Runs a step and counts it."""
        try:
            step()
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.counts["failed"] += 1
            print(f"FAILED  {step.__name__}: {type(error).__name__}: {error}")
        else:
            self.counts["passed"] += 1
            print(f"passed  {step.__name__}")

    def create(self):
        """A tenant and an account; the ids are those of `Location`."""
        key, secret = self.header.api_key, self.header.api_secret
        assert uuid.UUID(self.client.tenant.create(key, secret, AUTHOR))
        self.account = self.client.account.create(
            self.header, name="Zoë", external_key=f"key {self.run} %&/+", currency="USD", country="DE"
        )
        assert uuid.UUID(self.account)

    def read(self):
        """By key and by id, with the author whose name is no ASCII."""
        accounts = self.client.account
        by_key = accounts.retrieve(self.header, f"key {self.run} %&/+", audit=Audit.FULL)
        assert by_key["accountId"] == self.account and by_key["name"] == "Zoë", by_key
        assert [log["changedBy"] for log in by_key["auditLogs"]] == [AUTHOR], by_key["auditLogs"]
        by_id = accounts.retrieve_by_id(self.header, self.account, account_with_balance=True)
        assert by_id["accountBalance"] == 0, by_id

    def update(self):
        """Custom fields are all that the client can change."""
        accounts = self.client.account
        accounts.add_custom_fields(self.header, self.account, {"colour": "blue", "size": "XL"})
        fields = accounts.get_custom_fields(self.header, self.account)
        assert [(it["name"], it["value"]) for it in fields] == [("colour", "blue"), ("size", "XL")]
        changed = {"name": "colour", "value": "grün", "field_id": fields[0]["customFieldId"]}
        accounts.update_custom_fields(self.header, self.account, [changed])
        fields = accounts.get_custom_fields(self.header, self.account)
        assert sorted(it["value"] for it in fields) == ["XL", "grün"], fields

    def tags(self):
        """Control tags come and go."""
        accounts = self.client.account
        wanted = [SystemTags.AUTO_PAY_OFF, SystemTags.TEST]
        accounts.add_tags(self.header, self.account, wanted)
        names = [it["tagDefinitionName"] for it in accounts.get_tags(self.header, self.account)]
        assert names == ["AUTO_PAY_OFF", "TEST"], names
        accounts.delete_tags(self.header, self.account, [SystemTags.TEST])
        # Without a default method that tag stays.
        refused(BadRequestError, accounts.delete_tags, self.header, self.account, [SystemTags.AUTO_PAY_OFF])

    def methods(self):
        """A default method, with which payments may be switched on."""
        accounts = self.client.account
        method = accounts.add_payment_method(self.header, self.account, is_default=True)
        found = accounts.get_payment_methods(self.header, self.account)
        assert [(it["paymentMethodId"], it["isDefault"]) for it in found] == [(method, True)], found
        accounts.delete_tags(self.header, self.account, [SystemTags.AUTO_PAY_OFF])
        assert accounts.get_tags(self.header, self.account) == []

    def payments(self):
        """A purchase; the id is that of `Location`, which ends with a slash."""
        payment = self.client.account.payments(self.header, self.account, TransactionType.PURCHASE, 10.5)
        assert uuid.UUID(payment)

    def pages(self):
        """The list of accounts, and a page of what there is none of."""
        for _ in range(3):
            self.client.account.create(self.header, currency="EUR")
        assert len(self.client.account.list(self.header)) == 4
        assert self.client.account.bundles_pagination(self.header, self.account, limit=2) == []
        assert self.client.account.bundles(self.header, self.account) == []
        assert self.client.account.invoices(self.header, self.account) == []

    def errors(self):
        """Each status is the client's exception for it, with the server's message."""
        accounts, unknown = self.client.account, str(uuid.uuid4())
        missing = refused(NotFoundError, accounts.retrieve_by_id, self.header, unknown)
        assert missing == f"Account does not exist for id {unknown}", missing
        key = f"key {self.run} %&/+"
        taken = refused(KillBillError, accounts.create, self.header, external_key=key)
        assert taken == f"Account already exists for key {key}", taken
        refused(BadRequestError, accounts.create, self.header, currency="no")
        refused(BadRequestError, accounts.payments, self.header, self.account, TransactionType.PURCHASE, -1)
        wrong = KillBillClient("admin", "wrong", self.url)
        refused(AuthError, wrong.account.retrieve_by_id, self.header, self.account)

    def configuration(self):
        """The callback is registered, read and removed."""
        tenants, callback = self.client.tenant, "http://127.0.0.1:9/events"
        tenants.create_push_notification(self.header, callback)
        assert tenants.retrieve_push_notifications(self.header)["values"] == [callback]
        tenants.delete_push_notification(self.header)
        assert tenants.retrieve_push_notifications(self.header)["values"] == []
        assert tenants.retrieve_configuration(self.header)["values"] == []

    def overdue(self):
        """The default configuration, in both forms, and the account's state."""
        overdue = self.client.overdue
        assert "<isClearState>true</isClearState>" in overdue.retrieve(self.header)
        assert overdue.retrieve(self.header, xml=False)["overdueStates"][0]["isClearState"] is True
        assert self.client.account.overdue(self.header, self.account)["name"] == CLEAR

    def delete(self):
        """What is deleted is read no more."""
        self.client.tenant.delete_configuration(self.header)
        self.client.account.add_tags(self.header, self.account, [SystemTags.TEST])
        self.client.account.delete_tags(self.header, self.account, [SystemTags.TEST])
        assert self.client.account.get_tags(self.header, self.account) == []

    def catalog(self):
        """An XML is validated, uploaded, listed, and shown as XML and JSON."""
        catalog, text = self.client.catalog, CATALOG.format(plans=PLANS)
        assert catalog.validate(self.header, text)["catalogValidationErrors"] == []
        wrong = catalog.validate(self.header, text.replace("<plan>extra</plan>", "<plan>none</plan>"))
        assert len(wrong["catalogValidationErrors"]) >= 1, wrong
        catalog.create(self.header, text)
        assert len(catalog.versions(self.header)) == 1
        assert sorted(it["name"] for it in catalog.retrieve(self.header)[0]["products"]) == ["Extra", "Small"]
        assert "<catalogName>python</catalogName>" in catalog.retrieve(self.header, xml=True)
        refused(BadRequestError, catalog.create, self.header, "<catalog/>")

    def subscribe(self):
        """A subscription with custom fields; an add-on in its bundle."""
        client = self.client
        self.subscriber = client.account.create(self.header, name="Ada", currency="USD")
        client.account.add_payment_method(self.header, self.subscriber, is_default=True)
        key = f"sub-{self.run}"
        self.subscription = client.subscription.create(self.header, self.subscriber, "small", external_key=key)
        shown = client.subscription.retrieve(self.header, self.subscription)
        assert (shown["state"], shown["planName"], shown["phaseType"]) == ("ACTIVE", "small", "EVERGREEN"), shown
        self.bundle = shown["bundleId"]
        add_on = {"product_category": ProductCategory.ADD_ON, "bundle_id": self.bundle}
        client.subscription.create(self.header, self.subscriber, "extra", **add_on)
        client.subscription.add_custom_fields(self.header, self.subscription, {"colour": "blue"})
        fields = client.subscription.get_custom_fields(self.header, self.subscription)
        assert [(it["name"], it["objectType"]) for it in fields] == [("colour", "SUBSCRIPTION")], fields
        client.bundle.add_custom_fields(self.header, self.bundle, {"size": "XL"})
        assert client.bundle.get_custom_fields(self.header, self.bundle)[0]["objectType"] == "BUNDLE"
        refused(BadRequestError, client.subscription.create, self.header, self.subscriber, "none")

    def invoices(self):
        """Both are invoiced and paid."""
        found = self.client.account.invoices(self.header, self.subscriber, include_invoice_components=True)
        items = [(it["planName"], it["amount"]) for invoice in found for it in invoice["items"]]
        assert items == [("small", 10.0), ("extra", 3.0)], items
        assert [it["balance"] for it in found] == [0.0, 0.0], found
        assert self.client.account.invoices(self.header, self.subscriber, unpaid_invoices_only=True) == []
        first = found[0]["invoiceId"]
        assert self.client.invoice.retrieve(self.header, first)["items"][0]["planName"] == "small"

    def a_simple_plan(self):
        """A plan is added without XML, with a trial and without one."""
        catalog = self.client.catalog
        catalog.add_simple_plan(self.header, "large", "Large", "USD", amount=20)
        trial = {"trial_length": 14, "trial_time_unit": TrialTimeUnit.DAYS}
        catalog.add_simple_plan(self.header, "tried", "Tried", "USD", amount=30.5, **trial)
        subscription = self.client.subscription.create(self.header, self.subscriber, "tried")
        assert self.client.subscription.retrieve(self.header, subscription)["phaseType"] == "TRIAL"

    def several_at_once(self):
        """A base plan with its add-on, and several bundles, each in one call."""
        client = self.client.subscription
        bundle = client.create_with_add_ons(self.header, self.subscriber, "small", ["extra"])
        shown = self.client.bundle.retrieve(self.header, bundle)
        assert sorted(it["planName"] for it in shown["subscriptions"]) == ["extra", "small"], shown
        before = len(self.client.account.bundles(self.header, self.subscriber))
        client.create_multiple_with_add_ons(self.header, self.subscriber, [["small", "extra"], ["large"]])
        assert len(self.client.account.bundles(self.header, self.subscriber)) == before + 2
        assert len(self.client.bundle.list(self.header)) == before + 2

    def credit(self):
        """A credit is the account's at once."""
        item = self.client.credit.add(self.header, self.subscriber, 2.5, "USD", "welcome", auto_commit=True)[0]
        assert (item["itemType"], item["description"]) == ("CREDIT_ADJ", "welcome"), item
        shown = self.client.account.retrieve_by_id(self.header, self.subscriber, account_with_balance_and_cba=True)
        assert (shown["accountCBA"], shown["accountBalance"]) == (2.5, -2.5), shown

    def bundles(self):
        """A bundle pauses and goes on; a subscription is blocked and its day changed."""
        client = self.client
        state = lambda: client.subscription.retrieve(self.header, self.subscription)["state"]
        client.bundle.pause(self.header, self.bundle)
        assert state() == "BLOCKED"
        client.bundle.resume(self.header, self.bundle)
        assert state() == "ACTIVE"
        client.subscription.block(self.header, self.subscription, "STOPPED", "python", is_block_entitlement=True)
        assert state() == "BLOCKED"
        client.subscription.block(self.header, self.subscription, "GOING", "python")
        assert state() == "ACTIVE"
        client.subscription.update_bill_cycle_date(self.header, self.subscription, 17)
        shown = client.bundle.retrieve(self.header, self.bundle)
        assert "PAUSE_ENTITLEMENT" in [it["eventType"] for it in shown["timeline"]["events"]], shown

    def cancel(self):
        """A cancellation waits for the end of the term, is taken back, and is done at once."""
        client, of = self.client.subscription, (self.header, self.subscription)
        end = {"entitlement_policy": EntitlementPolicy.END_OF_TERM, "billing_policy": BillingPolicy.END_OF_TERM}
        client.cancel(*of, **end)
        assert client.retrieve(*of)["state"] == "ACTIVE" and client.retrieve(*of)["billingEndDate"]
        client.uncancel(*of)
        assert client.retrieve(*of)["billingEndDate"] is None
        now = {"entitlement_policy": EntitlementPolicy.IMMEDIATE, "billing_policy": BillingPolicy.IMMEDIATE}
        client.cancel(*of, **now)
        assert client.retrieve(*of)["state"] == "CANCELLED"
        refused(BadRequestError, client.cancel, *of)
        refused(NotFoundError, client.retrieve, self.header, str(uuid.uuid4()))

    def close(self):
        """A closed account says so."""
        accounts = self.client.account
        assert accounts.close(self.header, self.account) is True
        states = accounts.get_blocking_states(self.header, self.account, BlockingStateType.ACCOUNT)
        assert [it["stateName"] for it in states] == ["CLOSE_ACCOUNT"], states
        refused(BadRequestError, accounts.add_payment_method, self.header, self.account)


def refused(kind, call, *arguments, **named):
    """What a call that must raise this exception says."""
    try:
        call(*arguments, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"{call.__name__} was not refused")


def main():
    """Runs every step and says how many passed."""
    check = Check(sys.argv[1])
    for step in check.steps():
        check.step(step)
    print(f"{check.counts['passed']} passed, {check.counts['failed']} failed")
    sys.exit(1 if check.counts["failed"] else 0)


if __name__ == "__main__":
    main()
