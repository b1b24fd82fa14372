"""Plays scenarios beside each other on one timeline."""

import datetime
import json
import os
import sys
import uuid

import explained
import result
from session import Session

KB = "/1.0/kb"
TAGS = ["AUTO_PAY_OFF", "AUTO_INVOICING_OFF", "OVERDUE_ENFORCEMENT_OFF", "WRITTEN_OFF", "MANUAL_PAY", "TEST",
        "PARTNER", "AUTO_INVOICING_DRAFT", "AUTO_INVOICING_REUSE_DRAFT"]


def tag_id(name):
    return str(uuid.UUID(int=TAGS.index(name) + 1))


class Tenant:
    """A tenant with a catalog."""

    def __init__(self, url, folder, setup, session):
        self.session = session
        for file in setup["files"]:
            with open(os.path.join(folder, "catalogs", file)) as text:
                stored = session.call("POST", f"{KB}/catalog/xml", text.read(), media="text/xml")
            if stored[0] != 201:
                sys.exit(f"{file}: {stored}")
        if setup.get("config"):
            session.call("POST", f"{KB}/tenants/uploadPerTenantConfig", json.dumps(setup["config"]), media="text/plain")


class Account:
    def __init__(self, name, account_id):
        self.name, self.id = name, account_id


class Scenario:
    def __init__(self, recorded, tenant, gateways):
        self.recorded, self.tenant, self.session = recorded, tenant, tenant.session
        self.gateways = gateways
        self.accounts, self.subscriptions, self.bundles, self.payments = {}, {}, {}, []
        self.steps, self.unexplained = [], []
        first = recorded["steps"][0]["date"]
        self.has_time = "T" in first
        self.first_day = first[:10]

    def time_of(self, step):
        at = step["date"]
        if "T" in at:
            return at[:16]
        if self.has_time:
            first, later = self.clocks()
            return f"{at}T{first if at == self.first_day else later}"
        return f"{at}T06:00" if at == self.first_day else f"{at}T06:20"

    def clocks(self):
        """The times of day of its own: that of its first step, and 20 minutes later."""
        if not self.has_time:
            return []
        first = self.recorded["steps"][0]["date"][11:16]
        minutes = (int(first[:2]) * 60 + int(first[3:]) + 20) % (24 * 60)
        return [first, f"{minutes // 60:02}:{minutes % 60:02}"]

    def points(self):
        """The times at which it wants the clock to stand."""
        return {self.time_of(it) for it in self.recorded["steps"]}

    def play(self, at):
        for step in self.recorded["steps"]:
            if self.time_of(step) == at:
                answer = getattr(self, step["action"], self.unknown)(step.get("params") or {})
                self.steps.append((step, answer))

    def unknown(self, _):
        return (0, {}, None)

    def call(self, method, path, body=None, **query):
        return self.session.call(method, KB + path, body, query)

    # Whom a step is about.

    def account_of(self, it):
        return self.accounts[it.get("account", "A")].id

    def invoices(self, account=None):
        query = {"includeInvoiceComponents": True, "includeVoidedInvoices": True}
        found = self.session.get(f"{KB}/accounts/{account or self.accounts['A'].id}/invoices", query)
        return sorted(found, key=lambda it: int(it["invoiceNumber"]))

    def selected(self, sel):
        invoice, kind, *at = sel
        items = [it for it in self.invoices()[invoice]["items"] if it["itemType"] == kind]
        items.sort(key=lambda it: (it["startDate"], it["planName"] or "", it["amount"]))
        return items[at[0] if at else 0]

    # Steps.

    def account(self, it):
        name = it.get("name", "A")
        key = self.recorded["name"] + ("" if name == "A" else f"-{name}")
        given = self.recorded["account"] if name == "A" else it
        body = {"name": key, "externalKey": key, "currency": given.get("currency", "USD"),
                "timeZone": given.get("tz", "UTC")}
        if "bcd" in given:
            body["billCycleDayLocal"] = given["bcd"]
        if "ref" in given:
            body["referenceTime"] = given["ref"]
        if "parent" in given:
            body |= {"parentAccountId": self.accounts[given["parent"]].id, "isPaymentDelegatedToParent": True}
        answer = self.call("POST", "/accounts", body)
        self.accounts[name] = Account(key, location(answer))
        method = given.get("pm", "ext")
        if method != "none":
            plugin = {"externalKey": str(uuid.uuid4()), "pluginName": self.gateways[method]["pluginName"], "pluginInfo": {}}
            self.call("POST", f"/accounts/{self.accounts[name].id}/paymentMethods", plugin, isDefault=True)
        return answer

    def create(self, it):
        body = {"accountId": self.account_of(it), "planName": it["plan"]}
        if "bundle" in it:
            body["bundleId"] = self.bundles.get(it["bundle"])
        for ours, theirs in (("qty", "quantity"), ("bcd", "billCycleDayLocal"), ("initphase", "phaseType")):
            if ours in it:
                body[theirs] = it[ours]
        if {"fixed", "recurring", "usage"} & set(it):
            prices = {"phaseType": it.get("phaseType"), "fixedPrice": it.get("fixed"),
                      "recurringPrice": it.get("recurring"), "usagePrices": it.get("usage")}
            body["priceOverrides"] = [{k: v for k, v in prices.items() if v is not None}]
        answer = self.call("POST", "/subscriptions", body, entitlementDate=it.get("ent"), billingDate=it.get("bill"),
                           callCompletion=False)
        if answer[0] == 201:
            self.note(it.get("ref", "base"), location(answer))
        return answer

    def note(self, reference, subscription):
        self.subscriptions[reference] = subscription
        shown = self.session.get(f"{KB}/subscriptions/{subscription}")
        self.bundles[reference] = shown["bundleId"]

    def createmulti(self, it):
        account = self.account_of(it)
        body = [{"accountId": account, "planName": plan} for plan in it["plans"]]
        answer = self.call("POST", "/subscriptions/createSubscriptionWithAddOns", body)
        if answer[0] == 201:
            for bundle in self.session.get(f"{KB}/accounts/{account}/bundles"):
                for shown in bundle["subscriptions"]:
                    self.note(shown["planName"], shown["subscriptionId"])
            self.note("base", self.subscriptions[it["plans"][0]])
        return answer

    def of(self, it):
        return self.subscriptions.get(it.get("ref", "base"))

    def change(self, it):
        body = {"planName": it["plan"]}
        if "initphase" in it:
            body["phaseType"] = it["initphase"]
        if "recurring" in it:
            body["priceOverrides"] = [{"phaseType": it.get("phaseType"), "recurringPrice": it["recurring"]}]
        return self.call("PUT", f"/subscriptions/{self.of(it)}", body, billingPolicy=it.get("policy"),
                         requestedDate=it.get("date"), callCompletion=False)

    def cancel(self, it):
        return self.call("DELETE", f"/subscriptions/{self.of(it)}", entitlementPolicy=it.get("ent"),
                         billingPolicy=it.get("bill"), requestedDate=it.get("date"),
                         useRequestedDateForBilling=it.get("useForBilling"), callCompletion=False)

    def uncancel(self, it):
        return self.call("PUT", f"/subscriptions/{self.of(it)}/uncancel")

    def undochange(self, it):
        return self.call("PUT", f"/subscriptions/{self.of(it)}/undoChangePlan")

    def pause(self, it):
        return self.call("PUT", f"/bundles/{self.bundles[it.get('ref', 'base')]}/pause", requestedDate=it.get("date"))

    def resume(self, it):
        return self.call("PUT", f"/bundles/{self.bundles[it.get('ref', 'base')]}/resume", requestedDate=it.get("date"))

    def subbcd(self, it):
        return self.call("PUT", f"/subscriptions/{self.of(it)}/bcd", {"billCycleDayLocal": it["bcd"]},
                         effectiveFromDate=it.get("date"), forceNewBcdWithPastEffectiveDate=it.get("force"))

    def qty(self, it):
        return self.call("PUT", f"/subscriptions/{self.of(it)}/quantity", {"quantity": it["qty"]},
                         effectiveFromDate=it.get("date"), forceNewQuantityWithPastEffectiveDate=it.get("force"))

    def acctbcd(self, it):
        return self.call("PUT", f"/accounts/{self.account_of(it)}", {"billCycleDayLocal": it["bcd"]})

    def block(self, it):
        level = it.get("level", "sub")
        path = {"sub": f"/subscriptions/{self.of(it)}", "account": f"/accounts/{self.account_of(it)}",
                "bundle": f"/bundles/{self.bundles.get(it.get('ref', 'base'))}"}[level]
        body = {"stateName": it.get("state", "BLK"), "service": it.get("service", "p2svc"),
                "isBlockChange": it.get("chg", False), "isBlockEntitlement": it.get("ent", False),
                "isBlockBilling": it.get("bill", False)}
        return self.call("POST", f"{path}/block", body, requestedDate=it.get("date"))

    def items(self, it, path, description):
        account = self.account_of(it)
        body = {"accountId": account, "amount": it["amount"], "currency": "USD", "description": description}
        if "inv" in it:
            body["invoiceId"] = self.invoices()[it["inv"]]["invoiceId"]
        if "ref" in it:
            body |= {"subscriptionId": self.of(it), "bundleId": self.bundles[it["ref"]]}
        for ours, theirs in (("start", "startDate"), ("end", "endDate"), ("qty", "quantity"), ("rate", "rate")):
            if ours in it:
                body[theirs] = it[ours]
        return self.call("POST", path, [body], autoCommit=it.get("autoCommit", True), requestedDate=it.get("date"))

    def credit(self, it):
        return self.items(it, "/credits", "credit")

    def charge(self, it):
        return self.items(it, f"/invoices/charges/{self.account_of(it)}", "charge")

    def tax(self, it):
        return self.items(it, f"/invoices/taxes/{self.account_of(it)}", "tax")

    def adjust(self, it):
        item = self.selected(it["sel"])
        body = {"accountId": self.account_of(it), "invoiceItemId": item["invoiceItemId"], "currency": "USD"}
        if "amount" in it:
            body["amount"] = it["amount"]
        return self.call("POST", f"/invoices/{item['invoiceId']}", body)

    def pay(self, it):
        account = self.account_of(it)
        if "inv" not in it:
            return self.call("POST", f"/accounts/{account}/invoicePayments", externalPayment=it.get("external"),
                             paymentAmount=it.get("amount"))
        invoice = self.invoices()[it["inv"]]
        body = {"accountId": account, "targetInvoiceId": invoice["invoiceId"],
                "purchasedAmount": it.get("amount", invoice["balance"])}
        return self.call("POST", f"/invoices/{invoice['invoiceId']}/payments", body, externalPayment=it.get("external"))

    def tag(self, it):
        return self.call("POST", f"{self.tagged(it)}/tags", [tag_id(it["tag"])])

    def untag(self, it):
        return self.call("DELETE", f"{self.tagged(it)}/tags", tagDef=tag_id(it["tag"]))

    def tagged(self, it):
        on = it.get("on", "account")
        if on == "invoice":
            return f"/invoices/{self.invoices()[it['inv']]['invoiceId']}"
        if on == "bundle":
            return f"/bundles/{self.bundles[it.get('ref', 'base')]}"
        return f"/subscriptions/{self.of(it)}" if on == "sub" else f"/accounts/{self.account_of(it)}"

    def trigger(self, it):
        return self.call("POST", "/invoices", accountId=self.account_of(it), targetDate=it.get("target"))

    def commit(self, it):
        return self.call("PUT", f"/invoices/{self.invoices()[it['inv']]['invoiceId']}/commitInvoice")

    def void(self, it):
        return self.call("PUT", f"/invoices/{self.invoices()[it['inv']]['invoiceId']}/voidInvoice")

    def rebalance(self, it):
        return self.call("PUT", f"/accounts/{self.account_of(it)}/cbaRebalancing")

    def delcba(self, it):
        item = self.selected(it["sel"])
        path = f"/invoices/{item['invoiceId']}/{item['invoiceItemId']}/cba"
        return self.call("DELETE", path, accountId=self.account_of(it))

    def dryrun(self, it):
        body = {"dryRunType": it.get("type", "TARGET_DATE")}
        for ours, theirs in (("action", "dryRunAction"), ("plan", "planName"), ("policy", "billingPolicy"),
                             ("date", "effectiveDate")):
            if ours in it:
                body[theirs] = it[ours]
        if "ref" in it:
            body |= {"subscriptionId": self.of(it), "bundleId": self.bundles[it["ref"]]}
        status, headers, body = self.call("POST", "/invoices/dryRun", body, accountId=self.account_of(it),
                                          targetDate=it.get("target"))
        if status == 200:
            body["dry run"] = result.dry_run(self, body)
        return (status, headers, body)

    def overdue(self, it):
        return self.call("GET", f"/accounts/{self.account_of(it)}/overdue")

    def balance(self, it):
        return self.call("GET", f"/accounts/{self.account_of(it)}", accountWithBalanceAndCBA=True)

    def end(self, _):
        self.result = {name: result.read(self, it) for name, it in self.accounts.items()}
        for it in self.accounts.values():
            self.unexplained += explained.unexplained(self.session, it.id)
        # It is billed no further.
        for it in self.accounts.values():
            self.call("DELETE", f"/accounts/{it.id}", cancelAllSubscriptions=True)
        return (0, {}, None)


def location(answer):
    return (answer[1].get("Location") or answer[1].get("location") or "").rstrip("/").split("/")[-1]


def all_of(url, found, verbose):
    """The steps with their answers, the result, and what is not explained, of each scenario."""
    setups, tenants, playing = {}, {}, []
    first = min(it["steps"][0]["date"][:10] for _, it in found) if found else "2024-01-01"
    before = datetime.date.fromisoformat(first) - datetime.timedelta(days=1)
    session = Session(url)
    session.clock(f"{before}T06:00")
    for folder, recorded in found:
        if folder not in setups:
            with open(os.path.join(folder, "setup.json")) as file:
                setups[folder] = json.load(file)
        key = (folder, recorded["catalog"])
        if key not in tenants:
            tenants[key] = Tenant(url, folder, setups[folder]["catalogs"][recorded["catalog"]], Session(url))
        playing.append(Scenario(recorded, tenants[key], setups[folder]["gateways"]))
    wanted = set()
    for it in playing:
        wanted |= it.points()
    clocks = {"06:00", "06:20", "06:40"}.union(*(it.clocks() for it in playing))
    day, last = before, max((it[:10] for it in wanted), default=first)
    while day.isoformat() <= last:
        day += datetime.timedelta(days=1)
        of_day = {f"{day}T{at}" for at in clocks} | {it for it in wanted if it[:10] == str(day)}
        for at in sorted(of_day):
            session.clock(at)
            for it in playing:
                if at in it.points():
                    try:
                        it.play(at)
                    except Exception as error:  # What is missing of one scenario must not end the others.
                        it.failed = f"{at}: {type(error).__name__}: {error}"
                        if verbose:
                            print(f"{it.recorded['name']}: {it.failed}")
    ended = lambda it: getattr(it, "result", {"played": getattr(it, "failed", "not to its end")})  # noqa: E731
    return [(it.steps, ended(it), it.unexplained) for it in playing]
