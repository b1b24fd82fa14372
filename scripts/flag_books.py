"""Invariants of feature flags after a crash: the answers to writers, the messages to followers and the
store agree."""

from collections import defaultdict


class Received:
    """Every version that a client received since the store was last read."""

    def __init__(self, verdict):
        self.verdict = verdict
        self.known = defaultdict(dict)
        self.times = defaultdict(int)

    def record(self, items):
        for key, (version, digest) in items.items():
            self.times[key, version] += 1
            if self.known[key].setdefault(version, digest) != digest:
                self.verdict.add("two_contents", f"{key} has two contents in version {version}")

    def compare(self, store):
        """Every received version, or a newer one, is in the store: none is published before it is durable."""
        for key, versions in self.known.items():
            newest = max(versions)
            there, digest = store.get(key, (0, None))
            if there < newest:
                self.verdict.add("not_durable", f"{key}: {newest} was received, the store has {there}")
            elif there == newest and digest != versions[newest]:
                self.verdict.add("two_contents", f"{key}: version {newest} is another one in the store")
        self.known.clear()

    def missing(self, store, since, listeners):
        """Keys whose version in the store is newer than `since` and did not reach all listeners."""
        return [key for key, (version, _) in store.items()
                if version > since and self.times[key, version] < listeners]


class Ledger:
    """What was answered to those who change flags, and what they were waiting for."""

    def __init__(self, verdict):
        self.verdict = verdict
        self.answered = defaultdict(dict)
        self.waiting = {}

    def asked(self, key, change):
        self.waiting[key] = change

    def acknowledged(self, key):
        self.answered[key].update(self.waiting.pop(key))

    def compare(self, documents):
        """The store has each change that was answered, and of what was not answered all or nothing.
        Returns how many of those were done."""
        done = 0
        for key, change in list(self.waiting.items()):
            self.waiting.pop(key)
            if holds(documents.get(key), {**self.answered[key], **change}):
                if not holds(documents.get(key), self.answered[key]):
                    done += 1
                self.answered[key].update(change)
        for key, expected in self.answered.items():
            document = documents.get(key)
            if not holds(document, expected):
                found = document and {name: document.get(name) for name in expected}
                self.verdict.add("lost", f"{key}: {found} instead of {expected}")
        return done


def holds(document, fields):
    return document is not None and all(document.get(name) == value for name, value in fields.items())


def compare_held(who, held, store, verdict):
    """What a client keeps is what the store holds."""
    for key in held.keys() | store.keys():
        if held.get(key) != store.get(key):
            verdict.add("differs", f"{who}: {key} is {held.get(key)} instead of {store.get(key)}")
