"""Why each item of an account's invoices has its amount, computed again from what the server says."""

from decimal import ROUND_HALF_UP, Decimal

SCALE = Decimal("0.000000001")


def unexplained(session, account):
    """A line for each item that the server does not explain, or whose explanation gives another amount."""
    lines = []
    listed = session.get(f"/1.0/kb/accounts/{account}/invoices", {"includeVoidedInvoices": True}) or []
    for invoice in listed:
        status, _, found = session.call("GET", f"/v1/invoices/{invoice['invoiceId']}/explain")
        if status != 200:
            lines.append(f"explained: invoice {invoice['invoiceNumber']} is answered {status}")
            continue
        for at, item in enumerate(found["items"]):
            problem = item["notDerived"] or wrong(item)
            if problem:
                lines.append(f"explained: invoice {found['number']} item {at} {item['itemType']}: {problem}")
    return lines


def wrong(item):
    """What is wrong with an explanation; None: it gives the amount."""
    kind, amount = item["itemType"], Decimal(item["amount"])
    if kind in ("FIXED", "RECURRING", "REPAIR_ADJ") and not item["event"]:
        return "there is no event"
    if kind in ("FIXED", "RECURRING") and Decimal(item["price"]) * item["quantity"] != Decimal(item["rate"]):
        return "the rate is not the price times the quantity"
    if kind == "FIXED":
        return None if half_up(Decimal(item["rate"]), amount) == amount else "it is not the rate"
    part = item["proration"]
    if kind not in ("RECURRING", "REPAIR_ADJ"):
        return "it is a part of something" if part else None
    ratio = (Decimal(part["days"]) / Decimal(part["ofDays"])).quantize(SCALE, ROUND_HALF_UP)
    if ratio != Decimal(part["ratio"]):
        return f"{part['days']} of {part['ofDays']} days are {ratio}, and not {part['ratio']}"
    exact = Decimal(part["of"]) * ratio
    if exact != Decimal(part["exact"]):
        return f"{ratio} of {part['of']} is {exact}, and not {part['exact']}"
    rounded = half_up(exact, amount)
    if rounded != Decimal(part["rounded"]):
        return f"{exact} is rounded {rounded}, and not {part['rounded']}"
    if kind == "REPAIR_ADJ" and not item["repairs"]:
        return "it names no item that it repairs"
    given = -amount if kind == "REPAIR_ADJ" else amount
    if given == rounded or part["isLimited"] and given < rounded:
        return None
    return f"it is {amount}, and not {rounded}"


def half_up(number, like):
    """With as many decimals as another amount has."""
    return number.quantize(Decimal(1).scaleb(like.as_tuple().exponent), ROUND_HALF_UP)
