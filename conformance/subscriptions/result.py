"""Reads what an account has at the end of a scenario, in the form of a recording."""

import re

KB = "/1.0/kb"

# The number of a price override, in a plan, a phase or a description.
OVERRIDE = re.compile(r"-\d+(?=(-(trial|discount|fixedterm|evergreen))?( \(fixed price\))?$)")


def minute(at):
    return None if at is None else at[:16] + "Z"


def masked(name):
    return None if name is None else OVERRIDE.sub("<ovr>", name)


def read(scenario, account):
    get = lambda path, query=None: scenario.session.get(f"{KB}{path}", query)  # noqa: E731
    of = f"/accounts/{account.id}"
    shown = get(of, {"accountWithBalanceAndCBA": True})
    # A base that was made with its add-ons is called by its plan.
    references = {subscription: name for name, subscription in scenario.subscriptions.items() if name == "base"}
    references |= {subscription: name for name, subscription in scenario.subscriptions.items() if name != "base"}
    bundles = get(f"{of}/bundles") or []
    invoices = scenario.invoices(account.id)
    return {
        "balance": shown["accountBalance"], "cba": shown["accountCBA"], "bcd": shown["billCycleDayLocal"],
        "overdue": (get(f"{of}/overdue") or {}).get("name"),
        "subscriptions": subscriptions(bundles, references),
        "invoices": listed(invoices, references),
        "payments": payments(get(f"{of}/invoicePayments") or [], invoices),
        "blockingStates": sorted(blocking_states(get(f"{of}/block") or []), key=str),
        "busEvents": bus_events(scenario.session, account),
    }


def subscriptions(bundles, references):
    found = []
    for bundle in bundles:
        for it in bundle["subscriptions"]:
            events = [[minute(e["effectiveDate"]), e["eventType"], e["serviceName"], e["serviceStateName"], masked(e["phase"]),
                       e["isBlockedBilling"], e["isBlockedEntitlement"]] for e in it["events"]]
            found.append({
                "sub": references.get(it["subscriptionId"], "?"), "plan": masked(it["planName"]),
                "phaseType": it["phaseType"], "priceList": it["priceList"], "state": it["state"],
                "source": it["sourceType"], "start": minute(it["startDate"]),
                "billingStart": minute(it["billingStartDate"]), "cancelled": minute(it["cancelledDate"]),
                "billingEnd": minute(it["billingEndDate"]), "ctd": it["chargedThroughDate"],
                "bcd": it["billCycleDayLocal"], "quantity": it["quantity"], "events": events,
            })
    return sorted(found, key=lambda it: (it["start"][:10], it["plan"], it["sub"]))


def order(it):
    """The order of items: what is absent comes first."""
    text = [it.get(k) or "" for k in ("type", "start", "end", "plan", "phase", "usage")]
    return (*text, it["amount"], it.get("desc") or "")


def listed(invoices, references):
    names, found = {}, []
    for invoice in invoices:
        items = []
        for it in invoice["items"]:
            item = {
                "type": it["itemType"], "sub": references.get(it["subscriptionId"]), "plan": masked(it["planName"]),
                "phase": masked(it["phaseName"]), "usage": it["usageName"], "start": it["startDate"], "end": it["endDate"],
                "amount": it["amount"], "rate": it["rate"], "quantity": it["quantity"], "desc": masked(it["description"]),
                "linked": it["linkedInvoiceItemId"], "details": it["itemDetails"], "id": it["invoiceItemId"],
            }
            items.append({k: v for k, v in item.items() if v not in (None, "")})
        items.sort(key=order)
        for it in items:
            names[it["id"]] = f"item-{len(names) + 1}"
        found.append({
            "id": f"inv-{len(found) + 1}", "invoiceDate": invoice["invoiceDate"], "targetDate": invoice["targetDate"],
            "status": invoice["status"], "amount": invoice["amount"], "balance": invoice["balance"],
            "creditAdj": invoice["creditAdj"], "refundAdj": invoice["refundAdj"],
            "isParent": invoice["isParentInvoice"], "trackingIds": len(invoice["trackingIds"] or []), "items": items,
        })
    for invoice in found:
        for it in invoice["items"]:
            it["id"] = names[it["id"]]
            if "linked" in it:
                it["linked"] = names.get(it["linked"], "other")
    return found


def dry_run(scenario, invoice):
    """An invoice that was not written: what it names is of it, known, or there already."""
    references = {subscription: name for name, subscription in scenario.subscriptions.items()}
    for it in invoice["items"]:
        if it["subscriptionId"]:
            references.setdefault(it["subscriptionId"], f"sub-x{len(references) - len(scenario.subscriptions) + 1}")
    shown = listed([invoice], references)[0]
    for it in shown["items"]:
        if it.get("linked") == "other":
            it["linked"] = "existing"
    del shown["id"]
    return shown


def payments(found, invoices):
    numbers = {it["invoiceId"]: f"inv-{at + 1}" for at, it in enumerate(invoices)}
    shown = []
    for it in sorted(found, key=lambda it: int(it["paymentNumber"])):
        transactions = [[t["effectiveDate"][:10], t["transactionType"], t["status"], t["amount"], t["processedAmount"]]
                        for t in it["transactions"]]
        shown.append({"invoice": numbers.get(it["targetInvoiceId"]), "purchased": it["purchasedAmount"],
                      "refunded": it["refundedAmount"], "transactions": sorted(transactions, key=str)})
    return shown


def blocking_states(found):
    return [[minute(it["effectiveDate"]), it["type"], it["service"], it["stateName"], it["isBlockChange"],
             it["isBlockEntitlement"], it["isBlockBilling"]] for it in found]


def bus_events(session, account):
    counts, after = {}, 0
    for it in events(session):
        if it.get("accountId") == account.id and it.get("eventType"):
            key = f"{it['timestamp'][:10]} {it['eventType']}"
            counts[key] = counts.get(key, 0) + 1
    return [[key, counts[key]] for key in sorted(counts)]


def events(session):
    """All events of the tenant so far; those that were read stay."""
    known = session.__dict__.setdefault("events", [])
    after = session.__dict__.setdefault("after", "0")
    while True:
        page = session.get("/v1/events", {"after": after, "limit": 1000})
        known.extend(page["events"])
        after = session.after = page["next"]
        if not page["more"]:
            return known
