"""Plays one recorded workload on three installations and compares what they hold afterwards.

    conformance/postgres conformance/kafka python3 conformance/equality BINARY

One process on SQLite; one process on PostgreSQL; a front and two processors with Kafka between them, on
PostgreSQL. `workload.json` lists what clients send, in order; each request is sent when the one before is
answered. Every answer's status and error code is compared, then every table: see `state.py` for what may
differ. `faregate verify` has to find nothing. Python's standard library only.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "scripts")]
import processes  # noqa: E402
import state  # noqa: E402
from installation import Installation, run  # noqa: E402
from processes import LOOPBACK, Group, say  # noqa: E402


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
