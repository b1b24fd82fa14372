"""Tests of what a crash of feature flags is judged by: python3 -m unittest discover scripts"""

import unittest

import flag_books
import flag_stream
import verdict as rules

SECRET = "v3faJy3RCUO8d-EJiVdN6waRfGjfNan02Ms9c0LiTD6w"


class Stream(unittest.TestCase):
    def test_a_token_has_the_secret_and_the_time(self):
        token = flag_stream.token(SECRET, 1666018800754)
        at = int("".join(str(flag_stream.DIGITS.index(it)) for it in token[:3]))
        self.assertEqual(token[3:5], "BS")
        self.assertEqual(token[5:5 + at] + token[5 + at + 13:], SECRET)
        self.assertEqual(token[5 + at:5 + at + 13], "BDDDQBZZQQXHP")

    def test_a_time_is_a_version(self):
        self.assertEqual(flag_stream.milliseconds("2026-03-02T08:15:00.120Z"), 1772439300120)
        self.assertEqual(flag_stream.milliseconds("2026-03-02T08:15:00.1Z"), 1772439300100)
        self.assertEqual(flag_stream.milliseconds("2026-03-02T08:15:00Z"), 1772439300000)

    def test_an_older_item_replaces_nothing(self):
        held = flag_stream.Held()
        held.take(True, {"a": (5, "x"), "b": (3, "y")})
        held.take(False, {"a": (4, "old"), "b": (6, "new")})
        self.assertEqual((held.items, held.version), ({"a": (5, "x"), "b": (6, "new")}, 6))
        held.take(True, {"a": (7, "z")})
        self.assertEqual((held.items, held.version), ({"a": (7, "z")}, 7))


class Received(unittest.TestCase):
    def found(self, *items, store):
        verdict = rules.Verdict()
        received = flag_books.Received(verdict)
        for item in items:
            received.record({"a": item})
        received.compare(store)
        return {kind: len(texts) for kind, texts in verdict.found.items() if texts}

    def test_received_version_or_newer_is_in_store(self):
        self.assertEqual(self.found((1, "x"), (2, "y"), store={"a": (2, "y"), "b": (1, "z")}), {})
        self.assertEqual(self.found((1, "x"), store={"a": (2, "y")}), {})
        self.assertEqual(self.found((2, "y"), store={"a": (1, "x")}), {"not_durable": 1})
        self.assertEqual(self.found((2, "y"), store={}), {"not_durable": 1})

    def test_a_version_has_one_content(self):
        self.assertEqual(self.found((1, "x"), (1, "y"), store={"a": (2, "z")}), {"two_contents": 1})
        self.assertEqual(self.found((1, "x"), store={"a": (1, "y")}), {"two_contents": 1})

    def test_version_missing_at_a_listener_is_found(self):
        received = flag_books.Received(rules.Verdict())
        received.record({"a": (2, "x"), "b": (2, "y")})
        received.record({"a": (2, "x")})
        self.assertEqual(received.missing({"a": (2, "x"), "b": (2, "y"), "c": (1, "z")}, 1, 2), ["b"])


class Ledger(unittest.TestCase):
    def found(self, document, *changes, waiting=None):
        verdict = rules.Verdict()
        ledger = flag_books.Ledger(verdict)
        for change in changes:
            ledger.asked("a", change)
            ledger.acknowledged("a")
        if waiting:
            ledger.asked("a", waiting)
        done = ledger.compare({"a": document})
        return done, len(verdict.found["lost"]), dict(ledger.answered["a"])

    def test_what_was_answered_is_there(self):
        on, off = {"isEnabled": True}, {"isEnabled": False}
        self.assertEqual(self.found(on, on), (0, 0, on))
        self.assertEqual(self.found(off, on, off), (0, 0, off))
        self.assertEqual(self.found(on, on, off)[1], 1)
        self.assertEqual(self.found(None, on)[1], 1)

    def test_what_was_not_answered_may_be_there(self):
        on, off, both = {"isEnabled": True}, {"isEnabled": False}, {"isEnabled": False, "name": "x"}
        self.assertEqual(self.found(off, on, waiting=off), (1, 0, off))
        self.assertEqual(self.found(on, on, waiting=off), (0, 0, on))
        self.assertEqual(self.found({"isEnabled": False, "name": "y"}, on, waiting=both)[1], 1)


class Held(unittest.TestCase):
    def test_a_client_holds_what_the_store_does(self):
        for held, count in [({"a": (1, "x")}, 0), ({}, 1), ({"a": (2, "x")}, 1), ({"a": (1, "x"), "b": (1, "")}, 1)]:
            verdict = rules.Verdict()
            flag_books.compare_held("c", held, {"a": (1, "x")}, verdict)
            self.assertEqual(len(verdict.found["differs"]), count)


if __name__ == "__main__":
    unittest.main()
