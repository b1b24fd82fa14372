"""Plays recordings of Kill Bill's subscriptions and invoices, and compares each account with what was recorded.

  python3 conformance/subscriptions [DIR|FILE...] [--url U] [--database URL] [--only a,b*] [--part 1|2] [--verbose]

DIR has scenarios/, catalogs/ and setup.json, as conformance/vectors/subscriptions, which is the default; FILE is one
scenario of such a directory. Without --url it starts FAREGATE_BIN on a fresh store with --test-clock.
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
import time
import tomllib
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare  # noqa: E402
import play  # noqa: E402

VECTORS = os.path.join(os.path.dirname(HERE), "vectors", "subscriptions")


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("paths", nargs="*", default=[VECTORS])
    parser.add_argument("--url")
    parser.add_argument("--database")
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


class Server:
    """FAREGATE_BIN on a store of its own."""

    def __init__(self, database):
        self.folder = tempfile.TemporaryDirectory()
        port = subprocess.run([os.path.join(HERE, "../../scripts/free-ports"), "18701", "1"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0]
        self.url = f"http://127.0.0.1:{port}"
        binary = os.environ.get("FAREGATE_BIN")
        if not binary:
            sys.exit("FAREGATE_BIN has to name the binary, or --url a server")
        command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", self.folder.name, "--test-clock"]
        if database:
            command += ["--database", database]
        environment = os.environ | {"FAREGATE_ADMIN_PASSWORD": "password", "FAREGATE_LOG_LEVEL": "error"}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{self.url}/health/ready", timeout=1)
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("the server is not ready")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def main():
    asked = arguments()
    found = list(scenarios(asked.paths, asked.only, asked.part))
    differences, pending = rows("differences.toml"), rows("pending.toml")
    server = None if asked.url else Server(asked.database)
    try:
        url = asked.url or server.url
        played = play.all_of(url, found, asked.verbose)
        passed = failed = waiting = 0
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
    finally:
        if server:
            server.stop()
    if waiting:
        print(f"{waiting} of what is not built yet fail, as pending.toml says")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not found else 0


sys.exit(main())
