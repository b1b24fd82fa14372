"""A server of a runner's own: on a free port, in a directory of its own, started and stopped by the runner."""

import os
import pathlib
import signal
import subprocess
import time

import processes
from processes import LOOPBACK, Problem

READY_WITHIN_S = 60
STOPPED_WITHIN_S = 30


class Served:
    """`faregate serve`, on the same port and data after every start."""

    def __init__(self, binary, folder, port_first, arguments=(), **environment):
        self.binary, self.arguments = binary, list(arguments)
        self.environment = {"FAREGATE_ADMIN_PASSWORD": "password", **environment}
        self.data, self.log = pathlib.Path(folder, "data"), pathlib.Path(folder, "server.log")
        self.address = (LOOPBACK, processes.free_ports(port_first, 1)[0])
        self.url = "http://%s:%d" % self.address
        self.process = None

    def start(self):
        """Starts it and waits until it is ready."""
        command = [self.binary, "serve", "--listen", "%s:%d" % self.address, "--data-dir", self.data, *self.arguments]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, env={**os.environ, **self.environment}, stdout=log, stderr=log)
        until = time.monotonic() + READY_WITHIN_S
        while not processes.answers(f"{self.url}/health/ready"):
            if self.process.poll() is not None or time.monotonic() > until:
                raise Problem(f"the server did not become ready:\n{self.log_tail()}")
            time.sleep(processes.LOOK_EVERY_S)

    def stop(self):
        """Sends SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOPPED_WITHIN_S)

    def kill(self):
        """Kills it, where it runs."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def verify(self):
        """What `faregate verify` finds in the data of the stopped server: its exit code, and the end of its output."""
        at = self.arguments.index("--database") if "--database" in self.arguments else None
        place = ["--data-dir", self.data] if at is None else self.arguments[at : at + 2]
        done = subprocess.run([self.binary, "verify", *place], capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr)[-2000:]

    def log_tail(self):
        return processes.tail(self.log)


def binary_to_serve():
    """The binary that runners start where they are given no server."""
    binary = os.environ.get("FAREGATE_BIN")
    if not binary:
        raise Problem("FAREGATE_BIN has to name the binary, or an argument a server")
    return os.path.abspath(binary)


def fresh_database(name):
    """Makes a database on the server that `conformance/postgres` started; its URL."""
    psql(postgres(), "postgres", f"CREATE DATABASE {name}")
    return database_url(name)


def database_url(name):
    it = postgres()
    return f"postgres://{it['user']}@{it['host']}:{it['port']}/{name}?sslmode=disable"


def postgres():
    """The server that `conformance/postgres` started: its host, port and user."""
    return dict(it.split("=") for it in os.environ["FAREGATE_TEST_POSTGRES"].split())


def psql(server, database, sql):
    command = ["psql", "-XAtq", "-h", server["host"], "-p", server["port"], "-U", server["user"], "-d", database,
               "-v", "ON_ERROR_STOP=1", "-c", sql]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def key_file(folder, name):
    """A file with a key that only its owner may read: the same bytes in each folder."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(bytes(range(32)))
    os.chmod(path, 0o600)
    return path
