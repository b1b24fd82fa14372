#!/usr/bin/env python3
"""Checks the chain of a journal without any code of Faregate's; see journal-chain.md.

    python3 check_journal.py faregate.db [anchors.txt]
"""
import hashlib
import sqlite3
import sys

ROWS_PER_PARTITION = 1 << 44  # a row's number begins with that of its partition


def link(previous, columns):
    hashed = hashlib.sha256(b"faregate journal 1\n" + previous.encode() + b"\n")
    for value in columns:
        if value is None:
            hashed.update(b"-")
            continue
        data = value if isinstance(value, bytes) else str(value).encode()
        hashed.update(b"%d:" % len(data) + data)
    return "1:" + hashed.hexdigest()


def main(database, anchors=None):
    awaited = {}
    for line in open(anchors) if anchors else []:
        row, chain = line.split()
        awaited[int(row)] = chain
    before, wrong, rows = {}, [], 0
    for *columns, chain in sqlite3.connect(f"file:{database}?mode=ro", uri=True).execute(
            "SELECT * FROM journal ORDER BY seq"):
        seq, rows = columns[0], rows + 1
        partition = seq // ROWS_PER_PARTITION
        last, previous = before.get(partition, (partition * ROWS_PER_PARTITION, ""))
        if seq != last + 1 or chain != link(previous, columns):
            wrong.append(f"row {seq} is not what was written after row {last}")
        if awaited.pop(seq, chain) != chain:
            wrong.append(f"row {seq} is not the row of the anchor")
        before[partition] = (seq, chain)
    wrong += [f"row {seq} is not there, but an anchor has it" for seq in awaited]
    print("\n".join(wrong) or f"{rows} rows: nothing was edited, removed or moved")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
