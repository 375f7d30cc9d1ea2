#!/usr/bin/env python3
"""Measures full-text search beside SQLite's FTS5 and Tantivy, on the same texts in one run.

Usage: Tests/run searching [ROWS|FILE]

Makes ROWS texts (100,000) of 100 words of a vocabulary of 50,000, with a Zipf distribution, and runs annals-bench and
Python's SQLite with an external-content table of FTS5 and triggers, as GRDB's guide sets it up. Prints rates, sizes,
and for each query the medians of both in milliseconds. SEARCHING_BENCH names the benchmark (built otherwise), TMPDIR a
folder for the stores. With FILE, its lines are the texts, and the words to look for are the commonest, and some of
the rarer ones. Tantivy is measured if its Python package is installed (`pip install tantivy`): one writer
thread, and one commit of all texts. Exit status 1 if they do not find the same number of the texts that were made: of
a file's texts they may find different numbers, because they divide them into words in different ways.
"""

import collections
import itertools
import json
import os
import pathlib
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time

try:
    import tantivy
except ImportError:
    tantivy = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def words(count):
    letters = random.Random(7)
    known = {}
    while len(known) < count:
        length = min(12, max(2, int(letters.gauss(6.5, 2.2))))
        known["".join(letters.choice("etaoinshrdlucmfwypvbgkjqxz") for _ in range(length))] = None
    return list(known)


def write_corpus(folder, rows):
    vocabulary = words(50_000)
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(vocabulary))))
    choice = random.Random(11)
    with open(folder / "corpus.txt", "w") as file:
        for _ in range(rows):
            file.write(" ".join(choice.choices(vocabulary, cum_weights=weights, k=100)) + "\n")
    return write_queries(folder, vocabulary)


def write_lines(folder, file):
    lines = [line for line in pathlib.Path(file).read_text(errors="replace").splitlines() if line.strip()]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    counts = collections.Counter(word for line in lines for word in re.findall(r"[a-z]{2,}", line.lower()))
    return len(lines), write_queries(folder, [word for word, _ in counts.most_common(2000)])


def write_queries(folder, vocabulary):
    """From words in the order of their frequency."""
    common, middle, rare = vocabulary[:2], vocabulary[100:102], vocabulary[1000:1002]
    # Of two letters, not the beginning of one of the commonest words.
    used = {word[:2] for word in vocabulary[:200]}
    prefix = next(word[:2] for word in vocabulary[200:] if word[:2] not in used)
    queries = [" ".join(pair) + " " for pair in (common, middle, rare, (common[0], rare[0]))]
    queries += [middle[0] + " ", prefix, f'"{common[0]} {common[1]}"', f'"{middle[0]} {middle[1]}"']
    (folder / "queries.txt").write_text("\n".join(queries) + "\n")
    return queries


def fts5_query(text):
    return text if text.startswith('"') or text.endswith(" ") else text + "*"


class FTS5:
    def __init__(self, folder, batch):
        self.batch = batch
        self.store = sqlite3.connect(folder / "fts5.sqlite", isolation_level=None)
        for statement in (
            "pragma journal_mode = wal", "pragma synchronous = normal",
            "create table page (id integer primary key, text text, number int)",
            "create virtual table found using fts5 (text, content = 'page', content_rowid = 'id')",
            "create trigger inserted after insert on page begin"
            " insert into found (rowid, text) values (new.id, new.text); end",
            "create trigger deleted after delete on page begin"
            " insert into found (found, rowid, text) values ('delete', old.id, old.text); end",
            "create trigger updated after update on page begin"
            " insert into found (found, rowid, text) values ('delete', old.id, old.text);"
            " insert into found (rowid, text) values (new.id, new.text); end",
        ):
            self.store.execute(statement)

    def run(self, statement, *values):
        return self.store.execute(statement, values).fetchall()

    def size(self):
        return self.run("select sum(length(block)) from found_data")[0][0]

    def load(self, texts):
        start = time.monotonic()
        for first in range(0, len(texts), self.batch):
            self.run("begin")
            self.store.executemany(
                "insert into page (text, number) values (?, 0)", ((text,) for text in texts[first:first + self.batch]))
            self.run("commit")
        inserted = time.monotonic() - start
        start = time.monotonic()
        self.run("insert into found (found) values ('rebuild')")
        built = time.monotonic() - start
        self.run("insert into found (found) values ('optimize')")
        fresh = self.size()
        for number in range(3):
            self.run("begin")
            self.run("update page set text = text || ' round' || ?", number)
            self.run("commit")
        self.run("insert into found (found) values ('optimize')")
        return len(texts) / inserted, len(texts) / built, fresh, self.size()

    def find(self, query):
        times = []
        for _ in range(9):
            start = time.monotonic()
            self.run(
                "select page.id, page.text, found.rank from found join page on page.id = found.rowid"
                " where found match ? order by found.rank limit 20", query)
            times.append(time.monotonic() - start)
        count = self.run("select count(*) from found where found match ?", query)[0][0]
        return sorted(times)[4] * 1000, count


class Tantivy:
    def __init__(self, folder):
        self.folder = folder / "tantivy"
        self.folder.mkdir()
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", tokenizer_name="default", index_option="position")
        builder.add_integer_field("id", stored=True)
        self.schema = builder.build()
        self.index = tantivy.Index(self.schema, path=str(self.folder))

    def load(self, texts):
        start = time.monotonic()
        writer = self.index.writer(heap_size=256_000_000, num_threads=1)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(text=[text], id=[number]))
        writer.commit()
        writer.wait_merging_threads()
        rate = len(texts) / (time.monotonic() - start)
        self.index.reload()
        return rate, sum(file.stat().st_size for file in self.folder.iterdir())

    def find(self, text):
        if text.startswith('"'):
            query = self.index.parse_query(text, ["text"])
        elif text.endswith(" "):
            query = self.index.parse_query(" ".join("+" + word for word in text.split()), ["text"])
        else:
            query = tantivy.Query.regex_query(self.schema, "text", text + ".*")
        searcher = self.index.searcher()
        times = []
        for _ in range(9):
            start = time.monotonic()
            found = searcher.search(query, 20)
            for _, address in found.hits:
                searcher.doc(address)
            times.append(time.monotonic() - start)
        return sorted(times)[4] * 1000, found.count


def benchmark():
    if "SEARCHING_BENCH" in os.environ:
        return os.environ["SEARCHING_BENCH"]
    build = ["swift", "build", "-c", "release", "--product", "annals-bench"]
    subprocess.run(build, cwd=ROOT, check=True, stdout=sys.stderr)
    shown = subprocess.run(build[:4] + ["--show-bin-path"], cwd=ROOT, check=True, capture_output=True, text=True)
    return shown.stdout.strip() + "/annals-bench"


def main():
    argument = sys.argv[1] if len(sys.argv) > 1 else "100000"
    bench = benchmark()
    with tempfile.TemporaryDirectory(prefix="annals-searching.") as name:
        folder = pathlib.Path(name)
        if argument.isdigit():
            rows, queries = int(argument), write_corpus(folder, int(argument))
        else:
            rows, queries = write_lines(folder, argument)
        texts = (folder / "corpus.txt").read_text().splitlines()

        def annals(workload):
            run = subprocess.run(
                [bench, workload, "--path", name], check=True, capture_output=True, text=True, timeout=3000)
            return [json.loads(line) for line in run.stdout.splitlines()]

        load, found = annals("search_load")[0], annals("search")
        peer = FTS5(folder, 1000)
        inserted, built, fresh, rewritten = peer.load(texts)
        text = load["text_bytes"]
        print(f"{rows:,} texts, {text:,} bytes   Annals   FTS5")
        print(f"inserted a second {load['searchable_rows_per_s']:,} {inserted:,.0f}")
        print(f"  until indexed   {load['rows_per_s_until_indexed']:,} {inserted:,.0f}")
        print(f"  without index   {load['plain_rows_per_s']:,}")
        print(f"built a second    {load['build_rows_per_s']:,} {built:,.0f}")
        print(f"size, % of text   {100 * load['index_bytes'] / text:.1f} {100 * fresh / text:.1f}")
        print(f"  no positions    {100 * load['index_bytes_without_positions'] / text:.1f}")
        print(f"  rewritten 3 x   {100 * load['index_bytes_after_rewriting'] / text:.1f} {100 * rewritten / text:.1f}")
        print(f"peak memory, kB   {load['peak_kB']:,} to load, {found[-1]['peak_kB']:,} to search")
        peers = [peer]
        if tantivy:
            peers.append(Tantivy(folder))
            rate, size = peers[-1].load(texts)
            print(f"Tantivy           {rate:,.0f} texts indexed a second, {100 * size / text:.1f} % of the text")
        differ = False
        for query, line in zip(queries, found):
            results = [(line["milliseconds"], line["found"]), peer.find(fts5_query(query))]
            results += [other.find(query) for other in peers[1:]]
            counts = " / ".join(f"{count:,}" for _, count in results)
            times = " / ".join(f"{milliseconds:.3f}" for milliseconds, _ in results)
            differ |= len({count for _, count in results}) > 1
            print(f"{query!r:28} found {counts}   ms {times}")
        sys.exit(1 if differ and argument.isdigit() else 0)


main()
