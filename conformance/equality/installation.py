"""An installation that requests are played on: some processes over one database."""

import base64
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request

import processes
from processes import LOOPBACK, Problem
from served import key_file

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
    """Some processes over one database, and their URLs, of which the last one is talked to."""

    def __init__(self, name, group, urls, database):
        self.name, self.group, self.urls, self.database = name, group, urls, database
        self.url = urls[-1] if urls else None

    def start(self, binary, name, arguments, port, **settings):
        """Starts a process and waits until it is ready."""
        environment = {**SETTINGS, "FAREGATE_SIGNUP_KEY_FILE": key_file(self.group.state, "signup.key"),
                       "FAREGATE_KAFKA_KEY_FILE": key_file(self.group.state, "kafka.key"), **settings}
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

    def get(self, path):
        """What a route answers."""
        headers = {"Authorization": "Basic " + base64.b64encode(b"admin:password").decode(),
                   "X-Killbill-ApiKey": API_KEY, "X-Killbill-ApiSecret": API_SECRET}
        request = urllib.request.Request(self.url + path, None, headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWERED_WITHIN_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise Problem(f"{path}: {error.code} {error.read().decode()}") from error

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


def run(command, settings=()):
    done = subprocess.run(command, env={**os.environ, **dict(settings)}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Problem(f"{' '.join(command[:3])} failed:\n{done.stdout[-2000:]}")
