"""Compares a played scenario with its recording."""

import copy
import re
from decimal import Decimal

NUMBER = (int, float)


def with_difference(scenario, row):
    """The recording, with what ours does otherwise on purpose."""
    if not row:
        return scenario
    wanted = copy.deepcopy(scenario)
    for edit in row.get("edits", []):
        path, value = edit["path"], edit.get("value")
        at = wanted
        *parents, last = re.findall(r"[^.\[\]]+", path)
        for it in parents:
            at = at[int(it)] if isinstance(at, list) else at[it]
        if edit.get("removed"):
            del at[int(last) if isinstance(at, list) else last]
        else:
            at[int(last) if isinstance(at, list) else last] = value
    return wanted


def differences(wanted, steps, result):
    lines = []
    for number, (step, answer) in enumerate(steps):
        recorded = step_result(wanted, number)
        if recorded:
            compare_step(f"steps[{number}] {step['action']}", recorded, answer, lines)
    compare("result", wanted["result"], result, lines)
    return lines


def step_result(wanted, number):
    return wanted["steps"][number].get("result") if number < len(wanted["steps"]) else None


def compare_step(name, recorded, answer, lines):
    status, _, body = answer
    if recorded.get("status") not in (None, status):
        lines.append(f"{name}.status: expected {recorded['status']}, got {status} {str(body)[:120]}")
    code = body.get("code") if isinstance(body, dict) else None
    if recorded.get("code") is not None and recorded["code"] != code:
        lines.append(f"{name}.code: expected {recorded['code']}, got {code}")
    if "invoice" in recorded:
        compare(f"{name}.invoice", recorded["invoice"], body.get("dry run") if isinstance(body, dict) else None, lines)
    if "balance" in recorded and isinstance(body, dict):
        compare(f"{name}.balance", recorded["balance"], body.get("accountBalance"), lines)
        compare(f"{name}.cba", recorded["cba"], body.get("accountCBA"), lines)


def compare(path, expected, got, lines):
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in list(expected) + [it for it in got if it not in expected]:
            if key not in expected or key not in got:
                side = "not expected" if key not in expected else "missing"
                lines.append(f"{path}.{key}: {side}: {str(expected.get(key, got.get(key)))[:100]}")
            else:
                compare(f"{path}.{key}", expected[key], got[key], lines)
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            lines.append(f"{path}: expected {len(expected)}, got {len(got)}: {missing(expected, got)}")
        for at, (a, b) in enumerate(zip(expected, got)):
            compare(f"{path}[{at}]", a, b, lines)
    elif not same(expected, got):
        lines.append(f"{path}: expected {expected}, got {got}")


def missing(expected, got):
    lacks = [it for it in expected if it not in got][:3]
    more = [it for it in got if it not in expected][:3]
    return f"lacks {str(lacks)[:160]}, has {str(more)[:160]}"


def same(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, NUMBER) and isinstance(b, NUMBER):
        return Decimal(str(a)) == Decimal(str(b))
    return a == b
