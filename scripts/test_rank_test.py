"""Tests of the comparison of times: python3 -m unittest discover scripts"""

import random
import unittest

from rank_test import compare, probability, ranks, spread

ALPHA = 0.001


def times(seed, count, shift=0.0):
    """Times with a long tail, as those of answers are."""
    source = random.Random(seed)
    return [15.0 + source.expovariate(0.5) + shift for _ in range(count)]


class Ranks(unittest.TestCase):
    def test_equal_values_share_their_ranks(self):
        self.assertEqual(ranks([3.0, 1.0, 2.0]), [3, 1, 2])
        self.assertEqual(ranks([5.0, 1.0, 5.0, 9.0]), [2.5, 1, 2.5, 4])
        self.assertEqual(ranks([7.0, 7.0, 7.0]), [2, 2, 2])
        self.assertEqual(ranks([]), [])


class Probability(unittest.TestCase):
    def test_a_case_computed_by_hand(self):
        # All of one before all of the other: U = 0, deviation sqrt(10 * 10 * 21 / 12) = 13.2288,
        # z = (50 - 0.5) / 13.2288 = 3.7418.
        below, above = list(range(10)), list(range(10, 20))
        self.assertAlmostEqual(probability(below, above), 0.0001827, places=6)
        self.assertAlmostEqual(probability(above, below), 0.0001827, places=6)

    def test_equal_values_make_ranks_less_uneven(self):
        # Four are 2 and two are 3: (4^3 - 4 + 2^3 - 2) / (8 * 7) = 1.17857, and
        # sqrt(4 * 4 / 12 * (9 - 1.17857)) = 3.22933.
        self.assertAlmostEqual(spread([1, 2, 2, 3], [2, 2, 3, 4]), 3.22933, places=5)
        self.assertAlmostEqual(spread([1, 2, 3, 4], [5, 6, 7, 8]), 3.46410, places=5)

    def test_equal_samples_are_as_likely_as_can_be(self):
        self.assertEqual(probability([1.0] * 10, [1.0] * 10), 1.0)
        self.assertEqual(probability([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), 1.0)


class Comparing(unittest.TestCase):
    def test_a_difference_is_found_and_bounded(self):
        found = compare(times(1, 300, shift=1.0), times(2, 300), ALPHA)
        self.assertTrue(found.differs, found)
        self.assertTrue(0.0 < found.low < found.shift < found.high, found)
        self.assertTrue(found.low < 1.0 < found.high, found)
        turned = compare(times(2, 300), times(1, 300, shift=1.0), ALPHA)
        self.assertTrue(turned.high < 0.0, turned)

    def test_alarms_without_a_difference_are_as_rare_as_asked(self):
        alarms = sum(
            compare(times(2 * seed, 60), times(2 * seed + 1, 60), 0.05).differs for seed in range(200)
        )
        # One in twenty is to be expected.
        self.assertTrue(1 <= alarms < 25, alarms)

    def test_bounds_hold_nothing_where_nothing_differs(self):
        found = compare(times(3, 300), times(4, 300), ALPHA)
        self.assertFalse(found.differs, found)
        self.assertTrue(found.low < 0.0 < found.high, found)

    def test_too_few_values_say_nothing(self):
        with self.assertRaises(ValueError):
            compare([1.0] * 7, [1.0] * 100, ALPHA)


if __name__ == "__main__":
    unittest.main()
