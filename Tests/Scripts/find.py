#!/usr/bin/env python3
"""Compares `annals find` with Python's evaluation of random conditions, with indexes and without.

Usage: Tests/run find [ROUNDS [FILE.jsonl [SEED]]]

Loads the objects of a file of JSON lines (or makes some up), reads them back with `dump`, and then asks for random
conditions, orders, limits and offsets. `find` and --count must print what Python finds in the dump. ANNALS_TOOL names
a built tool; otherwise it is built.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

from support import programs

TOOL = programs.tool()
WORDS = ["", "a", "A", "ab", "é", "日本", "😀", "\"", "\\", "'", "`", "\n", "null", "and", " ", "%", "_", "\u202e"]


def tool(*arguments, status=0):
    result = subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=120)
    if result.returncode != status:
        sys.exit(f"annals {arguments}: status {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


def invented(random):
    """Objects with few different values, so that conditions meet many of them."""
    for number in range(600):
        item = {"number": number, "rank": random.choice([None, *range(-3, 8)]),
                "size": random.choice([None, 0.5, -0.0, 1e300, 2]), "flag": random.choice([None, True, False]),
                "text": random.choice([None, *WORDS]), "more": random.choice(WORDS) + random.choice(WORDS)}
        yield json.dumps({name: value for name, value in item.items() if value is not None})


def key(value):
    """Strings are compared by Unicode scalars."""
    return value.encode("utf-32-be") if isinstance(value, str) else value


class Conditions:
    def __init__(self, random, types, rows):
        self.random, self.types, self.rows = random, types, rows

    def condition(self, depth):
        """A condition as text and as a function of a row."""
        kind = self.random.random()
        if depth == 0 or kind < 0.4:
            return self.comparison()
        if kind < 0.55:
            text, inner = self.condition(depth - 1)
            return f"not ({text})", lambda row: not inner(row)
        parts = [self.condition(depth - 1) for _ in range(self.random.randint(2, 3))]
        word = self.random.choice(["and", "or"])
        decide = all if word == "and" else any
        return f" {word} ".join(f"({text})" for text, _ in parts), lambda row: decide(part(row) for _, part in parts)

    def value(self, name):
        values = [row[name] for row in self.rows if row.get(name) is not None]
        value = self.random.choice(values) if values and self.random.random() < 0.8 else None
        kind = self.types[name]
        if kind == "bool":
            return self.random.random() < 0.5 if value is None else value
        if kind == "string":
            value = self.random.choice(WORDS) if value is None else value
            cut = self.random.randint(0, len(value))
            return value[:cut] if self.random.random() < 0.3 else value
        if value is None:
            return self.random.randint(-10, 10)
        return value + self.random.choice([0, 0, 1, -1])

    def comparison(self):
        name = self.random.choice(list(self.types))
        written = f"`{name}`" if self.random.random() < 0.2 else name
        operators = ["=", "!=", "in", "is null", "is not null"]
        if self.types[name] != "bool":
            operators += ["<", "<=", ">", ">="]
        if self.types[name] == "string":
            operators += ["contains", "starts with"]
        operator = self.random.choice(operators)
        if operator == "is null":
            return f"{written} is null", lambda row: row.get(name) is None
        if operator == "is not null":
            return f"{written} is not null", lambda row: row.get(name) is not None
        if operator == "in":
            values = [self.value(name) for _ in range(self.random.randint(1, 4))]
            keys = [key(value) for value in values]
            text = ", ".join(json.dumps(value, ensure_ascii=self.random.random() < 0.5) for value in values)
            return f"{written} in ({text})", lambda row: row.get(name) is not None and key(row[name]) in keys
        value = self.value(name)
        test = {
            "=": lambda there, wanted: there == wanted, "!=": lambda there, wanted: there != wanted,
            "<": lambda there, wanted: there < wanted, "<=": lambda there, wanted: there <= wanted,
            ">": lambda there, wanted: there > wanted, ">=": lambda there, wanted: there >= wanted,
            "contains": lambda there, wanted: wanted in there,
            "starts with": lambda there, wanted: there.startswith(wanted),
        }[operator]
        textual = operator in ("contains", "starts with")

        def decide(row):
            there = row.get(name)
            if there is None:
                return operator == "!="
            return test(there, value) if textual else test(key(there), key(value))

        spaces = self.random.choice(["", " ", "  "]) if operator[0] in "=!<>" else " "
        constant = json.dumps(value, ensure_ascii=self.random.random() < 0.5)
        return f"{written}{spaces}{operator}{spaces}{constant}", decide


def order(rows, keys):
    for name in reversed(keys):
        plain = name.lstrip("-")
        rows = sorted(
            rows, key=lambda row: (row.get(plain) is not None, key(row[plain]) if row.get(plain) is not None else 0),
            reverse=name.startswith("-"))
    return rows


def check(random, store, rows, types, rounds, label):
    conditions = Conditions(random, types, rows)
    found = 0
    for _ in range(rounds):
        parts = [conditions.condition(random.randint(0, 3)) for _ in range(random.choice([1, 1, 1, 2, 3]))]
        wanted = [row for row in rows if all(decide(row) for _, decide in parts)]
        arguments = ["find", store, "Item"]
        for text, _ in parts:
            arguments.append(f"--where={text}")
        counted = int(tool(*arguments, "--count"))
        # The last key makes the order one.
        keys = [random.choice(["", "-"]) + name for name in random.sample(list(types), random.randint(0, 2))]
        keys = [name for name in keys if name.lstrip("-") != "number"] + [random.choice(["", "-"]) + "number"]
        wanted = order(wanted, keys)
        arguments.append("--sort=" + ",".join(f"{name}" for name in keys))
        if random.random() < 0.5:
            offset, limit = random.randint(0, len(wanted) + 3), random.choice([0, 1, 5, 2 ** 64 - 1])
            arguments += [f"--offset={offset}", f"--limit={limit}"]
            shown = wanted[offset:offset + limit]
        else:
            shown = wanted
        lines = [json.loads(line) for line in tool(*arguments).split("\n") if line]
        if counted != len(wanted) or lines != shown:
            sys.exit(f"{label}: {arguments}\nfinds {[row['_id'] for row in lines][:20]} ({counted}), "
                     f"and not {[row['_id'] for row in shown][:20]} ({len(wanted)})")
        found += len(wanted)
    return found


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randint(0, 2 ** 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        lines = os.path.join(directory, "items.jsonl")
        with open(lines, "w", encoding="utf-8") as file:
            if len(sys.argv) > 2:
                for number, line in enumerate(open(sys.argv[2], encoding="utf-8")):
                    file.write(json.dumps({"number": number, **json.loads(line)}) + "\n")
            else:
                file.write("\n".join(invented(chance)) + "\n")
        store = os.path.join(directory, "items.annals")
        tool("load", store, lines, "--entity", "Item")
        rows = [json.loads(line) for line in tool("dump", store).split("\n") if line]
        schema = json.loads(tool("schema", store, "--format", "json"))
        types = {attribute["name"]: attribute["type"] for attribute in schema["entities"][0]["attributes"]}
        types = {name: kind for name, kind in types.items() if kind in ("bool", "int", "double", "string")}
        found = check(chance, store, rows, types, rounds, "without indexes")
        for attribute in schema["entities"][0]["attributes"]:
            attribute["indexed"] = True
        names = list(types)
        schema["entities"][0]["keys"] = [{"attributes": chance.sample(names, 2)} for _ in range(2)]
        with open(os.path.join(directory, "schema.json"), "w", encoding="utf-8") as file:
            json.dump(schema, file)
        tool("schema", store, "--apply", file.name)
        found += check(chance, store, rows, types, rounds, "with indexes")
        tool("verify", store)
    print(f"{2 * rounds} conditions over {len(rows)} objects, {found} found: as Python finds them")


main()
