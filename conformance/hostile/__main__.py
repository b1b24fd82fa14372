"""Hostile clients against a server of their own, with an honest client beside them.

    python3 conformance/hostile BINARY [GROUP...]

Starts BINARY with SQLite and a temporary data directory. Each group is a file with ATTACKS: functions that do
something no honest client does, and fail where the server answers otherwise than the protocol says. While
an attack runs, the bystander (bystander.py) makes payments. After each, the bystander's errors and p99, the
server's memory and its open files are compared with their bounds. At the end a payment has to work, the log
may hold no panic and no error, and `faregate verify` may find nothing. Prints a line for every attack, and
one that begins with FAILED for every failure; ends with "N passed, M failed".
"""

import concurrent.futures
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import server as servers  # noqa: E402

GROUPS = ["slow", "many", "big", "nested", "wrong", "pipelined", "half_closed", "greedy"]
# The bystander's p99 while an attack runs: this many times its p99 alone, or this, whichever is more.
P99_TIMES_MAX = 10
P99_MS_MAX = 250
ALONE_PERIODS, ALONE_S = 3, 1
# An attack that ends sooner is repeated: the bystander needs requests to have a p99.
ATTACK_S = 0.6
# Of an attack, as long as the bystander's p99 is above its bound.
ATTEMPTS = 3
PAUSE_S = 0.1
# What the server may use more than after its warm-up, once an attack is over.
RESIDENT_MIB_MORE_MAX = 96
OPEN_FILES_MORE_MAX = 16
SETTLES_WITHIN_S = 5
# Of this process: on a machine of their own, hostile clients would not take the server's time.
NICENESS = 15
SAID_MAX = 600


class Suite:
    """A server, its bystander, and the checks."""

    def __init__(self, server):
        self.server = server
        self.passed = self.failed = 0
        server.prepare()
        self.bystander = subprocess.Popen(
            [sys.executable, HERE / "bystander.py", server.address[0], str(server.address[1])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        alone = self.alone()
        self.p99_max_ms = max(P99_TIMES_MAX * alone["p99_ms"], P99_MS_MAX)
        self.files = server.open_files()
        self.resident_mib = server.resident_mib()
        print(f"bystander alone: {alone['requests']} requests, p99 {alone['p99_ms']} ms; bound {self.p99_max_ms:.0f} ms; "
              f"server {self.resident_mib:.0f} MiB, {self.files} files", flush=True)
        self.check("the bystander alone", lambda: compare_errors(alone))
        os.nice(NICENESS)

    def alone(self):
        """What the bystander measures without attacks, in the calmest of a few periods."""
        self.period()
        periods = []
        for _ in range(ALONE_PERIODS):
            time.sleep(ALONE_S)
            periods.append(self.period())
        return min(periods, key=lambda it: it["p99_ms"])

    def period(self):
        """What the bystander measured since it was asked last."""
        self.bystander.stdin.write("\n")
        self.bystander.stdin.flush()
        return json.loads(self.bystander.stdout.readline())

    def check(self, what, holds):
        self.count(what, problem_of(holds))

    def count(self, what, problem):
        self.passed, self.failed = self.passed + (not problem), self.failed + bool(problem)
        if problem:
            print(f"FAILED  {what}: {problem}", flush=True)

    def run(self, group):
        for attack in importlib.import_module(group).ATTACKS:
            self.attack(group, attack)

    def attack(self, group, attack):
        """One attack beside the bystander, and what is left of it."""
        name = f"{group}: {' '.join(attack.__doc__.split()).rstrip('.')}"
        for _ in range(ATTEMPTS):
            self.period()
            begun = time.monotonic()
            problem = problem_of(lambda: repeat(lambda: attack(self.server)))
            took_s = time.monotonic() - begun
            # One that fails at once leaves the bystander no time to be measured.
            time.sleep(max(0, ATTACK_S - took_s))
            beside = self.period()
            print(f"{took_s:5.1f} s  {name}: bystander {beside['requests']} requests, p99 {beside['p99_ms']} ms, "
                  f"{beside['errors']} errors; server {self.server.resident_mib():.0f} MiB, "
                  f"{self.server.open_files()} files", flush=True)
            # Another program's load passes, and the server's own delay comes again.
            if beside["p99_ms"] <= self.p99_max_ms or beside["errors"] or problem:
                break
        self.count(name, problem)
        self.check(f"{name}: bystander", lambda: compare_errors(beside) or self.compare_p99(beside))
        self.check(f"{name}: files and memory", self.settles)

    def compare_p99(self, beside):
        assert beside["p99_ms"] <= self.p99_max_ms, f"p99 {beside['p99_ms']} ms, above {self.p99_max_ms:.0f} ms"

    def settles(self):
        """Files are closed soon after an attack, and memory is released."""
        until = time.monotonic() + SETTLES_WITHIN_S
        while True:
            files = self.server.open_files() - self.files
            resident_mib = self.server.resident_mib() - self.resident_mib
            if files <= OPEN_FILES_MORE_MAX and resident_mib <= RESIDENT_MIB_MORE_MAX:
                return
            assert time.monotonic() < until, f"{files} files and {resident_mib:.0f} MiB more than before the attacks"
            time.sleep(0.05)

    def end(self):
        """After all attacks."""
        self.period()
        time.sleep(ATTACK_S)
        self.check("afterwards: the bystander pays", lambda: compare_errors(self.period()))
        self.bystander.kill()
        self.bystander.wait()
        self.check("afterwards: health", lambda: equal(self.server.health(), 200))
        self.check("afterwards: SIGTERM ends the server", lambda: equal(self.server.stop(), 0))
        self.check("afterwards: no panic and no error in the log", lambda: equal(self.server.bad_log_lines(), []))
        self.check("afterwards: faregate verify finds nothing", self.verify)

    def verify(self):
        code, said = self.server.verify()
        assert code == 0 and "no problems" in said, said


def problem_of(holds):
    """What is raised, as a text; None where it holds. One that fails does not hide the others."""
    try:
        holds()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:SAID_MAX]}"
    return None


def repeat(attack):
    """Attacks for a while, with pauses as long as the attacks: a debug build on a busy machine has to bear it."""
    until = time.monotonic() + ATTACK_S
    while True:
        begun = time.monotonic()
        attack()
        if time.monotonic() >= until:
            return
        time.sleep(max(PAUSE_S, time.monotonic() - begun))


def in_memory():
    """Where a commit does not wait for a disk that is busy with other programs; None where there is no such place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def compare_errors(period):
    assert period["requests"] and not period["errors"], period


def equal(found, expected):
    assert found == expected, f"{found} instead of {expected}"


def main():
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(GROUPS):
        sys.exit(f"usage: python3 conformance/hostile BINARY [{' '.join(GROUPS)}]")
    servers.raise_file_limit()
    begun, results = time.monotonic(), []
    for settings, groups in by_settings(sys.argv[2:] or GROUPS):
        # In a process of its own: the next server is not to have the niceness of hostile clients.
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            results.append(pool.submit(run, sys.argv[1], settings, groups).result())
    passed, failed = (sum(it) for it in zip(*results))
    print(f"{time.monotonic() - begun:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def by_settings(groups):
    """Groups that want other settings have a server of their own: pairs of settings and groups."""
    pairs = []
    for group in groups:
        settings = getattr(importlib.import_module(group), "SETTINGS", {})
        if pairs and pairs[-1][0] == settings:
            pairs[-1][1].append(group)
        else:
            pairs.append((settings, [group]))
    return pairs


def run(binary, settings, groups):
    """Runs groups on a server; how many checks passed and failed."""
    with tempfile.TemporaryDirectory(prefix="faregate-hostile-", dir=in_memory()) as folder:
        server = servers.Server(binary, folder, settings)
        suite = None
        try:
            server.start()
            suite = Suite(server)
            for group in groups:
                suite.run(group)
            suite.end()
        finally:
            if suite:
                suite.bystander.kill()
            server.kill()
    return suite.passed, suite.failed


if __name__ == "__main__":
    sys.exit(main())
