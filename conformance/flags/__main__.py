"""Stock SDKs of FeatBit and OpenFeature against a server of their own, killed in between.

    python3 conformance/flags FAREGATE [--node COMMAND] [--python COMMAND] [--rust COMMAND]

Each SDK that can run is started behind a proxy of its own (proxy.py) and asked what flags are for users:
its program answers JSON with JSON, and knows nothing of what is checked. What is expected is what the
server explains. Prints a line for every check and ends with "N passed, M failed".
"""

import argparse
import base64
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

from proxy import Proxy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))
import processes  # noqa: E402
from served import Served  # noqa: E402

PORT_FIRST = 19_101
SAMPLE = HERE.parents[1] / "crates" / "api" / "flags" / "sample.json"
MEMBERS = "5e900000-aaaa-4d00-8000-000000000001"
ANSWER_S = 30
# Until a change is there, and until it is after the server was away: SDKs wait longer and longer in between.
FOLLOWS_S = 5
RETURNS_S = 30
SAID_MAX = 400
# A flag that a feature gates, and how long the feature is granted.
PAID = "paid"
GRANTED_S = 8
# An SDK that would come again after 4003 would have done so.
QUIET_S = 6

# Whom a change is followed for; what the others get is asked for afterwards. Of fast-search it is among
# the tenth, and of layout among the half of the members, to whom it comes to belong.
HOME = {"keyId": "user-37", "name": "Cat", "properties": {"age": "30", "country": "fr", "isMember": "false"}}
# All have what conditions ask for: SDKs differ in what an attribute is that a user lacks.
USERS = [
    HOME,
    {"keyId": "ann", "name": "Ann (test)", "properties": {"age": "41", "country": "at", "isMember": "true"}},
    {"keyId": "dan", "name": "Dan", "properties": {"age": "17", "country": "li", "isMember": "false"}},
    {"keyId": "member-1", "name": "Mia", "properties": {"age": "9", "country": "de", "isMember": "true"}},
    {"keyId": "guest-2", "name": "Gus (test)", "properties": {"age": "70", "country": "de", "isMember": "true"}},
]

# Program, type of secret, and what is peculiar to the SDK:
# "streams": it holds a stream of FeatBit's and the flags that it received;
# "pulls": it asks for each evaluation and keeps nothing;
# "archived": it evaluates an archived flag like any other.
SDKS = {
    "@featbit/node-server-sdk": ("node", "node/featbit-server.js", "server", {"streams", "archived"}),
    "@featbit/js-client-sdk": ("node", "node/featbit-client.js", "client", {"streams"}),
    "fb-python-sdk": ("python", "python/featbit.py", "server", {"streams"}),
    "featbit-server-sdk": ("rust", None, "server", {"streams"}),
    "@openfeature/ofrep-provider": ("node", "node/ofrep-server.js", "server", {"pulls"}),
    "@openfeature/ofrep-web-provider": ("node", "node/ofrep-web.js", "client", set()),
}


class Server(Served):
    """The server, and its client."""

    def __init__(self, binary, folder):
        super().__init__(binary, folder, PORT_FIRST)
        self.tenant = f"flags-{uuid.uuid4().hex[:8]}"

    def ask(self, method, path, body=None):
        headers = {
            "Authorization": "Basic " + base64.b64encode(b"admin:password").decode(),
            "X-Killbill-ApiKey": self.tenant, "X-Killbill-ApiSecret": "secret",
            "X-Killbill-CreatedBy": "flags", "Content-Type": "application/json"}
        request = urllib.request.Request(
            "http://%s:%d%s" % (*self.address, path), method=method, headers=headers,
            data=json.dumps(body).encode() if body is not None else None)
        with urllib.request.urlopen(request, timeout=10) as response:
            said = response.read()
            return json.loads(said) if said else None

    def prepare(self):
        """A tenant with the sample; its flags' kinds, and its secrets by type."""
        self.ask("POST", "/1.0/kb/tenants", {"apiKey": self.tenant, "apiSecret": "secret"})
        sample = json.loads(SAMPLE.read_text())
        self.ask("POST", "/v1/environments/dev/import", sample)
        environments = {it["key"]: it for it in self.ask("GET", "/v1/environments")}
        secrets = {it["type"]: it["value"] for it in environments["dev"]["secrets"]}
        return {it["key"]: it["variationType"] for it in sample["featureFlags"]}, secrets

    def sell(self):
        """A feature, an offer of it, and a flag that it gates."""
        everybody = {"variations": [{"id": "on", "rollout": [0, 1], "exptRollout": 1}]}
        self.ask("PUT", "/v1/features/pro", {"name": "Pro", "kind": "switch"})
        self.ask("PUT", "/v1/offers/pro", {
            "name": "Pro", "price": {"amount": "10", "currency": "USD"}, "features": {"pro": True}, "again": "extend",
            "lasts": {"months": 1}})
        self.ask("POST", "/v1/flags", {
            "key": PAID, "name": PAID, "variationType": "boolean", "isEnabled": True, "gate": "pro",
            "variations": [{"id": "on", "value": "true"}, {"id": "off", "value": "false"}],
            "disabledVariationId": "off", "fallthrough": everybody})

    def account(self, key):
        self.ask("POST", "/1.0/kb/accounts", {"externalKey": key, "currency": "USD"})
        account = self.ask("GET", f"/1.0/kb/accounts?externalKey={key}")["accountId"]
        self.ask("POST", f"/1.0/kb/accounts/{account}/paymentMethods?isDefault=true", {"pluginName": "__EXTERNAL_PAYMENT__"})
        return account

    def buy(self, account):
        bought = self.ask("POST", f"/v1/accounts/{account}/purchases", {
            "offer": "pro", "expectedPrice": {"amount": "10.00", "currency": "USD"}})
        return bought["payment"]["paymentId"]

    def explained(self, flag, kind, user):
        properties = [{"name": name, "value": value} for name, value in user["properties"].items()]
        asked = {"keyId": user["keyId"], "name": user["name"], "customizedProperties": properties}
        variation = self.ask("POST", f"/v1/flags/{flag}/explain", asked)["variation"]
        return variation and typed(kind, variation["value"])


class Client:
    """A program with an SDK, behind its proxy."""

    def __init__(self, command, proxy, secret):
        self.proxy = proxy
        self.process = subprocess.Popen(
            [*command, proxy.url, secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.initialized = None

    def begin(self):
        self.initialized = self.answer()["initialized"]

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the program ended"
        return json.loads(line)

    def evaluate(self, flag, kind, user):
        self.process.stdin.write(json.dumps({"flag": flag, "kind": kind, "user": user}) + "\n")
        self.process.stdin.flush()
        return typed(kind, self.answer()["value"])

    def end(self):
        self.process.kill()
        self.process.wait()


class Conformance:
    """What is done to the server, and what every SDK must make of it."""

    def __init__(self, server, sdks):
        self.server = server
        self.kinds, secrets = server.prepare()
        self.traits = {name: traits for name, (_, _, traits) in sdks.items()}
        self.clients, self.strangers = {}, {}
        # What each SDK was brought to believe.
        self.beliefs = {}
        for name, (command, kind, _) in sdks.items():
            secret = secrets[kind]
            wrong = ("a" if secret[0] != "a" else "b") + secret[1:]
            self.clients[name] = Client(command, Proxy(server.address), secret)
            self.strangers[name] = Client(command, Proxy(server.address), wrong)
        self.passed = self.failed = 0

    def run(self):
        self.begin_all()
        self.agree()
        self.toggle()
        self.change_segment()
        self.put_away()
        self.crash()
        self.buy()
        self.refuse()

    def check(self, what, holds):
        """Asks for every SDK at the same time whether something holds."""
        def one(name):
            begun = time.monotonic()
            try:
                holds(name)
                return True, f"passed  {name}: {what} ({1000 * (time.monotonic() - begun):.0f} ms)"
            except Exception as error:  # one that fails does not hide the others
                return False, f"FAILED  {name}: {what}: {type(error).__name__}: {str(error)[:SAID_MAX]}"
        with concurrent.futures.ThreadPoolExecutor(len(self.traits)) as pool:
            for is_good, line in pool.map(one, self.clients):
                self.passed, self.failed = self.passed + is_good, self.failed + (not is_good)
                print(line, flush=True)

    def begin_all(self):
        def begin(name):
            self.clients[name].begin()
            assert self.clients[name].initialized, "it says that it is not"
        self.check("initialises", begin)
        # What follows would only say the same again.
        self.clients = {name: it for name, it in self.clients.items() if it.initialized or it.end()}

    def expected(self, users):
        return {(user["keyId"], flag): self.server.explained(flag, kind, user)
                for user in users for flag, kind in self.kinds.items()}

    def found(self, name, users):
        client = self.clients[name]
        return {(user["keyId"], flag): client.evaluate(flag, kind, user)
                for user in users for flag, kind in self.kinds.items()}

    def compare(self, name, users):
        compare(of_users(users, self.beliefs[name]), self.found(name, users))

    def agree(self):
        expected = self.expected(USERS)
        assert len(expected) == 25 and len({json.dumps(it) for it in expected.values()}) > 5
        self.beliefs = dict.fromkeys(self.clients, expected)
        self.check("agrees on 25 evaluations", lambda name: self.compare(name, USERS))

    def follow(self, what, path, change, archived=None):
        """A change is there for the user who is asked for already; then all users have it."""
        for name in self.clients:
            self.found(name, [HOME])
        before = self.expected([HOME])
        self.server.ask("PATCH", path, change)
        expected = self.expected(USERS)
        assert any(expected[of] != value for of, value in before.items()), "nothing changed for HOME"

        def follows(name):
            before, now = self.beliefs[name], dict(expected)
            if archived and "archived" in self.traits[name]:
                received = [it for it in self.clients[name].proxy.syncs()[-1]["featureFlags"] if it["isArchived"]]
                assert [it["key"] for it in received] == [archived], received
                now = {of: before[of] if of[1] == archived else value for of, value in now.items()}
            self.beliefs[name] = now
            wait_for(lambda: self.found(name, [HOME]), of_users([HOME], now), FOLLOWS_S)
            self.compare(name, USERS)
        self.check(what, follows)

    def toggle(self):
        self.follow("follows a flag that is switched off", "/v1/flags/new-checkout", {"isEnabled": False})

    def change_segment(self):
        change = {"included": ["member-1", HOME["keyId"]]}
        self.follow("follows a change of a segment", f"/v1/segments/{MEMBERS}", change)

    def put_away(self):
        self.follow("follows an archived flag", "/v1/flags/fast-search", {"isArchived": True}, "fast-search")

    def crash(self):
        for name in self.clients:
            self.found(name, [HOME])
            self.clients[name].proxy.is_open = False
        self.server.kill()

        def keeps(name):
            if "pulls" in self.traits[name]:
                found = self.found(name, [HOME])
                compare(dict.fromkeys(found), found)
            else:
                self.compare(name, [HOME])
        self.check("keeps its last values while the server is down", keeps)

        self.server.start()
        self.server.ask("PATCH", "/v1/flags/new-checkout", {"isEnabled": True})
        value = self.server.explained("new-checkout", "boolean", HOME)
        assert value is True
        for client in self.clients.values():
            client.proxy.is_open = True

        def returns(name):
            client = self.clients[name]
            wait_for(lambda: client.evaluate("new-checkout", "boolean", HOME), value, RETURNS_S)
            if "streams" in self.traits[name]:
                first = client.proxy.syncs()[0]
                assert len(client.proxy.streams) > 1 and first["eventType"] == "patch", first
                keys = [it.get("key", it["id"]) for it in first["featureFlags"]]
                assert keys == ["new-checkout"], f"more than what changed: {keys}"
            before = self.beliefs[name]
            self.beliefs[name] = {of: value if of[1] == "new-checkout" else it for of, it in before.items()}
            self.compare(name, USERS)
        self.check("has what changed while it was away", returns)

    def buy(self):
        """A flag follows what the account of HOME buys, gives back, and has for a while."""
        server = self.server
        server.sell()
        account = server.account(HOME["keyId"])

        def is_on(value):
            def follows(name):
                client = self.clients[name]
                wait_for(lambda: client.evaluate(PAID, "boolean", HOME), value, FOLLOWS_S)
                assert client.evaluate(PAID, "boolean", USERS[1]) is False, "another account has it"
                assert client.evaluate(PAID, "boolean", HOME) is value, "it does not stay"
            return follows

        self.check("has a flag off whose feature was not bought", is_on(False))
        payment = server.buy(account)
        self.check("follows a purchase", is_on(True))
        server.ask("POST", f"/1.0/kb/payments/{payment}/refunds", {"amount": 10})
        self.check("follows a refund", is_on(False))
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + GRANTED_S))
        server.ask("POST", f"/v1/accounts/{account}/grants", {
            "feature": "pro", "value": True, "reason": "trial", "until": until})
        self.check("follows a grant", is_on(True))
        time.sleep(GRANTED_S)
        self.check("follows its end", is_on(False))

    def refuse(self):
        """The programs with a wrong secret have been there from the beginning."""
        time.sleep(QUIET_S)

        def refused(name):
            stranger = self.strangers[name]
            stranger.begin()
            proxy, traits = stranger.proxy, self.traits[name]
            if "streams" in traits:
                found = (stranger.initialized, proxy.closes, len(proxy.streams))
                assert found == (False, [4003], 1), f"initialized, closes, connections: {found}"
            else:
                assert stranger.initialized == ("pulls" in traits)
                assert stranger.evaluate("new-checkout", "boolean", HOME) is None
                assert set(proxy.statuses) == {401}, proxy.statuses
        self.check("is refused with a wrong secret, and does not come again", refused)

    def end(self):
        for client in [*self.clients.values(), *self.strangers.values()]:
            client.end()


def typed(kind, value):
    """A value by its meaning: some SDKs give texts, some what the flag is made of."""
    if kind == "string" or not isinstance(value, str):
        return value
    return json.loads(value)


def of_users(users, table):
    keys = {user["keyId"] for user in users}
    return {of: value for of, value in table.items() if of[0] in keys}


def compare(expected, found):
    wrong = {of: (found.get(of), value) for of, value in expected.items() if found.get(of) != value}
    assert not wrong, "; ".join(f"{of}: {was!r} instead of {value!r}" for of, (was, value) in wrong.items())


def wait_for(look, expected, within_s):
    until = time.monotonic() + within_s
    while (found := look()) != expected:
        assert time.monotonic() < until, f"after {within_s} s: {found} instead of {expected}"
        time.sleep(0.01)


def wait_until(holds, within_s, otherwise):
    until = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until:
            sys.exit(otherwise)
        time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("faregate")
    for runtime in ("node", "python", "rust"):
        parser.add_argument(f"--{runtime}")
    options = parser.parse_args()
    sdks = {}
    for name, (runtime, program, secret, traits) in SDKS.items():
        if command := getattr(options, runtime):
            sdks[name] = ([command, *([HERE / program] if program else [])], secret, traits)
    if not sdks:
        sys.exit("nothing to run the SDKs with")
    with tempfile.TemporaryDirectory(prefix="faregate-flags-") as folder:
        server = Server(options.faregate, folder)
        server.start()
        conformance = None
        try:
            conformance = Conformance(server, sdks)
            conformance.run()
        finally:
            if conformance:
                conformance.end()
            server.kill()
    print(f"{conformance.passed} passed, {conformance.failed} failed")
    return 1 if conformance.failed or not conformance.passed else 0


if __name__ == "__main__":
    sys.exit(main())
