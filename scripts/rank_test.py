"""Whether two samples are of one distribution: Mann and Whitney's test by ranks, and how far they are apart.

Times of answers have long tails: ranks do not mind them, means would.
"""

import math
import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """What a comparison found; differences are the first sample's, less the second's."""

    median_a: float
    median_b: float
    # The median of all differences (Hodges and Lehmann), and its bounds at the level of the test.
    shift: float
    low: float
    high: float
    # How likely ranks as uneven as these are where there is no difference.
    p: float
    differs: bool


def ranks(values):
    """The rank of each value, from 1; equal ones share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for place in order[begin:end]:
            found[place] = (begin + 1 + end) / 2
        begin = end
    return found


def spread(values_a, values_b):
    """The standard deviation of U where there is no difference, smaller where values are equal."""
    a, b = len(values_a), len(values_b)
    total = a + b
    counts = {}
    for value in (*values_a, *values_b):
        counts[value] = counts.get(value, 0) + 1
    ties = sum(count**3 - count for count in counts.values()) / (total * (total - 1))
    return math.sqrt(a * b / 12 * (total + 1 - ties))


def probability(values_a, values_b):
    """Two-sided, by the normal approximation with a correction for continuity."""
    a, b = len(values_a), len(values_b)
    rank_sum = sum(ranks([*values_a, *values_b])[:a])
    u = rank_sum - a * (a + 1) / 2
    deviation = spread(values_a, values_b)
    if deviation == 0:
        return 1.0
    z = max(abs(u - a * b / 2) - 0.5, 0.0) / deviation
    return math.erfc(z / math.sqrt(2))


def compare(values_a, values_b, alpha):
    """Compares two samples of at least 8 values each."""
    if min(len(values_a), len(values_b)) < 8:
        raise ValueError("too few values to say anything")
    differences = sorted(a - b for a in values_a for b in values_b)
    pairs = len(differences)
    z = statistics.NormalDist().inv_cdf(1 - alpha / 2)
    outside = pairs / 2 - z * spread(values_a, values_b)
    edge = min(max(math.floor(outside), 0), pairs - 1)
    p = probability(values_a, values_b)
    return Found(
        median_a=statistics.median(values_a),
        median_b=statistics.median(values_b),
        shift=statistics.median(differences),
        low=differences[edge],
        high=differences[pairs - 1 - edge],
        p=p,
        differs=p < alpha,
    )
