"""The fake of Stripe's API does what Stripe's API does, as far as others can say.

    python conformance/stripe FAKE [--mock STRIPE_MOCK] [--node COMMAND]

Needs the packages of requirements.txt, Go for the document of stripe-mock's pinned module, and, with --node,
those of node/package.json. Each request, answer and event is checked against that document; Stripe's SDKs
for Python and Node drive the fake and read it; stripe-mock takes and refuses the same requests. What
no document says (keys, challenges, faults, kills) is checked one by one. Ends with "N passed, M failed".
"""

import argparse
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import behaviour
import mock
import sdk
from process import Checks, Fake

HERE = Path(__file__).resolve().parent
NODE_S = 120

PARTS = [
    behaviour.keys,
    behaviour.idempotency,
    behaviour.capture,
    behaviour.booking,
    behaviour.refunds,
    behaviour.challenge,
    behaviour.methods,
    behaviour.search,
    behaviour.lists,
    behaviour.faults,
    behaviour.disputes,
    behaviour.checkout,
    behaviour.events,
    sdk.drive,
]


def node(fake, command, checks):
    done = subprocess.run(
        [command, str(HERE / "node" / "sdk.js"), fake.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=NODE_S,
        check=False,
    )
    counted = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    if not counted or counted[2] != "0":
        print(done.stdout)
    checks.that("Stripe's SDK for Node ran", counted, done.stdout)
    if counted:
        checks.passed += int(counted[1])
        checks.failed += int(counted[2])


def run(checks, part, *arguments):
    """An answer that lacks what was expected fails its part, and not those after it."""
    try:
        part(*arguments)
    except Exception:
        checks.that(f"{part.__name__} to its end", False, traceback.format_exc()[-1500:])
    finally:
        print(f"{part.__module__}.{part.__name__}: {checks.passed} so far", flush=True)


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("fake")
    parser.add_argument("--mock", help="the program stripe-mock")
    parser.add_argument("--node", help="the program node")
    options = parser.parse_args(arguments)
    document = mock.directory()
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        journal, log = scratch / "journal", scratch / "log"
        spec = document / "spec3.json"
        fake = Fake(options.fake, log, ["--journal", str(journal), "--validate", str(spec)])
        try:
            for part in PARTS:
                run(checks, part, fake, checks)
            if options.mock:
                run(checks, mock.agree, fake, options.mock, scratch / "mock.log", checks)
            run(checks, mock.complete, fake, document, checks)
            if options.node:
                run(checks, node, fake, options.node, checks)
            violations = fake.control("GET", "health")["violations"]
            checks.equal("answers and events that violate Stripe's document", violations, [])
            checks.that("the fake never panicked", b"panicked" not in log.read_bytes(), log.read_text()[-2000:])
        finally:
            fake.close()
        run(checks, behaviour.kills, options.fake, scratch, checks)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
