"""What accounts buy while a server is killed: purchases, what is granted, and what clients were shown."""

import asyncio
import json

import flag_stream
import load
import paid_rpc

FLAG, FEATURE, OFFER = "paid", "sso", "everything"
PRICE = {"amount": "10.00", "currency": "USD"}
BUYERS = 8
AT_ONCE = 16
PAUSE_S = 0.02


class Account:
    """The account of a client's user, and the payment of what it has; `asked` is what has no answer yet."""

    def __init__(self, user):
        self.user, self.id, self.payment, self.asked = user, None, None, None
        self.has_bought, self.was_shown = False, False


class Purchases:
    """The accounts of a run's client users: they buy and give back."""

    def __init__(self, crash):
        self.crash = crash
        self.accounts = {it.user["keyId"]: Account(it.user["keyId"]) for it in crash.clients if it.user}
        self.on = None
        self.counts = dict.fromkeys(["bought", "refunded", "done_unanswered", "undone_unanswered", "agreed", "agreed_by_rpc"], 0)
        self.rpc = None

    def flag(self):
        """A flag that the feature gates."""
        everybody = {"variations": [{"id": "on", "rollout": [0, 1], "exptRollout": 1}]}
        return {"key": FLAG, "name": FLAG, "variationType": "boolean", "isEnabled": True, "gate": FEATURE,
                "variations": [{"id": "on", "value": "true"}, {"id": "off", "value": "false"}],
                "disabledVariationId": "off", "fallthrough": everybody}

    async def prepare(self):
        await self.crash.ask("PUT", f"/v1/features/{FEATURE}", {"name": FEATURE, "kind": "switch"})
        await self.crash.ask("PUT", f"/v1/offers/{OFFER}", {
            "name": OFFER, "price": PRICE, "features": {FEATURE: True}, "lasts": {"months": 1}, "again": "extend"})
        gate = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self.open(it, gate) for it in self.accounts.values()))
        first = next(iter(self.accounts.values()))
        await self.crash.ask("POST", "/v1/flags?environment=dev", self.flag())
        await self.buy(first)
        while self.on is None:
            await asyncio.sleep(PAUSE_S)
            shown = await self.crash.latest([it for it in self.crash.clients if it.user and it.user["keyId"] == first.user])
            documents = self.crash.documents[first.user]
            if documents.get(FLAG, {}).get("variation") == "true":
                self.on = shown[0][first.user, FLAG][1]
        await self.refund(first)

    async def open(self, account, gate):
        async with gate:
            response = await self.crash.send(self.crash.api, "POST", "/1.0/kb/accounts", {
                "externalKey": account.user, "currency": "USD"})
            account.id = response.headers["location"].rstrip("/").rsplit("/", 1)[1]
            await self.crash.send(self.crash.api, "POST", f"/1.0/kb/accounts/{account.id}/paymentMethods?isDefault=true", {
                "pluginName": load.EXTERNAL})

    def shows(self, client):
        """Whether a client shows its user the flag as on."""
        _, digest = client.held.items.get((client.user["keyId"], FLAG), (0, None))
        return digest == self.on

    def hear(self, items):
        """Takes note of what a client was shown of its account; the other items."""
        for (user, flag), (_, digest) in items.items():
            if flag == FLAG and digest == self.on:
                self.accounts[user].was_shown = True
        return {key: it for key, it in items.items() if key[1] != FLAG}

    async def trade(self):
        """Buys and gives back, one account after the other, until the server is gone."""
        crash = self.crash
        while crash.is_up:
            await asyncio.sleep(crash.random.uniform(0, PAUSE_S))
            free = [it for it in self.accounts.values() if not it.asked]
            if not crash.is_up or not free:
                return
            account = crash.random.choice(free)
            try:
                await (self.refund(account) if account.payment else self.buy(account))
            except (OSError, EOFError):
                return

    async def buy(self, account):
        account.asked = "buy"
        self.crash.sent.set()
        response = await self.crash.send(self.crash.api, "POST", f"/v1/accounts/{account.id}/purchases", {
            "offer": OFFER, "expectedPrice": PRICE})
        if response.status != 201:
            self.crash.verdict.add("unexpected", f"a purchase: {response.status} {response.body[:300]!r}")
            return
        account.payment, account.asked, account.has_bought = response.json()["payment"]["paymentId"], None, True
        self.counts["bought"] += 1

    async def refund(self, account):
        account.asked = "refund"
        response = await self.crash.send(self.crash.api, "POST", f"/1.0/kb/payments/{account.payment}/refunds", {
            "amount": PRICE["amount"]})
        if response.status != 201:
            self.crash.verdict.add("unexpected", f"a refund: {response.status} {response.body[:300]!r}")
            return
        account.payment, account.asked = None, None
        self.counts["refunded"] += 1

    async def look(self):
        """Compares the store after a start with what was answered and shown, and all ways to ask with each other."""
        gate = asyncio.Semaphore(AT_ONCE)
        if paid_rpc.IS_THERE:
            # The server is another after each start.
            name = self.crash.name
            self.rpc = paid_rpc.Rpc("%s:%d" % self.crash.rpc_address, name, self.crash.secrets["client"])
        try:
            await asyncio.gather(*(self.look_at(it, gate) for it in self.accounts.values()))
        finally:
            if self.rpc:
                await self.rpc.close()

    async def look_at(self, account, gate):
        add = self.crash.verdict.add
        async with gate:
            listed = await self.crash.ask("GET", f"/v1/accounts/{account.id}/purchases?limit=1000")
            check = await self.crash.ask("GET", f"/v1/accounts/{account.id}/entitlements/{FEATURE}")
            by_user = await self.ofrep(account.user)
            by_rpc = await self.ask_rpc(account)
        active = [it["paymentId"] for it in listed["purchases"] if it["status"] == "ACTIVE"]
        if len(active) > 1:
            add("granted_twice", f"{account.user}: {active}")
        if account.asked:
            is_done = bool(active) == (account.asked == "buy")
            self.counts["done_unanswered" if is_done else "undone_unanswered"] += 1
        elif active != ([account.payment] if account.payment else []):
            add("lost", f"{account.user}: {account.payment} was answered, the store has {active}")
        if account.was_shown and not (account.has_bought or active):
            add("not_durable", f"{account.user} was shown what nobody bought")
        shown = self.crash.documents[account.user][FLAG]["variation"] == "true"
        ways = [bool(active), check["allowed"], shown, by_user, *by_rpc]
        if len(set(ways)) != 1:
            add("disagree", f"{account.user}: {active} {ways}")
        self.counts["agreed"] += 1
        account.payment, account.asked = (active[0] if active else None), None
        account.has_bought, account.was_shown = bool(active), False

    async def ask_rpc(self, account):
        """What gRPC says of the user's flag and of the account's feature; nothing where it cannot be asked."""
        if not self.rpc:
            return []
        document = await self.crash.ask("GET", f"/v1/accounts/{account.id}/entitlements")
        has, version = await self.rpc.has(account.id, FEATURE)
        if version != document["version"]:
            self.crash.verdict.add("disagree", f"{account.user}: version {version} by gRPC, {document['version']} by HTTP")
        self.counts["agreed_by_rpc"] += 1
        return [has, await self.rpc.flag(account.user, FLAG)]

    async def ofrep(self, user):
        sdk = load.Fronts(["http://%s:%d" % self.crash.address], "", "")
        sdk.headers = f"X-API-Key: {self.crash.secrets['client']}\r\n"
        response = await self.crash.send(sdk, "POST", f"/ofrep/v1/evaluate/flags/{FLAG}", {"context": {"targetingKey": user}})
        return json.loads(response.body)["value"]


def without_flag(items):
    """Items of a server SDK or of an export without the flag that is gated: its rule is made of the gate."""
    return {key: it for key, it in items.items() if key != ("flag", FLAG)}


def documents_of(flags):
    """The flags that a user gets, by key."""
    return {it["id"]: it for it in flags}
