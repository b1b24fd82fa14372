"""Plays recordings of Kill Bill's subscriptions and invoices, and compares each account with what was recorded.

  python3 conformance/subscriptions [DIR|FILE...] [--url U] [--database URL] [--only a,b*] [--part 1|2] [--verbose]
      [--on sqlite|postgres|partitions]

DIR has scenarios/, catalogs/ and setup.json, as conformance/vectors/subscriptions, which is the default; FILE is one
scenario of such a directory. Without --url it starts FAREGATE_BIN on a fresh store with --test-clock:
--on postgres makes a database on the server of `conformance/postgres`, --on partitions has three partitions over such
a database, behind the broker of `conformance/kafka`.
The server explains each item's amount, which is computed again from what it says.
differences.toml names what is another way on purpose, pending.toml what is not built yet: a scenario in it has to
fail. Prints a line for each failure, at last `N passed, M failed`.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]
import compare  # noqa: E402
import play  # noqa: E402
import processes  # noqa: E402
import served  # noqa: E402
from processes import Problem  # noqa: E402
from served import Served  # noqa: E402

VECTORS = os.path.join(os.path.dirname(HERE), "vectors", "subscriptions")
PORT_FIRST = 18701


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("paths", nargs="*", default=[VECTORS])
    parser.add_argument("--url")
    parser.add_argument("--database")
    parser.add_argument("--on", choices=("sqlite", "postgres", "partitions"), default="sqlite")
    parser.add_argument("--only", default="*")
    parser.add_argument("--part", type=int, choices=(1, 2))
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def scenarios(paths, only, part):
    """The scenarios that are asked for, each with its directory."""
    patterns = only.split(",")
    for path in paths:
        if os.path.isdir(path):
            folder = path
            names = sorted(os.listdir(os.path.join(path, "scenarios")))
            files = [os.path.join(path, "scenarios", it) for it in names if it.endswith(".json")]
        else:
            folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
            files = [path]
        for file in files:
            with open(file) as text:
                it = json.load(text)
            is_part = part is None or it["part"] == part
            if is_part and any(fnmatch.fnmatch(it["name"], pattern) for pattern in patterns):
                yield folder, it


def rows(name):
    path = os.path.join(HERE, name)
    if not os.path.exists(path):
        return {}
    with open(path, "rb") as file:
        table = tomllib.load(file)
    return {it: row for row in table.get("row", []) for it in row["scenarios"]}


def queue(folder):
    """The arguments and the environment of a server of three partitions, whose topics are made."""
    broker = os.environ["FAREGATE_TEST_KAFKA"]
    settings = {"FAREGATE_KAFKA_KEY_FILE": served.key_file(folder, "kafka.key"),
                "FAREGATE_KAFKA_TOPIC_PREFIX": "subscriptions"}
    topics = ["topics", "create", "--kafka-brokers", broker, "--partitions", "3", "--fronts", "1", "--replication", "1"]
    subprocess.run([served.binary_to_serve(), *topics], env=os.environ | settings, stdout=subprocess.DEVNULL, check=True)
    return ["--role", "all", "--queue", "kafka", "--kafka-brokers", broker], settings


def play_on_own_server(asked, found):
    """Plays on FAREGATE_BIN and a store of its own, in which `faregate verify` has to find nothing."""
    with tempfile.TemporaryDirectory() as folder:
        among, environment = queue(folder) if asked.on == "partitions" else ([], {})
        database = asked.database
        if asked.on != "sqlite":
            database = served.fresh_database(f"subscriptions_{asked.on}")
        data = ["--database", database] if database else []
        server = Served(served.binary_to_serve(), folder, PORT_FIRST, [*data, *among, "--test-clock"],
                        FAREGATE_LOG_LEVEL="error", **environment)
        server.start()
        try:
            played = play.all_of(server.url, found, asked.verbose)
        finally:
            server.stop()
        code, printed = server.verify()
        if code:
            raise Problem(f"faregate verify: {printed}")
    return played


def main():
    asked = arguments()
    found = list(scenarios(asked.paths, asked.only, asked.part))
    differences, pending = rows("differences.toml"), rows("pending.toml")
    passed = failed = waiting = 0
    played = play.all_of(asked.url, found, asked.verbose) if asked.url else play_on_own_server(asked, found)
    for (_, scenario), (steps, result, unexplained) in zip(found, played):
        name = scenario["name"]
        wanted = compare.with_difference(scenario, differences.get(name))
        lines = compare.differences(wanted, steps, result) + unexplained
        if name in pending:
            waiting += bool(lines)
            lines = [] if lines else ["passes, and is a row of pending.toml"]
        else:
            passed += not lines
        failed += bool(lines)
        for line in lines if asked.verbose else lines[:5]:
            print(f"FAILED {name}: {line}")
    if waiting:
        print(f"{waiting} of what is not built yet fail, as pending.toml says")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not found else 0


processes.main(main)
