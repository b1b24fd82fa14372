"""JSON whose numbers stay as they were written: `10.00` is sent as `10.00`."""

import json
from decimal import Decimal


class Number(Decimal):
    """A number that remembers its text."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number


def load(text):
    """Parses JSON, keeping each number's text."""
    return json.loads(text, parse_float=Number, parse_int=Number)


def dump(value):
    """Writes JSON, each number as it was read."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {dump(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(dump(item) for item in value) + "]"
    return json.dumps(value)
