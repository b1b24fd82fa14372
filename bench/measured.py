"""A server that is measured: on a CPU and a data directory of its own."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

READY_WITHIN_S = 30
STOPPED_WITHIN_S = 60
PINNED = len(os.sched_getaffinity(0)) > 1


def on_cpu(cpu, command):
    """With two or more CPUs the server has the first, what loads it the second."""
    return ["taskset", "-c", str(cpu), *command] if PINNED else command


def profile(binary):
    """How it was built: the name of the directory that cargo put it in."""
    return Path(binary).resolve().parent.name


def ready(url):
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{url} did not become ready")


class Server:
    """A server in a folder, which is started, and killed at the end of a `with`."""

    def __init__(self, binary, folder, port, *arguments, settings=()):
        self.binary, self.folder, self.port, self.arguments = binary, Path(folder), port, arguments
        self.url, self.data = f"http://127.0.0.1:{port}", Path(folder) / "data"
        self.environment = {**os.environ, "FAREGATE_ADMIN_PASSWORD": "password", "FAREGATE_LOG_LEVEL": "error",
                            **dict(settings)}
        self.start()

    def start(self):
        command = [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data-dir", str(self.data),
                   *self.arguments]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(on_cpu(0, command), stdout=log, stderr=log, env=self.environment)
        ready(self.url + "/health/ready")

    def restart(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOPPED_WITHIN_S)
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def bench(self, *arguments):
        """The report of `bench ...` about it."""
        command = [self.binary, "bench", *arguments, "--pid", str(self.process.pid), "--json"]
        done = subprocess.run(on_cpu(1, command), stdout=subprocess.PIPE, text=True, env=self.environment)
        if not done.stdout.strip():
            sys.exit(f"bench {' '.join(arguments)}: no report")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def get(self, path, api_key, api_secret):
        headers = {"Authorization": "Basic " + base64.b64encode(b"admin:password").decode(),
                   "X-Killbill-ApiKey": api_key, "X-Killbill-ApiSecret": api_secret}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=30) as response:
            return json.loads(response.read())
