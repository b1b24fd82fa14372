"""Plays one recorded workload on three installations and compares what they hold afterwards.

    conformance/postgres conformance/kafka python3 conformance/equality BINARY

One process on SQLite; one process on PostgreSQL; a front and two processors with Kafka between them, on
PostgreSQL. `workload.json` lists what clients send, in order; each request is sent when the one before is
answered. Every answer's status and error code is compared, then every table: see `state.py` for what may
differ. `faregate verify` has to find nothing. Python's standard library only.
"""

import base64
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "scripts")]
import processes  # noqa: E402
import state  # noqa: E402
from processes import LOOPBACK, Group, Problem, say  # noqa: E402

READY_WITHIN_S = 60
ANSWERED_WITHIN_S = 60
# Ids are in the order in which they were made to the millisecond (UUID v7); on a fast disk two fit into one.
BETWEEN_REQUESTS_S = 0.002
API_KEY, API_SECRET = "equality", "secret"
NOBODY = "00000000-0000-4000-8000-000000000000"
# Nobody synthetic signs up: when they do is each installation's own.
SETTINGS = {"FAREGATE_ADMIN_PASSWORD": "password", "FAREGATE_GATEWAY_SIMULATOR_ENABLED": "true",
            "FAREGATE_SIGNUP_PROBE_INTERVAL": "0s"}


class Installation:
    """Some processes over one database, and a URL to talk to."""

    def __init__(self, name, group, url, database):
        self.name, self.group, self.url, self.database = name, group, url, database

    def start(self, binary, name, arguments, port, **settings):
        """Starts a process and waits until it is ready."""
        environment = {**SETTINGS, "FAREGATE_SIGNUP_KEY_FILE": key_file(self.group, "signup.key"),
                       "FAREGATE_KAFKA_KEY_FILE": key_file(self.group, "kafka.key"), **settings}
        name = f"{self.name}-{name}"
        pid = self.group.start(name, [binary, *arguments, "--listen", f"{LOOPBACK}:{port}", "--data-dir",
                                      os.path.join(self.group.state, name)], environment, dies_with_us=True)
        until = time.monotonic() + READY_WITHIN_S
        path = "/health" if arguments[0] == "simulator" else "/health/ready"
        while not processes.answers(f"http://{LOOPBACK}:{port}{path}"):
            if self.group.pid(name) != pid or time.monotonic() > until:
                raise Problem(f"{name} did not become ready:\n{processes.tail(self.group.log(name))}")
            time.sleep(processes.LOOK_EVERY_S)

    def send(self, method, path, body, key=None, tenant=True):
        """Sends a request again until it is taken; its status, its error's code and its Location."""
        headers = {"Authorization": "Basic " + base64.b64encode(b"admin:password").decode(),
                   "Content-Type": "application/json", "X-Killbill-CreatedBy": "equality"}
        if tenant:
            headers.update({"X-Killbill-ApiKey": API_KEY, "X-Killbill-ApiSecret": API_SECRET})
        if key:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        until = time.monotonic() + ANSWERED_WITHIN_S
        while True:
            request = urllib.request.Request(self.url + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=ANSWERED_WITHIN_S) as response:
                    return response.status, None, response.headers.get("Location")
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > until:
                    return error.code, error_code(error.read()), error.headers.get("Location")
            time.sleep(processes.LOOK_EVERY_S)

    def play(self, workload):
        """What was answered to each request."""
        status, _, _ = self.send("POST", "/1.0/kb/tenants", {"apiKey": API_KEY, "apiSecret": API_SECRET}, tenant=False)
        if status != 201:
            raise Problem(f"{self.name}: the tenant was not made: {status}")
        ids, answers = {}, []
        for line in workload:
            time.sleep(BETWEEN_REQUESTS_S)
            method, path = line["send"].split(" ", 1)
            path = re.sub(r"\$\{(\w+)\}", lambda found: ids.get(found[1], NOBODY), path)
            status, code, location = self.send(method, path, line.get("body"), line.get("key"))
            if location and "as" in line:
                ids[line["as"]] = location.rstrip("/").rsplit("/", 1)[1].split("?")[0]
            answers.append((status, code))
        return answers


def error_code(body):
    try:
        return json.loads(body).get("code")
    except (ValueError, AttributeError):
        return None


def key_file(group, name):
    """A file with a key: sign-up's, of which every database holds a check value, or the cluster's; the same for
    all three."""
    path = os.path.join(group.state, name)
    with open(path, "wb") as file:
        file.write(bytes(range(32)))
    os.chmod(path, 0o600)
    return path


def installations(binary, group):
    """The three, started one after the other: each is played on before the next one starts."""
    ports = processes.free_ports(18401, 6)
    simulator = {"FAREGATE_GATEWAY_SIMULATOR_URL": f"http://{LOOPBACK}:{ports[0]}"}
    postgres = dict(it.split("=") for it in os.environ["FAREGATE_TEST_POSTGRES"].split())
    broker = os.environ["FAREGATE_TEST_KAFKA"]

    def database(name):
        state.psql(postgres, "postgres", f"CREATE DATABASE {name}")
        url = f"postgres://{postgres['user']}@{postgres['host']}:{postgres['port']}/{name}?sslmode=disable"
        return url, lambda: state.of_postgres(postgres, name)

    def sqlite():
        directory = os.path.join(group.state, "sqlite-all")
        it = Installation("sqlite", group, f"http://{LOOPBACK}:{ports[1]}",
                          (["--data-dir", directory], lambda: state.of_sqlite(directory)))
        it.start(binary, "all", ["serve"], ports[1], **simulator)
        return it

    def server():
        url, tables = database("equality_memory")
        it = Installation("postgres", group, f"http://{LOOPBACK}:{ports[2]}", (["--database", url], tables))
        it.start(binary, "all", ["serve", "--database", url], ports[2], **simulator)
        return it

    def cluster():
        url, tables = database("equality_kafka")
        it = Installation("kafka", group, f"http://{LOOPBACK}:{ports[3]}", (["--database", url], tables))
        run([binary, "topics", "create", "--kafka-brokers", broker, "--fronts", "1", "--replication", "1"])
        serve = ["serve", "--queue", "kafka", "--kafka-brokers", broker, "--database", url, "--role"]
        it.start(binary, "processor-1", [*serve, "processor"], ports[4], **simulator)
        it.start(binary, "processor-2", [*serve, "processor"], ports[5], **simulator)
        it.start(binary, "front", [*serve, "front"], ports[3], **simulator)
        return it

    Installation("shared", group, None, None).start(binary, "simulator", ["simulator"], ports[0])
    return [sqlite, server, cluster]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Problem(f"{' '.join(command[:3])} failed:\n{done.stdout[-2000:]}")


def check(counts, holds, text):
    counts[0 if holds else 1] += 1
    if not holds:
        print(f"FAILED  {text}")


def main():
    if len(sys.argv) != 2 or not os.environ.get("FAREGATE_TEST_POSTGRES") or not os.environ.get("FAREGATE_TEST_KAFKA"):
        say(__doc__)
        return 2
    binary = os.path.abspath(sys.argv[1])
    workload = json.loads((HERE / "workload.json").read_text())
    counts, first = [0, 0], None
    with tempfile.TemporaryDirectory(prefix="faregate-equality-") as scratch:
        group = Group(scratch)
        try:
            for start in installations(binary, group):
                it = start()
                answers = it.play(workload)
                group.stop([name for name in group.names() if name.startswith(it.name)], 10, signal.SIGTERM)
                where, read = it.database
                run([binary, "verify", *where])
                check(counts, True, "verify")
                tables = state.digests(read())
                total = state.digest(tables.values())
                print(f"{it.name}: {len(answers)} answers, {sum(rows for rows, _, _ in tables.values())} rows, {total}")
                if first is None:
                    first = (answers, tables)
                    continue
                for line, expected, answer in zip(workload, first[0], answers):
                    check(counts, answer == expected, f"{it.name}: {line}: {answer}, not {expected}")
                for table, (_, digest, _) in tables.items():
                    same = digest == first[1][table][1]
                    check(counts, same, f"{it.name}: {table} differs:\n{state.difference(first[1][table], tables[table])}")
        finally:
            group.stop(group.names(), 10, signal.SIGTERM)
    print(f"{counts[0]} passed, {counts[1]} failed")
    return 1 if counts[1] else 0


processes.main(main)
