"""The server under attack: started on free ports with a temporary data directory, watched from /proc."""

import itertools
import json
import os
import pathlib
import re
import resource
import urllib.request

import processes
import wire
from processes import LOOPBACK
from served import Served

PORT_FIRST = 18_901
# Short, so that what has to time out does so while the suite looks on. The bounds of time in the attacks
# are these plus SLACK_S.
HEADERS_TIMEOUT_S = 1
BODY_TIMEOUT_S = 1
IDLE_TIMEOUT_S = 2
GATEWAY_CALLS_MAX = 64
SETTINGS = {
    "FAREGATE_HTTP_HEADERS_TIMEOUT": f"{HEADERS_TIMEOUT_S}s",
    "FAREGATE_HTTP_BODY_TIMEOUT": f"{BODY_TIMEOUT_S}s",
    "FAREGATE_HTTP_IDLE_TIMEOUT": f"{IDLE_TIMEOUT_S}s",
    # With a trusted proxy this machine is no exception any more: each 127.0.0.N is a network with limits.
    "FAREGATE_ACCESS_TRUSTED_PROXIES": "192.0.2.1",
    "FAREGATE_SIGNUP_PROBE_INTERVAL": "0s",
    "FAREGATE_GATEWAY_IN_FLIGHT_MAX": str(GATEWAY_CALLS_MAX),
}
# Waits for a busy machine, never for the server's own timeouts.
SLACK_S = 3


class Server(Served):
    """The process, its addresses, and what it uses."""

    def __init__(self, binary, folder, settings):
        super().__init__(binary, folder, PORT_FIRST, ["--test-clock"], **SETTINGS, **settings)
        self.grpc = (LOOPBACK, processes.free_ports(PORT_FIRST, 1, taken=[self.address[1]])[0])
        self.arguments += ["--grpc-listen", "%s:%d" % self.grpc]
        self.folder = pathlib.Path(folder)
        # The secret of the environment `dev` for servers, and an account that can pay: see `prepare`.
        self.secret = self.account = None
        self.numbers = itertools.count()

    def prepare(self):
        """Makes the tenant of all clients, an account that can pay, and reads a secret of SDKs."""
        self.make("/1.0/kb/tenants", {"apiKey": wire.TENANT[0], "apiSecret": wire.TENANT[1]})
        self.account = self.make("/1.0/kb/accounts", {"currency": "USD"})
        self.make(f"/1.0/kb/accounts/{self.account}/paymentMethods?isDefault=true",
                  {"pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {}})
        environments = json.loads(wire.ask(self.address, wire.request("GET", "/v1/environments"))[2])
        dev = next(it for it in environments if it["key"] == "dev")
        self.secret = next(it["value"] for it in dev["secrets"] if it["type"] == "server")

    def make(self, path, body):
        """Makes an object; its id."""
        status, headers, said = wire.ask(self.address, wire.request("POST", path, json.dumps(body).encode()))
        assert status == 201, f"{path}: {status} {said[:200]!r}"
        return headers[b"location"].decode().rstrip("/").rsplit("/", 1)[1]

    def next_number(self):
        """For names that no request used before."""
        return next(self.numbers)

    def health(self):
        """The status of /health/ready; 0 without an answer."""
        try:
            with urllib.request.urlopen("http://%s:%d/health/ready" % self.address, timeout=5) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def in_progress(self):
        """How many requests are in progress, as the metrics say."""
        token = (self.data / "metrics.token").read_text().strip()
        said = wire.ask(self.address, wire.request("GET", "/metrics", Authorization=f"Bearer {token}"), timeout_s=60)[2]
        return float(re.search(rb"^faregate_requests_in_progress (\S+)", said, re.MULTILINE)[1])

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def bad_log_lines(self):
        """The lines that report a panic or are of level error."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [it for it in lines if re.search(r'panic|\bERROR\b|"level":\s*"error"', it, re.IGNORECASE)]


def raise_file_limit():
    """Allows this process as many open files as it may have; their number."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
