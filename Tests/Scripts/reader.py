#!/usr/bin/env python3
"""Compares a second reader, written in Python from the page "The file format", with the golden files.

Usage: Tests/run reader

The reader shares nothing with the library. Each golden store is read and compared with the lines beside it. Copies of
those that are not large are then cut and changed in many places: the reader must come to a verdict, and print nothing
that did not stand in the store before. The worked example of the page, its hash vectors and its token are computed
anew.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "reader"))
import annals_example
from annals_parts import HASH_VECTORS, Damaged, Unsupported, hash64
from annals_reader import Store

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "AnnalsFileTests" / "Golden"
SMALL, LARGE = 12000, 60000
UNLIKE_END = {"torn.annals": "torn tail"}


def read(data, with_history=False):
    """The base and the transactions as lines, if asked for what is known of consumers and cleaning at the end, and
    the verdict."""
    lines = []
    try:
        store = Store(data)
        for transaction in store.transactions():
            lines.append(comparable(transaction))
        if with_history:
            lines += map(comparable, store.history.lines())
        return lines, store.verdict
    except Damaged:
        return lines, "damaged"
    except Unsupported:
        return lines, "unsupported"


def comparable(value):
    return json.dumps(value, sort_keys=True)        # tells true from 1, which Python's == does not


def check_hash():
    for data, seed, expected in HASH_VECTORS:
        if hash64(data, seed) != expected:
            return f"hash({data!r}, {seed}) is {hash64(data, seed):016x}, not {expected:016x}"
    return None


def check_golden(path):
    lines, verdict = read(path.read_bytes(), with_history=True)
    expected = path.with_suffix(".jsonl").read_text("utf-8").split("\n")
    if expected.pop() != "":
        return "the last line of the .jsonl is not ended"
    for number, (line, wanted) in enumerate(zip(lines, expected), 1):
        if line != comparable(json.loads(wanted)):
            return f"line {number} differs:\n  {line[:2000]}\n  {comparable(json.loads(wanted))[:2000]}"
    if len(lines) != len(expected):
        return f"{len(lines)} transactions, not {len(expected)}"
    if verdict != UNLIKE_END.get(path.name, "end"):
        return f"the verdict is {verdict}"
    return None


def check_mutilated(path):
    data = path.read_bytes()
    lines, _ = read(data)
    used = len(data.rstrip(b"\0"))
    rarer = 1 + used // SMALL
    changed = [(f"byte {at}", data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])
               for at in [*range(0, 130, 9), *range(512, 576, 5), *range(4096, used, 37 * rarer)]]
    changed += [(f"zero from {at}", data[:at] + bytes(len(data) - at)) for at in range(4096, used, 331 * rarer)]
    changed += [(f"cut at {at}", data[:at]) for at in [0, 7, 100, 4095, *range(4096, len(data), 271 * rarer)]]
    for name, copy in changed:
        found, verdict = read(copy)
        if found != lines[:len(found)]:
            return f"{name}: transactions that the store does not have"
        if verdict == "end" and len(found) < len(lines) and not name.startswith(("zero", "cut")):
            return f"{name}: transactions are missing and the verdict is {verdict}"
    return None


def main():
    paths = sorted(GOLDEN.glob("*.annals"))
    checks = [("golden files", lambda: None if paths else f"there are none in {GOLDEN}", ())]
    checks += [("hash vectors", check_hash, ()), ("worked example", annals_example.check, ())]
    checks += [(p.name, check_golden, (p,)) for p in paths]
    checks += [(p.name + ", mutilated", check_mutilated, (p,)) for p in paths if p.stat().st_size <= LARGE]
    failed = 0
    for name, check, arguments in checks:
        try:
            problem = check(*arguments)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        failed += problem is not None
        print(f"{'FAILED' if problem else 'passed'}  {name}{': ' + problem if problem else ''}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
