#!/usr/bin/env python3
"""Builds the worked example of the page from its listing, and computes every checksum and tag in it anew.

    annals_example.py            says what is wrong, if anything
    annals_example.py --write    writes the listing into the page, from the golden file: after a change of the format
"""
import pathlib
import re
import struct
import sys

from annals_listing import Listing
from annals_parts import M64, decode, hash64, u32, u64

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
PAGES = ROOT / "Sources" / "Annals" / "Annals.docc"
PAGE = PAGES / "FileFormat.md"
GOLDEN = ROOT / "Tests" / "AnnalsFileTests" / "Golden" / "example.annals"
LINE = re.compile(r"([0-9a-f]{6})  (?:00 x (\d+)|((?:[0-9a-f]{2} ?)+))(?: .*)?")


def hash_vectors(page):
    """The test vectors of the page: input, seed, hash."""
    found = []
    for line in page.splitlines():
        row = re.fullmatch(r'([0-9a-f]{16}) +(\d+)  (?:"(.*)"(?: x (\d+))?|bytes\((\d+)\))', line)
        if not row:
            continue
        expected, seed, letters, times, count = row.groups()
        data = bytes(i % 251 for i in range(int(count))) if count else letters.encode() * int(times or 1)
        found.append((data, int(seed), int(expected, 16)))
    return found


def listed(page):
    """The bytes of the listing. Its lines follow each other without gaps."""
    data = bytearray()
    for line in page[page.index("## A worked example"):].splitlines():
        match = LINE.fullmatch(line)
        if match:
            assert int(match[1], 16) == len(data), f"a gap before {match[1]}"
            data += bytes(int(match[2])) if match[2] else bytes.fromhex(match[3])
    return bytes(data)


def row_of_other_types(page):
    """What is wrong with the short row after the listing: its offsets, its values, or its reference."""
    row = bytearray()
    for line in page[page.index("### A row of other types"):].splitlines():
        match = re.fullmatch(r"\+([0-9a-f]{2})  ((?:[0-9a-f]{2} ?)+)(?: .*)?", line)
        if match:
            if int(match[1], 16) != len(row):
                return f"a gap before +{match[1]}"
            row += bytes.fromhex(match[2])
    end, size = u32(row, 0x24), u32(row, 4)
    if decode(8, row[8:28]) != {"decimal": "-125e-1"} or decode(10, row[28:36]) != {"object": [1, 2]}:
        return "the row of other types has other values"
    has_value = end == size | 1 << 31 and size == 0x29 + 24 and u64(row, 0x31) == 100000
    if not has_value or len(row) != size + 7 or any(row[size:]):
        return "the row of other types ends elsewhere"
    return None


def token(data, number, tag):
    """The text of a token, as TokenFormat.md defines it."""
    parts = f"A1.{data[16:32].hex()}.{number}.{tag:016x}"
    return parts + "." + f"{hash64(parts.encode(), 0):016x}"[8:]


def problems(data):
    """What in the bytes is not as it is computed here: from the checksums' definitions alone, without the reader."""
    def differs(what, at, expected):
        if u64(data, at) != expected:
            yield f"{what} at {at:06x} is {u64(data, at):016x}, and computed {expected:016x}"

    yield from differs("header.checksum", 120, hash64(data[:120], 0))
    salt, previous, tag, at = u64(data, 40), u64(data, 120), u64(data, 64), 4096
    for slot in (512, 1024):
        if any(data[slot:slot + 64]):
            yield from differs("hint.checksum", slot + 56, hash64(data[slot:slot + 56], salt ^ slot))
    kinds, changes = set(), set()
    while any(data[at:]):
        end, table_end = at + u32(data, at + 8), at + 64 + u32(data, at + 56)
        table, body = data[at + 64:table_end], data[table_end:end]
        yield from differs("frame.previousChecksum", at + 32, previous)
        yield from differs("frame.tableChecksum", at + 40, hash64(table, salt))
        yield from differs("frame.bodyChecksum", at + 48, hash64(body, salt ^ M64))
        yield from differs("frame.checksum", at, hash64(data[at + 8:at + 64], salt ^ at))
        kinds.add(data[at + 12])
        if data[at + 12] == 1:
            seed = hash64(struct.pack("<QQQ", tag, previous, hash64(body, salt ^ M64)), 0)
            tag = hash64(table[8:], seed)
            yield from differs("transaction.tag", at + 64, tag)
            changes |= {table[i + 12] for i in entries(table)}
        previous, at = u64(data, at), end
    if token(data, 4, tag) not in (PAGES / "TokenFormat.md").read_text("utf-8"):
        yield f"the token of TokenFormat.md is not {token(data, 4, tag)}"
    if not {1, 4, 6, 7, 9, 12} <= kinds or changes != {1, 2, 3} or not any(data[512:1088]):
        yield f"the example shows kinds {sorted(kinds)} and changes {sorted(changes)} only"


def entries(table):
    at = 64
    while at < len(table):
        yield at
        at += 16 + 8 * (table[at + 13] >> 7) + 8 * (table[at + 13] & 31)


def check():
    page = PAGE.read_text("utf-8")
    vectors = hash_vectors(page)
    wrong = [f"hash({data[:20]!r}, {seed})" for data, seed, expected in vectors if hash64(data, seed) != expected]
    if wrong:
        return f"vectors of the page: {wrong}"
    if sum(len(data) > 48 for data, _, _ in hash_vectors(page)) < 5:
        return "the page has too few vectors of more than 48 bytes"
    if problem := row_of_other_types(page):
        return problem
    data = listed(page)
    if data != GOLDEN.read_bytes():
        return "the listing is not the golden file: run annals_example.py --write"
    return next(problems(data), None)


def write():
    page = PAGE.read_text("utf-8")
    head, rest = page.split("## A worked example", 1)
    before, _, after = rest.split("```", 2)
    lines = "\n".join(Listing(GOLDEN.read_bytes()).file())
    PAGE.write_text(f"{head}## A worked example{before}```\n{lines}\n```{after}", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    problem = check()
    print(problem or "every checksum and tag of the example is right")
    sys.exit(problem is not None)
