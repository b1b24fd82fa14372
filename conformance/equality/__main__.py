"""Plays one recorded workload and one year on three installations each, and compares what they answer and hold.

    conformance/postgres conformance/kafka python3 conformance/equality BINARY

One process on SQLite; one process on PostgreSQL; several with Kafka between them, on PostgreSQL. `workload.json` lists
what clients send, in order, to a front and two processors; each request is sent when the one before is answered. Every
answer's status and error code is compared, then every table: see `state.py` for what may differ. `year.py` has
subscriptions and invoices until the test clock is twelve months on, in two processes that have APIs and partitions
both; every answer is compared. `faregate verify` has to find nothing. Python's standard library only.
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
import served  # noqa: E402
import state  # noqa: E402
from installation import Installation, run  # noqa: E402
from processes import LOOPBACK, Group, say  # noqa: E402
from year import Year  # noqa: E402

PORT_FIRST = 18401
# The processes with Kafka between them, each with its role; the last one is spoken to.
OF_WORKLOAD = [("processor-1", "processor"), ("processor-2", "processor"), ("front", "front")]
DIFFERENCES_SHOWN = 5
OF_YEAR = [("all-1", "all"), ("all-2", "all")]


class Installations:
    """The three of a run, started one after the other: each is played on before the next one starts."""

    def __init__(self, binary, group, name, arguments=()):
        self.binary, self.group, self.name, self.arguments = binary, group, name, list(arguments)
        port = processes.free_ports(PORT_FIRST, 1)[0]
        self.settings = {"FAREGATE_GATEWAY_SIMULATOR_URL": f"http://{LOOPBACK}:{port}",
                         "FAREGATE_KAFKA_TOPIC_PREFIX": f"equality-{name}"}
        Installation(name, group, None, None).start(binary, "simulator", ["simulator"], port)

    def start(self, kind, among):
        """Starts one of them; `among` are its processes with a queue between them."""
        if kind == "sqlite":
            directory = os.path.join(self.group.state, f"{self.name}-sqlite-all")
            return self.serve(kind, ([], ["--data-dir", directory]), lambda: state.of_sqlite(directory))
        name = f"{self.name}_{kind}"
        where, tables = ["--database", served.fresh_database(name)], lambda: state.of_postgres(served.postgres(), name)
        if kind == "postgres":
            return self.serve(kind, (where, where), tables)
        broker = ["--kafka-brokers", os.environ["FAREGATE_TEST_KAFKA"]]
        run([self.binary, "topics", "create", *broker, "--fronts", "2", "--replication", "1"], self.settings)
        return self.serve(kind, ([*where, *broker, "--queue", "kafka"], where), tables, among)

    def serve(self, kind, places, tables, among=(("all", "all"),)):
        given, read = places
        ports = processes.free_ports(PORT_FIRST, len(among))
        it = Installation(f"{self.name}-{kind}", self.group, [f"http://{LOOPBACK}:{port}" for port in ports], (read, tables))
        for at, (port, (name, role)) in enumerate(zip(ports, among)):
            # Of those with APIs, each answers on a topic of its own.
            number = {"FAREGATE_KAFKA_FRONT_ID": str(at if role == "all" else 0)}
            it.start(self.binary, name, ["serve", *given, "--role", role, *self.arguments], port, **self.settings, **number)
        return it

    def stop(self, it):
        """Stops one of them, in which `faregate verify` has to find nothing then; its tables."""
        self.group.stop([name for name in self.group.names() if name.startswith(it.name)], 10, signal.SIGTERM)
        where, read = it.database
        run([self.binary, "verify", *where])
        return read()


def check(counts, holds, text):
    counts[0 if holds else 1] += 1
    if not holds:
        print(f"FAILED  {text}")


def play_workload(binary, group, counts):
    """Plays what clients send in order."""
    workload, first = json.loads((HERE / "workload.json").read_text()), None
    all_of = Installations(binary, group, "equality")
    for kind in ("sqlite", "postgres", "kafka"):
        it = all_of.start(kind, OF_WORKLOAD)
        answers = it.play(workload)
        tables = state.digests(all_of.stop(it))
        check(counts, True, "verify")
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


def play_year(binary, group, counts):
    """Plays a year of subscriptions."""
    first = None
    all_of = Installations(binary, group, "year", ["--test-clock"])
    for kind in ("sqlite", "postgres", "kafka"):
        it = all_of.start(kind, OF_YEAR)
        year = Year(it.urls)
        answers = year.play()
        all_of.stop(it)
        check(counts, True, "verify")
        print(f"{it.name}: {len(answers)} answers, {state.digest(answers)}")
        if first is None:
            first = answers
            continue
        check(counts, len(answers) == len(first), f"{it.name}: {len(answers)} answers, not {len(first)}")
        for expected, answer in zip(first, answers):
            check(counts, answer == expected, f"{it.name}: {answer[0]}: {different(expected, answer)}")


def different(expected, answer):
    """The lines of an answer that are others."""
    lines = zip(f"{expected[1]}\n{expected[2]}".splitlines(), f"{answer[1]}\n{answer[2]}".splitlines())
    found = [f"{b.strip()}, not {a.strip()}" for a, b in lines if a != b]
    return "; ".join(found[:DIFFERENCES_SHOWN]) or "it is longer or shorter"


def main():
    if len(sys.argv) != 2 or not os.environ.get("FAREGATE_TEST_POSTGRES") or not os.environ.get("FAREGATE_TEST_KAFKA"):
        say(__doc__)
        return 2
    binary = os.path.abspath(sys.argv[1])
    counts = [0, 0]
    with tempfile.TemporaryDirectory(prefix="faregate-equality-") as scratch:
        group = Group(scratch)
        try:
            play_workload(binary, group, counts)
            play_year(binary, group, counts)
        finally:
            group.stop(group.names(), 10, signal.SIGTERM)
    print(f"{counts[0]} passed, {counts[1]} failed")
    return 1 if counts[1] else 0


processes.main(main)
