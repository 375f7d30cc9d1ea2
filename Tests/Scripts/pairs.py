#!/usr/bin/env python3
"""Checks Tests/pairs.md, which names for each pair of features the tests that use both.

Usage: Tests/run pairs

Each pair of features must be there exactly once. Each named test must exist, and each reason must say something.
Prints the number of cells.
"""

import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
PAGE = TESTS / "pairs.md"
TARGETS = ["AnnalsTests", "AnnalsFileTests", "AnnalsMirrorTests", "NotesTests"]
# A declaration at the left margin.
DECLARATION = re.compile(r"^(?!//)(?:\S.*\s)?(?:struct|class|actor|enum|extension) (\w+)\b")
# A test has its attribute on the same line or above, without another function or attribute in between.
TEST = re.compile(r"@Test\b(?:(?!\bfunc\b|@Test\b)[\s\S])*?\bfunc (\w+)\(")
TEST_NAME = re.compile(r"`(\w+)/(\w+)`")


def suites():
    """The test functions of each suite: those after its declaration or extension, up to the next declaration."""
    parts = {}
    for target in TARGETS:
        for path in sorted((TESTS / target).rglob("*.swift")):
            lines = parts.setdefault("", [])
            for line in path.read_text(encoding="utf-8").splitlines():
                if found := DECLARATION.match(line):
                    lines = parts.setdefault(found.group(1), [])
                lines.append(line)
    return {
        name: set(TEST.findall("\n".join(lines))) for name, lines in parts.items() if name.endswith("Tests")
    }


def rows(lines):
    """The cells of a table's rows, without its head."""
    table = [line for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table[2:]]


def sections(text):
    """The sections of the page in their order: title and lines."""
    found = []
    for line in text.splitlines():
        if line.startswith("## "):
            found.append((line[3:].strip(), []))
        elif found:
            found[-1][1].append(line)
    return found


class Check:
    def __init__(self, text):
        self.mistakes = []
        self.cells = {}
        self.suites = suites()
        parts = sections(text)
        if not parts or parts[0][0] != "Features":
            sys.exit("pairs.md: the first section must be “Features”.")
        self.features = [row[0] for row in rows(parts[0][1])]
        for name in sorted({name for name in self.features if self.features.count(name) > 1}):
            self.mistakes.append(f"The feature “{name}” is listed twice.")
        for title, lines in parts[1:]:
            self.read(title, rows(lines))
        self.compare()

    def read(self, title, table):
        """One section: the cells of a feature with itself and later ones."""
        if title not in self.features:
            self.mistakes.append(f"The section “{title}” is of no listed feature.")
            return
        for row in table:
            if len(row) != 2 or row[0] not in self.features:
                self.mistakes.append(f"{title}: no cell of two listed features: {row}")
                continue
            pair = tuple(sorted((title, row[0]), key=self.features.index))
            if pair in self.cells:
                self.mistakes.append(f"{pair[0]} with {pair[1]} is there twice.")
            if pair[0] != title:
                self.mistakes.append(f"{pair[0]} with {pair[1]} belongs in the section “{pair[0]}”.")
            self.cells[pair] = row[1]

    def compare(self):
        for index, first in enumerate(self.features):
            for second in self.features[index:]:
                if (first, second) not in self.cells:
                    self.mistakes.append(f"{first} with {second} is missing.")
        for (first, second), cell in self.cells.items():
            self.check(f"{first} with {second}", cell)

    def check(self, place, cell):
        if cell.startswith("never:"):
            if len(cell.removeprefix("never:").split()) < 3:
                self.mistakes.append(f"{place}: “never:” needs a reason.")
            return
        names = TEST_NAME.findall(cell)
        if not names or TEST_NAME.sub("", cell).replace(",", "").strip():
            self.mistakes.append(f"{place}: neither tests nor a reason after “never:”: {cell}")
        for suite, function in names:
            if suite not in self.suites:
                self.mistakes.append(f"{place}: there is no suite {suite}.")
            elif function not in self.suites[suite]:
                self.mistakes.append(f"{place}: {suite} has no test {function}.")


def main():
    if sys.argv[1:]:
        sys.exit("usage: Tests/run pairs")
    check = Check(PAGE.read_text(encoding="utf-8"))
    never = sum(cell.startswith("never:") for cell in check.cells.values())
    held = len(check.cells) - never
    print(f"{len(check.features)} features, {len(check.cells)} cells: {held} held by tests, {never} impossible")
    for mistake in check.mistakes:
        print(f"pairs.md: {mistake}", file=sys.stderr)
    sys.exit(1 if check.mistakes else 0)


if __name__ == "__main__":
    main()
