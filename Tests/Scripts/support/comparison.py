"""Prints the medians of a comparison, and the median ratio of each pair, as a table in Markdown."""

import json
import statistics
import sys

measured = {}
for line in open(sys.argv[1]):
    try:
        result = json.loads(line)
    except json.JSONDecodeError:
        continue
    value = result["ops_per_s"]
    if result["workload"] == "open":
        value = result["seconds"] * 1e6
    if result["workload"] == "query":
        value = result.get("rows_per_s", value)
    measured.setdefault((result["workload"], result["peer"]), []).append(value)
    if "again_s" in result:
        measured.setdefault(("open_again", result["peer"]), []).append(result["again_s"] * 1e6)


def shown(value):
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:.1f} k" if value >= 1e4 else f"{value:.0f}"


# Title, our workload and name, the peer's, the peer's title.
PAIRS = [
    ("insert, 1000 a transaction, rows/s", "load", "annals", "load_append_nosync", "limit", "the same bytes appended"),
    ("insert, 1000 a transaction, rows/s", "load", "annals", "load", "lmdb-nosync", "LMDB"),
    ("commit of one row, relaxed, /s", "commit", "annals", "commit", "rocksdb-nosync", "RocksDB"),
    ("commit of one row, relaxed, /s", "commit", "annals", "commit_append_nosync", "limit", "the same bytes appended"),
    ("commit of one row, durable, /s", "commit", "annals-sync", "commit_overwrite_fdatasync", "limit",
     "overwritten and synchronised"),
    ("commit of one row, durable, /s", "commit", "annals-sync", "commit", "rocksdb-sync", "RocksDB"),
    ("insert, 1000 a transaction, durable, rows/s", "load_durable", "annals-sync", "load_durable", "rocksdb-sync",
     "RocksDB"),
    ("read a row by ID, all columns, /s", "get", "annals", "get", "lmdb-nosync", "LMDB"),
    ("the same, a snapshot for each, /s", "get_each", "annals", "get_each", "lmdb-nosync", "LMDB"),
    ("read a row by ID in each of two processes, /s", "get_two", "annals", "get_two", "lmdb-nosync", "LMDB"),
    ("scan, all columns, rows/s", "scan", "annals", "scan", "lmdb-nosync", "LMDB"),
    ("indexed range of 100 rows, rows/s", "query", "annals", "query", "sqlite-normal-mmap", "SQLite, mapped"),
    ("update, random, 1000 a transaction, /s", "update", "annals", "update", "lmdb-nosync", "LMDB"),
    ("delete, random, 1000 a transaction, /s", "delete", "annals", "delete", "lmdb-nosync", "LMDB"),
    ("history, 1000 changes a transaction, /s", "history_all", "annals", "history_all", "lmdb-nosync", "LMDB"),
    ("history, one change a transaction, /s", "history_all_small", "annals", "history_all_small", "lmdb-nosync",
     "LMDB"),
    ("open and read a row, first in a process, us", "open", "annals", "open", "sqlite-normal", "SQLite"),
    ("open and read a row, once more, us", "open_again", "annals", "open", "sqlite-normal", "SQLite"),
]
print("| work | Annals | beside it | | ratio |")
print("|---|---:|---|---:|---:|")
for title, mine, name, other, peer, peer_title in PAIRS:
    ours, theirs = measured.get((mine, name)), measured.get((other, peer))
    if not ours or not theirs:
        print(f"| {title} | not measured | {peer_title} | | |")
        continue
    theirs = theirs[-len(ours):] if other == "load" and len(theirs) > len(ours) else theirs
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    medians = [shown(statistics.median(values)) for values in (ours, theirs)]
    print(f"| {title} | {medians[0]} | {peer_title} | {medians[1]} | {ratio:.2f} |")
