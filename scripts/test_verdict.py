"""Tests of what a chaos run is judged by: python3 -m unittest discover scripts"""

import unittest

import load
import verdict as rules
from load import Account, Payment, Response


def asked(result=load.WORKED, is_called=True, minor=1000):
    return Payment("p1", Account("a1", is_called), minor, due=0, result=result)


def transaction(status="SUCCESS", amount=10.00, key="p1", number="t1"):
    return {"transactionExternalKey": key, "transactionId": number, "status": status, "processedAmount": amount}


def stored(*of_payment):
    return [{"paymentExternalKey": "p1", "transactions": list(of_payment)}]


def record(effect="charged", number="t1", tenant=1):
    return {"effect": effect, "transaction": number, "tenant": tenant}


class Store(unittest.TestCase):
    def found(self, payment, *of_payment):
        verdict = rules.Verdict()
        rules.compare_with_store([payment], stored(*of_payment), verdict)
        return {kind: len(texts) for kind, texts in verdict.found.items() if texts}

    def test_what_agrees_is_sound(self):
        self.assertEqual(self.found(asked(), transaction()), {})
        self.assertEqual(self.found(asked(), transaction("PLUGIN_FAILURE", 0), transaction()), {})
        self.assertEqual(self.found(asked(load.FAILED), transaction("PAYMENT_FAILURE", 0)), {})

    def test_what_differs_is_found(self):
        self.assertEqual(self.found(asked()), {"lost": 1})
        self.assertEqual(self.found(asked(), transaction("UNKNOWN", 0)), {"lost": 1})
        self.assertEqual(self.found(asked(), transaction(), transaction()), {"charged_twice": 1})
        self.assertEqual(self.found(asked(), transaction(amount=10.01)), {"wrong": 1})
        self.assertEqual(self.found(asked(load.FAILED), transaction()), {"wrong": 1})
        self.assertEqual(self.found(asked(None), transaction()), {"unanswered": 1})
        self.assertEqual(self.found(asked(), transaction(), transaction(key="p2")), {"wrong": 1})

    def test_what_is_open_is_named(self):
        self.assertEqual(rules.open_keys(stored(transaction("UNKNOWN"))), ["p1"])
        self.assertEqual(rules.open_keys(stored(transaction())), [])


class Gateway(unittest.TestCase):
    def found(self, of_payment, records, payment=None):
        verdict = rules.Verdict()
        rules.compare_with_gateway([payment or asked()], stored(*of_payment), records, verdict)
        return {kind: len(texts) for kind, texts in verdict.found.items() if texts}

    def test_what_agrees_is_sound(self):
        self.assertEqual(self.found([transaction()], [record(), record("nothing")]), {})
        self.assertEqual(self.found([transaction("PAYMENT_FAILURE")], [record(), record("reversed")]), {})
        self.assertEqual(self.found([transaction()], [], asked(is_called=False)), {})

    def test_what_differs_is_found(self):
        self.assertEqual(self.found([transaction()], []), {"wrong": 1})
        self.assertEqual(self.found([transaction("PAYMENT_FAILURE")], [record()]), {"wrong": 1})
        twice = self.found([transaction()], [record(), record()])
        self.assertEqual(twice, {"charged_twice": 2})
        two = [transaction(), transaction(number="t2")]
        self.assertEqual(self.found(two, [record(), record(number="t2")]), {"charged_twice": 1})

    def test_a_charge_that_nobody_knows_is_found_in_the_same_tenant_only(self):
        self.assertEqual(self.found([transaction()], [record(), record(number="t9")]), {"wrong": 1})
        self.assertEqual(self.found([transaction()], [record(), record(number="t9", tenant=2)]), {})


class Events(unittest.TestCase):
    def found(self, *events):
        verdict = rules.Verdict()
        rules.check_events(events, stored(transaction()), verdict)
        return len(verdict.found["events"])

    def test_what_is_complete_and_in_order_is_sound(self):
        self.assertEqual(self.found((0, "a1", 1, None), (0, "a1", 4, "t1"), (1, "a2", 2, None)), 0)
        again = [(0, "a1", 1, None), (0, "a1", 4, "t1"), (0, "a1", 1, None), (0, "a1", 4, "t1")]
        self.assertEqual(self.found(*again), 0)

    def test_what_differs_is_found(self):
        self.assertEqual(self.found(), 1)
        self.assertEqual(self.found((0, "a1", 4, "t1"), (0, "a1", 1, None)), 1)
        self.assertEqual(self.found((0, "a1", 1, None), (1, "a1", 4, "t1")), 1)


class Meaning(unittest.TestCase):
    def test_answers(self):
        def of(status, body=b""):
            return load.meaning(Response(status, {}, body))

        self.assertEqual(of(201), load.WORKED)
        self.assertEqual(of(400, b'{"code": 7030}'), load.WORKED)
        self.assertEqual([of(402), of(502)], [load.FAILED, load.FAILED])
        self.assertEqual([of(409), of(503), of(504), of(400, b'{"code": 7032}')], [load.AGAIN] * 4)
        for status, body in ((401, b""), (400, b'{"code": 7000}'), (500, b"oops"), (404, b"[]")):
            with self.assertRaises(load.Unexpected):
                of(status, body)


if __name__ == "__main__":
    unittest.main()
