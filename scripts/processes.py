"""Processes that outlive the script which starts them, and are stopped only if they are still ours.

Linux. A process is known by a record in the state directory: its id and the kernel's time of its
start, so that an id which was given to somebody else is never signalled. Whatever was started and has
no record (a script that was killed in between) is found by the mark in its environment.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

MARK = "FAREGATE_STARTED_FOR"
LOOPBACK = "127.0.0.1"
LOOK_EVERY_S = 0.05
PORTS_TRIED_MAX = 1000


class Problem(Exception):
    """Something that the user has to read; no stack trace helps."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def main(run):
    """Runs a script's `run()`; a problem is one line and exit code 2."""
    name = os.path.basename(sys.argv[0])
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(run())
    except Problem as problem:
        say(f"{name}: {problem}")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of the output closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        sys.exit(130)


def interrupt(*_):
    """A signal's handler: what was begun is undone on the way out, as after Ctrl-C."""
    raise KeyboardInterrupt


class Group:
    """The processes of one state directory."""

    def __init__(self, state):
        self.state = os.path.realpath(state)
        self.records = os.path.join(self.state, "processes")
        self.logs = os.path.join(self.state, "logs")
        self.children = []

    def lock(self):
        """Waits until nobody else changes this state directory; held until the script ends."""
        os.makedirs(self.state, exist_ok=True)
        self.locked = open(os.path.join(self.state, "lock"), "w")
        fcntl.flock(self.locked, fcntl.LOCK_EX)

    def log(self, name):
        return os.path.join(self.logs, f"{name}.log")

    def start(self, name, command, environment=None, dies_with_us=False):
        """Starts a process in a session of its own and returns its id."""
        if self.pid(name):
            raise Problem(f"{name} runs already")
        os.makedirs(self.records, exist_ok=True)
        os.makedirs(self.logs, exist_ok=True)
        marked = {**os.environ, **(environment or {}), MARK: self.state}
        with open(self.log(name), "ab") as log:
            process = subprocess.Popen(
                command, env=marked, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent if dies_with_us else None)
        self.children.append(process)
        write_json(self.record(name), {"pid": process.pid, "started": started(process.pid)})
        return process.pid

    def record(self, name):
        return os.path.join(self.records, f"{name}.json")

    def pid(self, name):
        """The id of a process that runs; None where it does not."""
        record = read_json(self.record(name))
        if record and record["started"] and started(record["pid"]) == record["started"]:
            return record["pid"]
        return None

    def names(self):
        """Every process that was started and not stopped since."""
        if not os.path.isdir(self.records):
            return []
        return sorted(it[:-5] for it in os.listdir(self.records) if it.endswith(".json"))

    def tell(self, name, which):
        """Sends a signal; says whether there was somebody to take it."""
        pid = self.pid(name)
        return bool(pid) and send(pid, which)

    def stop(self, names, within_s, gentle=signal.SIGTERM):
        """Stops processes: gently, and those that are still there after `within_s` by force."""
        waiting = {}
        for name in names:
            pid = self.pid(name)
            if pid:
                send(pid, gentle)
                send(pid, signal.SIGCONT)
                waiting[name] = pid
        forced = [name for name in waiting if not self.wait_for_end(name, waiting[name], within_s)]
        for name in forced:
            send(waiting[name], signal.SIGKILL)
        for name in forced:
            self.wait_for_end(name, waiting[name], 5)
        for name in names:
            if not self.pid(name):
                remove(self.record(name))
        return forced

    def wait_for_end(self, name, pid, within_s):
        return wait_until(lambda: reap(pid) or self.pid(name) != pid, within_s)

    def stop_strays(self):
        """Kills what carries our mark and has no record; returns the ids."""
        known = {self.pid(name) for name in self.names()}
        found = [pid for pid in marked_with(self.state) if pid not in known]
        for pid in found:
            send(pid, signal.SIGKILL)
        for pid in found:
            wait_until(lambda pid=pid: reap(pid) or not started(pid), 5)
        return found


def started(pid):
    """The kernel's time of a process's start, with the boot; None where there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{boot()}:{fields[19]}"


def boot():
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read().strip()


def marked_with(state):
    mark = f"{MARK}={state}".encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as environment:
                if mark in environment.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue
    return found


def send(pid, which):
    try:
        os.kill(pid, which)
        return True
    except ProcessLookupError:
        return False


def reap(pid):
    """Whether it was a child of ours and has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


def die_with_parent():
    """Between fork and exec: a kill of the script kills the process too (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_until(holds, within_s):
    until = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def answers(url, timeout_s=2):
    """Whether a GET is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            return response.status == 200
    except (OSError, urllib.error.URLError):
        return False


def free_ports(first, count, step=1, taken=()):
    """`count` ports from `first` on, in steps. They are below those that the system gives to outgoing
    connections, so that a process which is started again finds its port free."""
    found = []
    port = first
    for _ in range(PORTS_TRIED_MAX):
        if port not in taken and is_free(port):
            found.append(port)
            if len(found) == count:
                return found
        port += step
    raise Problem(f"no {count} free ports from {first} on")


def is_free(port):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def write_json(path, value):
    """Writes the whole file or nothing."""
    scratch = f"{path}.new"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.replace(scratch, path)


def remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass


def tail(path, lines=12):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:]).rstrip()
    except FileNotFoundError:
        return ""
