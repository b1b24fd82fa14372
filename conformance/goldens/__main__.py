"""Databases that an earlier release wrote are opened, migrated, verified and served by this one.

    conformance/postgres python3 conformance/goldens BINARY
    conformance/postgres python3 conformance/goldens BINARY --make VERSION

Each directory here is named after a release and has what it left behind: a data directory on SQLite (`faregate.db.gz`
and its keys) and a dump of a database on PostgreSQL (`postgres.sql.gz`). Both hold the requests of
conformance/equality and of `requests.json`; `totals.json` says what has to be found in them. --make writes them,
once for each release; what a release wrote is never written again. Python's standard library only.
"""

import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent / "equality"), str(HERE.parent.parent / "scripts")]
import processes  # noqa: E402
from installation import Installation, run  # noqa: E402
from processes import LOOPBACK, Group, say  # noqa: E402
from served import database_url, postgres, psql  # noqa: E402

KEYS = ["secrets.key", "signup.key"]


def keys_of(directory):
    return {"FAREGATE_FLAGS_KEY_FILE": os.path.join(directory, "secrets.key"),
            "FAREGATE_SIGNUP_KEY_FILE": os.path.join(directory, "signup.key")}


def serve(binary, group, name, place):
    """A server on a data directory or a database."""
    port = processes.free_ports(18501, 1)[0]
    it = Installation(name, group, [f"http://{LOOPBACK}:{port}"], place)
    directory = os.path.join(group.state, f"{name}-all")
    database = place if place[0] == "--database" else []
    it.start(binary, "all", ["serve", "--test-clock", *database], port, **keys_of(directory))
    return it


def stop(group):
    group.stop(group.names(), 10, signal.SIGTERM)


def totals(it):
    """What a release has to find: how many objects there are, and what money moved."""
    pages = {name: it.get(f"/1.0/kb/{name}/pagination?limit=10000") for name in ["accounts", "payments"]}
    return {**{name: len(page) for name, page in pages.items()},
            "ledger": it.get("/v1/ledger/accounts")["accounts"],
            "customers": len(it.get("/v1/customers")["customers"]),
            "flags": len(it.get("/v1/environments/dev/export")["featureFlags"]),
            "changes": len(it.get("/v1/changes?environment=dev")["changes"])}


def make(binary, version):
    directory = HERE / version
    os.makedirs(directory)
    workload = [json.loads(path.read_text()) for path in (HERE.parent / "equality" / "workload.json", HERE / "requests.json")]
    with tempfile.TemporaryDirectory(prefix="faregate-goldens-") as scratch:
        group = Group(scratch)
        for name in ["sqlite", "postgres"]:
            data = os.path.join(scratch, f"{name}-all")
            os.makedirs(data, mode=0o700)
            for at, key in enumerate(KEYS):
                with open(os.open(os.path.join(data, key), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                    file.write(bytes(range(at, at + 32)))
            if name == "postgres":
                psql(postgres(), "postgres", "CREATE DATABASE golden")
            place = ["--data-dir", data] if name == "sqlite" else ["--database", database_url("golden")]
            try:
                it = serve(binary, group, name, place)
                answers = it.play(workload[0] + workload[1])
                wrong = [f"{line['send']}: {status} {code}"
                         for line, (status, code) in zip(workload[1], answers[-len(workload[1]):]) if status >= 300]
                if wrong:
                    raise processes.Problem("\n".join(wrong))
                found = totals(it)
            finally:
                stop(group)
            run([binary, "verify", *place])
            if name == "sqlite":
                (directory / "totals.json").write_text(json.dumps(found, indent=1) + "\n")
                content = pathlib.Path(data, "faregate.db").read_bytes()
                (directory / "faregate.db.gz").write_bytes(gzip.compress(content, mtime=0))
                for key in KEYS:
                    shutil.copy(os.path.join(data, key), directory / key)
            else:
                dump = ["pg_dump", "--no-owner", "--no-privileges", place[1]]
                text = subprocess.run(dump, check=True, stdout=subprocess.PIPE, text=True).stdout
                # Older psql does not know these.
                lines = [line for line in text.splitlines(True) if not line.startswith(("\\restrict", "\\unrestrict"))]
                (directory / "postgres.sql.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    print(f"made {directory.name}")


def place_of(directory, name, data):
    """Puts what a release left behind where this one can serve it."""
    os.makedirs(data, mode=0o700)
    for key in KEYS:
        shutil.copy(directory / key, os.path.join(data, key))
        os.chmod(os.path.join(data, key), 0o600)
    if name == "sqlite":
        content = gzip.decompress((directory / "faregate.db.gz").read_bytes())
        with open(os.open(os.path.join(data, "faregate.db"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        return ["--data-dir", data]
    database = f"golden_{directory.name.replace('.', '_')}"
    psql(postgres(), "postgres", f"CREATE DATABASE {database}")
    content = gzip.decompress((directory / "postgres.sql.gz").read_bytes()).decode()
    it = postgres()
    command = ["psql", "-Xq", "-h", it["host"], "-p", it["port"], "-U", it["user"], "-d", database, "-v", "ON_ERROR_STOP=1"]
    subprocess.run(command, input=content, check=True, stdout=subprocess.DEVNULL, text=True)
    return ["--database", database_url(database)]


def check(binary, directory, name):
    """What is wrong with what a release left behind, or nothing."""
    expected = json.loads((directory / "totals.json").read_text())
    with tempfile.TemporaryDirectory(prefix="faregate-goldens-") as scratch:
        group = Group(scratch)
        place = place_of(directory, name, os.path.join(scratch, f"{name}-all"))
        try:
            it = serve(binary, group, name, place)
            found = totals(it)
            if found != expected:
                return f"{found}, not {expected}"
            account = it.get("/1.0/kb/accounts/pagination?limit=1")[0]["accountId"]
            status, code, _ = it.send("PUT", f"/1.0/kb/accounts/{account}", {"name": "Somebody"})
            if status != 204:
                return f"a write was answered {status} {code}"
        finally:
            stop(group)
        run([binary, "verify", *place])
    return None


def main():
    is_make = len(sys.argv) == 4 and sys.argv[2] == "--make"
    if not (is_make or len(sys.argv) == 2) or not os.environ.get("FAREGATE_TEST_POSTGRES"):
        say(__doc__)
        return 2
    binary = os.path.abspath(sys.argv[1])
    if is_make:
        make(binary, sys.argv[3])
        return 0
    counts = [0, 0]
    for directory in sorted(path for path in HERE.iterdir() if (path / "totals.json").exists()):
        for name in ["sqlite", "postgres"]:
            try:
                wrong = check(binary, directory, name)
            except (processes.Problem, subprocess.CalledProcessError) as error:
                wrong = str(error)
            counts[1 if wrong else 0] += 1
            if wrong:
                print(f"FAILED  {name} of {directory.name}: {wrong}")
    print(f"{counts[0]} passed, {counts[1]} failed")
    return 1 if counts[1] or not counts[0] else 0


processes.main(main)
