"""Reads the lists of this folder: tables in the part of TOML whose values are JSON, one per line."""

import json
import re

HEADING = re.compile(r"\[\[([a-z]+)\]\]$")
PAIR = re.compile(r"([a-z_]+) *= *(.+)$")


def read_tables(path, heading):
    """The `[[heading]]` tables of a file, in order, each with the line it begins on."""
    tables = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            found = HEADING.match(line)
            if found:
                if found.group(1) != heading:
                    raise SystemExit(f"{path}:{number}: [[{found.group(1)}]], not [[{heading}]]")
                tables.append((number, {}))
                continue
            found = PAIR.match(line)
            if not found or not tables:
                raise SystemExit(f"{path}:{number}: not a key and a value")
            try:
                tables[-1][1][found.group(1)] = json.loads(found.group(2))
            except ValueError as error:
                raise SystemExit(f"{path}:{number}: {error}") from error
    return tables


class Rows:
    """A list of rows, each of which names recordings and says why."""

    def __init__(self, path, heading, keys):
        self.path = path
        self.by_id = {}
        for number, table in read_tables(path, heading):
            unknown = set(table) - set(keys) - {"ids", "reason"}
            if unknown or not table.get("reason") or not table.get("ids"):
                raise SystemExit(f"{path}:{number}: needs ids and a reason; unknown: {sorted(unknown)}")
            for name in table["ids"]:
                if name in self.by_id:
                    raise SystemExit(f"{path}:{number}: {name} is listed twice")
                self.by_id[name] = table

    def get(self, name):
        """The row about a recording, or nothing."""
        return self.by_id.get(name)

    def check_all_exist(self, names):
        """A row about a recording that is not there is a mistake."""
        missing = sorted(set(self.by_id) - set(names))
        if missing:
            raise SystemExit(f"{self.path}: no such recording: {', '.join(missing)}")
