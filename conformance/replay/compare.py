"""Compares what was answered with what was recorded, and learns the values of variables."""

import copy
import json
import re
from datetime import datetime

from verbatim import Number

VARIABLE = re.compile(r"\$\{(\w+)\}")
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SHAPES = {
    "now": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z",
    "now_ms": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
    "today": r"\d{4}-\d\d-\d\d",
    "paymentNumber": r"\d+",
}
# Row numbers of Kill Bill's tables: ours are other numbers, or none.
PLACEHOLDERS = {"recordId", "accountRecordId", "tenantRecordId"}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
CUT = "...[cut]"
ERROR_KEYS = {"className", "code", "message", "causeClassName", "causeMessage", "stackTrace"}
# Texts that expose internals of a Java program: the API need not imitate them.
JAVA = re.compile(r"org\.killbill|java\.|com\.fasterxml|org\.apache|org\.postgresql|reference chain|\[cut\]|Invalid format|Submitted credentials")
# Of these the reason after the field is ours to word.
FIELD_NAMED = re.compile(r"(Invalid parameter \w+:)")


class Variables:
    """What the placeholders of one file of recordings stand for."""

    def __init__(self, fixed):
        self.values = dict(fixed)

    def fill(self, text):
        """The text with its variables replaced; a KeyError names one that nothing has set."""
        return VARIABLE.sub(lambda found: self.values[found.group(1)], text)

    def unbound(self, text):
        """The variables in a text that nothing has set yet."""
        return [name for name in VARIABLE.findall(text) if name not in self.values]


class Comparison:
    """One answer against one recording."""

    def __init__(self, variables, tolerance_s=0):
        self.variables = variables
        self.tolerance_s = tolerance_s
        self.mismatches = []

    def differ(self, path, expected, actual):
        """Notes a mismatch."""
        self.mismatches.append(f"{path or 'body'}: expected {show(expected)}, got {show(actual)}")

    def value(self, expected, actual, path="", unordered=False):
        """Compares JSON values: same keys, same lengths, equal scalars."""
        if isinstance(expected, dict) and ERROR_KEYS <= set(expected):
            self.error(expected, actual, path)
        elif isinstance(expected, dict):
            self.members(expected, actual, path)
        elif isinstance(expected, list) and unordered:
            self.any_order(expected, actual, path)
        elif isinstance(expected, list):
            if not isinstance(actual, list) or len(actual) != len(expected):
                self.differ(path, expected, actual)
                return
            for at, (one, other) in enumerate(zip(expected, actual)):
                self.value(one, other, f"{path}/{at}")
        elif isinstance(expected, str):
            self.text(expected, actual, path)
        elif isinstance(expected, Number):
            if not isinstance(actual, Number) or actual != expected:
                self.differ(path, expected.text, actual)
        elif expected is not actual:
            self.differ(path, expected, actual)

    def members(self, expected, actual, path):
        """Compares objects; keys are compared as sets."""
        if not isinstance(actual, dict):
            self.differ(path, expected, actual)
            return
        for key in sorted(set(expected) - set(actual)):
            self.mismatches.append(f"{path}/{key}: is missing")
        for key in sorted(set(actual) - set(expected)):
            self.mismatches.append(f"{path}/{key}: was not recorded, got {show(actual[key])}")
        for key in expected:
            if key in actual:
                self.value(expected[key], actual[key], f"{path}/{key}")

    def any_order(self, expected, actual, path):
        """Compares lists whose order the recording leaves to the database."""
        if not isinstance(actual, list) or len(actual) != len(expected):
            self.differ(path, expected, actual)
            return
        rest = list(actual)
        for at, one in enumerate(expected):
            for other in rest:
                attempt = Comparison(Variables(self.variables.values), self.tolerance_s)
                attempt.value(one, other, f"{path}/{at}")
                if not attempt.mismatches:
                    self.variables.values.update(attempt.variables.values)
                    rest.remove(other)
                    break
            else:
                self.mismatches.append(f"{path}/{at}: nothing matches {show(one)}")

    def text(self, expected, actual, path):
        """Compares a text with variables; unset ones learn their value."""
        name = VARIABLE.fullmatch(expected)
        if name and name.group(1) in PLACEHOLDERS:
            if actual is None or isinstance(actual, (dict, list)):
                self.differ(path, expected, actual)
            return
        if not isinstance(actual, str):
            self.differ(path, expected, actual)
            return
        if self.within_tolerance(expected, actual):
            return
        found = re.compile(self.pattern(expected), re.DOTALL).fullmatch(actual)
        if not found:
            self.differ(path, self.known(expected), actual)
            return
        self.variables.values.update(found.groupdict())

    def within_tolerance(self, expected, actual):
        """Whether two instants are so near that the time between two requests explains it."""
        if not (self.tolerance_s and INSTANT.match(expected) and INSTANT.match(actual)):
            return False
        one, other = (datetime.fromisoformat(text[:-1]) for text in (expected, actual))
        return abs((one - other).total_seconds()) <= self.tolerance_s

    def pattern(self, expected):
        """The regular expression of a text with variables."""
        tail = ""
        if expected.endswith(CUT):
            expected, tail = expected[: -len(CUT)], ".*"
        parts, seen, at = [], set(), 0
        for found in VARIABLE.finditer(expected):
            parts.append(re.escape(expected[at : found.start()]))
            name, at = found.group(1), found.end()
            if name in self.variables.values:
                parts.append(re.escape(self.variables.values[name]))
            elif name in SHAPES:
                parts.append(SHAPES[name])
            elif name in seen:
                parts.append(f"(?P={name})")
            else:
                parts.append(f"(?P<{name}>{UUID})")
                seen.add(name)
        return "".join(parts) + re.escape(expected[at:]) + tail

    def known(self, expected):
        """A text with the variables that are set replaced, for messages."""
        values = self.variables.values
        return VARIABLE.sub(lambda found: values.get(found.group(1), found.group(0)), expected)

    def error(self, expected, actual, path):
        """Compares error bodies: class, code and message, but not the inside of a Java program."""
        if not isinstance(actual, dict) or not ERROR_KEYS <= set(actual):
            self.differ(path, "an error body", actual)
            return
        self.value(expected["code"], actual["code"], f"{path}/code")
        message, said = expected["message"], actual["message"]
        if not isinstance(said, str) or not said:
            self.differ(f"{path}/message", message, said)
        elif expected["code"] is not None or not JAVA.search(message):
            field = FIELD_NAMED.match(message)
            if field:
                if not said.startswith(field.group(1)):
                    self.differ(f"{path}/message", message, said)
            else:
                # Where Kill Bill does not say which field is wrong, ours does, behind its words.
                ours = said if said == message else re.sub(r" \([^()]*\)$", "", said)
                self.text(message, ours, f"{path}/message")
        if expected["code"] is not None and actual["className"] != expected["className"]:
            self.differ(f"{path}/className", expected["className"], actual["className"])
        if not isinstance(actual["stackTrace"], list):
            self.differ(f"{path}/stackTrace", [], actual["stackTrace"])

    def refusal(self, row, actual):
        """Checks an error body of ours against a row of differences.toml."""
        if not isinstance(actual, dict) or not ERROR_KEYS <= set(actual):
            self.differ("body", "an error body", actual)
            return
        if "code" in row and actual["code"] != row["code"]:
            self.differ("code", row["code"], actual["code"])
        name = row.get("names")
        if name and name not in str(actual["message"]):
            self.differ("message", f"a text that names {name}", actual["message"])


def edited(body, edits):
    """The recorded body with the edits of a row: `/path = JSON`, `/path removed`; `-` appends."""
    body = copy.deepcopy(body)
    for edit in edits:
        pointer, _, value = edit.partition(" ")
        *folders, last = pointer.split("/")[1:]
        place = body
        for part in folders:
            place = place[int(part)] if isinstance(place, list) else place[part]
        key = int(last) if isinstance(place, list) and last != "-" else last
        if value == "removed":
            del place[key]
            continue
        new = json.loads(value.removeprefix("= "), parse_float=Number, parse_int=Number)
        if key == "-":
            place.append(new)
        else:
            place[key] = new
    return body


def show(value):
    """A value, short enough for a line."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "..."
