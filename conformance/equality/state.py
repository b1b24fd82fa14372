"""The contents of a database, without what differs between two installations with the same requests.

Entities are named by the order in which they were made, since ids are drawn. Left out are times, salted
hashes, hashes of what has an id or a time in it, and places: journal rows, offsets, payment numbers and partitions,
of which one process has one and a cluster has several; check values, which cover all of that. Totals are summed over the partitions.
"""

import hashlib
import json
import os
import re
import sqlite3

from served import psql

# Where ids are made, in the order of the names that they get.
ENTITIES = ["tenant", "tenant_value", "account", "payment_method", "payment", "payment_transaction"]
# What belongs to an installation, not to its clients' data.
LEFT_OUT = {"migration", "installation", "partition", "follower", "delivery", "copying", "claim_recent"}
# Totals, with the columns that are added up.
TOTALS = {"counter": ["value"], "ledger_total": ["debit_minor", "credit_minor"]}
DIFFERING = re.compile(
    r"(.*_us|seq|opened_seq|number|partition|request_id|token|password_hash|secret_hash|key_hash|fingerprint"
    r"|reply_key|changes|chain|check_made|check_now)$")
# The key of the tenant of the first start is drawn.
DIFFERING_IN = {"reply": {"key"}, "tenant": {"api_key"}}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r'("\w*_at"):\d+')
SHOWN = 5


def of_sqlite(directory):
    """The rows of each table of a data directory that nobody serves."""
    connection = sqlite3.connect(f"file:{os.path.join(directory, 'faregate.db')}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    tables = {name: [cells(row) for row in connection.execute(f"SELECT * FROM {name}")]
              for name in names if not name.startswith("sqlite_")}
    # Of claims that are in both, those that came last hold.
    claims = {row["key_hash"]: row for row in tables["claim"]}
    for row in sorted(tables["claim_recent"], key=lambda row: row["n"]):
        claims[row["key_hash"]] = {name: value for name, value in row.items() if name != "n"}
    return {**tables, "claim": list(claims.values())}


def cells(row):
    def text(value):
        if not isinstance(value, bytes):
            return value
        digits = value.hex()
        return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])

    return {name: text(row[name]) for name in row.keys()}


def of_postgres(server, database):
    """The rows of each table of a database."""
    names = psql(server, database, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'").split()
    return {name: [json.loads(line) for line in
                   psql(server, database, f"SELECT row_to_json(t) FROM {name} t").splitlines()]
            for name in names}


def digests(tables):
    """For each table: how many rows, their digest, and the rows in an order of their own."""
    names = {}
    for table in ENTITIES:
        ids = sorted(row["id"] for row in tables[table])
        names.update({made: f"{table} {at}" for at, made in enumerate(ids)})
    found = {}
    for table in sorted(set(tables) - LEFT_OUT):
        rows = totals(table, [comparable(table, row, names) for row in tables[table]])
        lines = sorted(json.dumps(row, sort_keys=True) for row in rows)
        found[table] = (len(lines), digest(lines), lines)
    return found


def comparable(table, row, names):
    left_out = DIFFERING_IN.get(table, set())
    kept = {name: value for name, value in row.items() if not DIFFERING.match(name) and name not in left_out}
    return {name: named(value, names) if isinstance(value, str) else value for name, value in kept.items()}


def named(text, names):
    return UUID.sub(lambda it: names.get(it[0], "another id"), TIME.sub(r"\1:0", text))


def totals(table, rows):
    if table not in TOTALS:
        return rows
    sums = {}
    for row in rows:
        of = tuple(sorted((name, value) for name, value in row.items() if name not in TOTALS[table]))
        added = sums.setdefault(of, dict.fromkeys(TOTALS[table], 0))
        for name in TOTALS[table]:
            added[name] += int(row[name])
    # Nothing is as good as zero.
    return [{**dict(of), **added} for of, added in sums.items() if any(added.values())]


def digest(of):
    return hashlib.sha256(json.dumps(list(of)).encode()).hexdigest()[:16]


def difference(first, second):
    """Some of the rows that only one of them has."""
    def only(these, those):
        rest = list(those)
        return [it for it in these if it not in rest or rest.remove(it)]

    lines = [f"  only there: {it}" for it in only(first[2], second[2])[:SHOWN]]
    return "\n".join(lines + [f"  only here:  {it}" for it in only(second[2], first[2])[:SHOWN]])
