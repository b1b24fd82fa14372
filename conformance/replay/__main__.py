"""Replays recordings of Kill Bill against a running server and reports what differs."""

import argparse
import http.client
import os
import re
import sys

import fixtures
import verbatim
from compare import Comparison, edited
from receiver import Receiver
from rows import Rows
from session import FixtureError, Session

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# `tenant` makes the tenant that `auth` finds; `system` moves the clock of the whole server.
FIRST, LAST = ["tenant"], ["system"]
# Between two requests some time passes; where a recording shows a set clock, this much is allowed.
CLOCK_TOLERANCE_S = 20
CALLBACK = "127.0.0.1:18199"
# Headers that an answer has where its recording has them, and nowhere else. A `Content-Type` that was left out of a
# recording was exactly `JSON_TYPE`, also where there is no body.
RECORDED_HEADERS = {"location", "www-authenticate", "allow"}
JSON_TYPE = "application/json"


class Replay:
    """All files against one server."""

    def __init__(self, base, verbose):
        self.base = base
        self.verbose = verbose
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        keys = ["status", "code", "names", "location", "empty", "edits", "any_body", "unordered"]
        self.differences = Rows(os.path.join(HERE, "differences.toml"), "difference", keys)
        self.disabled = Rows(os.path.join(HERE, "disabled.toml"), "disabled", ["status", "code"])

    def check_rows(self, names):
        """Every row must be about a recording that is there."""
        known = [exchange["id"] for name in names for exchange in load(name)]
        self.differences.check_all_exist(known)
        self.disabled.check_all_exist(known)

    def file(self, name):
        """Replays one file."""
        session, receiver = Session(self.base, name), Receiver()
        session.substitutes[CALLBACK] = receiver.address
        counts = dict(self.counts)
        try:
            fixtures.begin(session)
            for exchange in load(name):
                self.one(session, exchange, receiver)
        except (FixtureError, OSError, http.client.HTTPException) as error:
            self.report(name, "failed", [repr(error), "the rest of the file was not replayed"])
        finally:
            receiver.close()
        made = {kind: self.counts[kind] - counts[kind] for kind in counts}
        print(f"{name}: {made['passed']} passed, {made['failed']} failed, {made['skipped']} skipped")

    def one(self, session, exchange, receiver):
        """Replays one recording."""
        name, off = exchange["id"], self.disabled.get(exchange["id"])
        if off and "status" not in off:
            self.report(name, "skipped", [off["reason"]])
            return
        fixtures.before(session, exchange, receiver)
        if "events" in exchange:
            problems = self.events(session, exchange, receiver)
        else:
            unbound = session.variables.unbound(session.texts(exchange["request"]))
            if unbound:
                self.report(name, "failed", [f"nothing has made {', '.join(unbound)}"])
                return
            answer = session.send(exchange["request"])
            if off:
                self.still_off(name, off, answer)
                return
            problems = self.compare(session, exchange, answer)
            if not problems:
                fixtures.after(session, exchange)
        self.report(name, "failed" if problems else "passed", problems)

    def still_off(self, name, row, answer):
        """A skipped recording is sent all the same: it must be refused as its row says."""
        code = answer.body.get("code") if isinstance(answer.body, dict) else None
        if answer.status != row["status"] or ("code" in row and code != row["code"]):
            said = f"answers {answer.status}, code {code}, not {row['status']}: its row in disabled.toml is out of date"
            self.report(name, "failed", [said])
        else:
            self.report(name, "skipped", [f"{answer.status}: {row['reason']}"])

    def compare(self, session, exchange, answer):
        """What is not as recorded, or not as a row of differences.toml says."""
        recorded = exchange["response"]
        row = self.differences.get(exchange["id"]) or {}
        tolerance = CLOCK_TOLERANCE_S if exchange["id"].startswith("system.clock") else 0
        it = Comparison(session.variables, tolerance)
        status = row.get("status", recorded["status"])
        if answer.status != status:
            return [f"status {answer.status} instead of {status}: {answer.raw[:300].decode('utf-8', 'replace')}"]
        headers = {"Content-Type": JSON_TYPE, **recorded["headers"]}
        if status != recorded["status"]:
            headers.pop("Location", None)
        if "location" in row:
            headers["Location"] = row["location"]
        compare_headers(it, session.localize(headers), answer.headers)
        refused = status != recorded["status"] and status >= 400
        body = edited(session.localize(recorded["body"]), row.get("edits", []))
        if row.get("any_body"):
            pass
        elif refused or "code" in row or "names" in row:
            it.refusal(row, answer.body)
        elif row.get("empty") or (status != recorded["status"] and status < 300) or body is None:
            it.value(None, answer.body)
        else:
            it.value(body, answer.body, unordered=row.get("unordered", False))
        return it.mismatches

    def events(self, session, exchange, receiver):
        """What was pushed since the recording before."""
        session.must("GET", "/1.0/kb/test/queues?timeoutSec=20", status=200)
        row = self.differences.get(exchange["id"]) or {}
        expected = edited(session.localize(exchange["events"]), row.get("edits", []))
        received = receiver.take()
        it = Comparison(session.variables)
        if len(received) != len(expected):
            it.differ("events", [event["body"] for event in expected], [event["body"] for event in received])
            return it.mismatches
        for at, (event, got) in enumerate(zip(expected, received)):
            compare_event(it, event, got, f"/{at}")
        return it.mismatches

    def report(self, name, outcome, lines):
        """Counts a recording and says what is to be said about it."""
        self.counts[outcome] += 1
        if outcome == "failed" or self.verbose:
            print(f"{outcome} {name}")
            for line in lines:
                print(f"    {line}")


def compare_headers(it, expected, actual):
    """Compares the headers that were recorded, and that no others of their kind are there."""
    for name, value in expected.items():
        got = actual.get(name.lower())
        if name == "Allow" and got is not None:
            value, got = (", ".join(sorted(re.split(r",\s*", text))) for text in (value, got))
        it.text(value, got, name)
    for name in actual:
        known = {recorded.lower() for recorded in expected}
        ours = name in RECORDED_HEADERS or name.startswith("x-killbill-pagination-")
        if ours and name not in known:
            it.mismatches.append(f"{name}: was not recorded, got {actual[name]}")


def compare_event(it, expected, got, path):
    """Compares a notification; its `metaData` is JSON inside a text."""
    body, said = dict(expected["body"]), dict(got["body"])
    meta, said_meta = body.pop("metaData"), said.pop("metaData", "is missing")
    it.value(body, said, path)
    if isinstance(meta, str) and isinstance(said_meta, str):
        it.value(verbatim.load(meta), verbatim.load(said_meta), f"{path}/metaData")
    else:
        it.value(meta, said_meta, f"{path}/metaData")
    if "path" in expected:
        it.text(expected["path"], got["path"], f"{path} path")
    for name in ("Content-Type", "User-Agent"):
        if name in expected.get("headers", {}):
            it.text(expected["headers"][name], got["headers"].get(name.lower()), f"{path} {name}")


def files():
    """Every file of exchanges, by name: recordings of Kill Bill, and answers of our own."""
    found = {}
    for folder in ("killbill", "faregate"):
        folder = os.path.join(HERE, "vectors", folder)
        for name in os.listdir(folder):
            found[name.removesuffix(".json")] = os.path.join(folder, name)
    return found


def load(name):
    """The exchanges of one file."""
    with open(files()[name], encoding="utf-8") as file:
        return verbatim.load(file.read())


def main():
    """Replays the files that were asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="a server with --test-clock, the password `password`, and nothing in it")
    parser.add_argument("files", nargs="*", help="names of files in vectors, without .json")
    parser.add_argument("--verbose", action="store_true", help="say what passed and what was skipped, too")
    parser.add_argument("--counts", help="write passed, failed and skipped to this file")
    options = parser.parse_args()
    every = sorted(files())
    every = FIRST + [name for name in every if name not in FIRST + LAST] + LAST
    replay = Replay(options.url.rstrip("/"), options.verbose)
    replay.check_rows(every)
    for name in options.files or every:
        replay.file(name)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**replay.counts))
    if options.counts:
        with open(options.counts, "w", encoding="utf-8") as file:
            file.write("{passed} {failed} {skipped}\n".format(**replay.counts))
    sys.exit(1 if replay.counts["failed"] else 0)


main()
