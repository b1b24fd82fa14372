"""A server that is measured: on a CPU and a data directory of its own."""

import base64
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import processes  # noqa: E402

PORT_FIRST = 19_901
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

    def ask(self, method, path, body=None, tenant=("bob", "lazar"), content_type="application/json"):
        """The body of a response, and the Location it names."""
        headers = {"Authorization": "Basic " + base64.b64encode(b"admin:password").decode(), "X-Killbill-CreatedBy": "bench",
                   "X-Killbill-ApiKey": tenant[0], "X-Killbill-ApiSecret": tenant[1], "Content-Type": content_type}
        body = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.read(), response.headers.get("Location")

    def get(self, path, api_key, api_secret):
        return json.loads(self.ask("GET", path, tenant=(api_key, api_secret))[0])

    def cpu_s(self):
        """What it used of CPU since its start, in seconds."""
        user, system = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Fresh:
    """A server on a new data directory, which goes with it."""

    def __init__(self, binary, *arguments, settings=()):
        self.folder = tempfile.TemporaryDirectory()
        port = processes.free_ports(PORT_FIRST, 1)[0]
        self.server = Server(binary, self.folder.name, port, *arguments, settings=settings)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.__exit__()
        self.folder.cleanup()


def print_table(measurements, args):
    """Has those of `args.only` measured `args.rounds` times, and prints the medians as a table."""
    print("| measurement | median | rounds | asked |\n|---|---|---|---|", flush=True)
    for measure in (it for it in measurements if it.__name__ in args.only.split(",")):
        seen = {}
        for _ in range(args.rounds):
            for name, figure, asked in measure(args):
                seen.setdefault((name, asked), []).append(figure)
        for (name, asked), figures in seen.items():
            rounds = ", ".join(f"{it:.4g}" for it in figures)
            print(f"| {measure.__name__}: {name} | {statistics.median(figures):.5g} | {rounds} | {asked} |", flush=True)
