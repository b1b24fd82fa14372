"""What must hold after a chaos run: the clients, the store, the gateway and the events tell one story."""

from collections import defaultdict
from decimal import Decimal

import load

SHOWN_MAX = 10
OPEN = ("PENDING", "UNKNOWN")


class Verdict:
    """Violations by kind; empty where nothing is wrong."""

    def __init__(self):
        self.found = defaultdict(list)

    def add(self, kind, text):
        self.found[kind].append(text)

    def is_sound(self):
        return not any(self.found.values())

    def summary(self):
        """How many of each kind, and some of them."""
        return {kind: {"count": len(texts), "some": texts[:SHOWN_MAX]} for kind, texts in self.found.items() if texts}


def transactions(payment):
    return payment.get("transactions") or []


def in_minor(amount):
    return None if amount is None else int(Decimal(str(amount)) * 100)


def open_keys(stored):
    """The payments of which the outcome is not known."""
    return [payment["paymentExternalKey"] for payment in stored
            if any(it["status"] in OPEN for it in transactions(payment))]


def compare_with_store(payments, stored, verdict):
    """Compares what clients received with what the store holds: `stored` are the payments of all accounts."""
    by_key = defaultdict(list)
    for payment in stored:
        for it in transactions(payment):
            by_key[it["transactionExternalKey"]].append(it)
    for payment in payments:
        of_key = by_key.pop(payment.key, [])
        successes = [it for it in of_key if it["status"] == "SUCCESS"]
        if payment.result is None:
            verdict.add("unanswered", f"{payment.key}: {payment.attempts} attempts, last {payment.last}")
        if payment.result == load.WORKED and not successes:
            verdict.add("lost", f"{payment.key}: {[it['status'] for it in of_key]}")
        if payment.result == load.FAILED and successes:
            verdict.add("wrong", f"{payment.key} was refused, and worked")
        if len(successes) > 1:
            verdict.add("charged_twice", f"{payment.key}: {len(successes)} successes in the store")
        for it in successes:
            if in_minor(it["processedAmount"]) != payment.minor:
                verdict.add("wrong", f"{payment.key}: asked {payment.minor}, booked {it['processedAmount']}")
    for key, of_key in by_key.items():
        verdict.add("wrong", f"{key}: nobody asked for it: {[it['status'] for it in of_key]}")


def compare_with_gateway(payments, stored, records, verdict):
    """The gateway's journal against the store: one charge for each success, none for anything else.
    Returns how many charges stand."""
    charged, tenants = defaultdict(int), {}
    for record in records:
        change = {"charged": 1, "reversed": -1}.get(record["effect"], 0)
        charged[record["transaction"]] += change
        tenants[record["transaction"]] = record["tenant"]
    called = {payment.key for payment in payments if payment.account.is_called}
    mine, total = set(), 0
    for payment in stored:
        of_key = 0
        for it in transactions(payment):
            if it["transactionExternalKey"] not in called:
                continue
            charges = charged.pop(it["transactionId"], 0)
            mine.add(tenants.get(it["transactionId"]))
            of_key += charges
            total += charges
            if charges != (1 if it["status"] == "SUCCESS" else 0):
                kind = "charged_twice" if charges > 1 else "wrong"
                verdict.add(kind, f"{it['transactionExternalKey']} is {it['status']}, charged {charges} times")
        if of_key > 1:
            verdict.add("charged_twice", f"{payment['paymentExternalKey']}: {of_key} charges")
    for transaction, charges in charged.items():
        # Other tenants' charges are not of this run.
        if charges and tenants[transaction] in mine:
            verdict.add("wrong", f"charged {charges} times, and not in the store: {transaction}")
    return total


def check_events(events, stored, verdict):
    """Every success has its event at least once; those of an account come in the order of their
    numbers, where an event may repeat only if it was published before. `events` are in the order of their
    offsets: (partition, account, number, transaction or None)."""
    published, newest, partitions = set(), {}, {}
    for partition, account, number, transaction in events:
        published.add(transaction)
        if partitions.setdefault(account, partition) != partition:
            verdict.add("events", f"account {account} is on partitions {partitions[account]} and {partition}")
        seen = newest.setdefault(account, [])
        if seen and number < seen[-1] and number not in seen:
            verdict.add("events", f"account {account}: {number} comes after {seen[-1]}")
        elif not seen or number > seen[-1]:
            seen.append(number)
    for payment in stored:
        for it in transactions(payment):
            if it["status"] == "SUCCESS" and it["transactionId"] not in published:
                verdict.add("events", f"no event of {it['transactionExternalKey']}")
