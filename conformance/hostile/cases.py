"""Tables of requests with what must be answered. After each follows a good request on the same connection:
it shows whether the server still knows where requests begin."""

import concurrent.futures

import wire

FOLLOWING = wire.request("GET", "/health/live", Connection="close")
# What may follow an answer: the connection is closed, or serves the good request.
CLOSES, GOES_ON = "closes", "goes on"
# Cases at the same time.
AT_ONCE = 4
WITHIN_S = 10


def check(server, cases):
    """Each case is (name, bytes, status, CLOSES or GOES_ON); a status of None is a close without an answer.
    Fails with all cases that were answered otherwise."""
    def one(case):
        name, data, status, then = case
        expected = [it for it in (status, 200 if then == GOES_ON else None) if it] + ["closed"]
        with wire.Connection(server.address) as connection:
            connection.offer(data + FOLLOWING)
            found = connection.statuses(WITHIN_S)
        return None if found == expected else f"{name}: {found} instead of {expected}"
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [it for it in pool.map(one, cases) if it]
    assert not wrong, f"{len(wrong)} of {len(cases)}: " + "; ".join(wrong)
