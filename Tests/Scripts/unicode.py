#!/usr/bin/env python3
"""Makes the engine's tables of Unicode 17.0.0.

Usage: Tests/run unicode CASEFOLDING [--check]

The files are UnicodeTables.swift, CompositionTables.swift and CaseTables.swift. CASEFOLDING is Unicode's
CaseFolding.txt of version 15.0 or later, such as /usr/share/unicode/CaseFolding.txt of Debian's package unicode-data.
What later versions added is below. All else comes from the Python package unicodedata2, version 17.0.0. With --check
nothing is written; exit status 1 if a file differs.

Numbers stand in string literals, six bits a character: the character of 0 is "0", that of 63 is "o". So the tables are
static data in every build, and nothing is made when the program begins.
"""

import pathlib
import sys

import unicodedata2 as unicode

VERSION = "17.0.0"
SOURCES = pathlib.Path(__file__).resolve().parent.parent.parent / "Sources/Annals/File"
FOLDER = next(SOURCES.rglob("UnicodeTables.swift")).parent
# First scalar, last scalar, and what the first is folded to: the others follow in the same step.
FOLDED_SINCE_16 = [
    (0x1C89, 0x1C89, 0x1C8A), (0xA7CB, 0xA7CB, 0x264), (0xA7CC, 0xA7CC, 0xA7CD), (0xA7CE, 0xA7CE, 0xA7CF),
    (0xA7D2, 0xA7D2, 0xA7D3), (0xA7D4, 0xA7D4, 0xA7D5), (0xA7DA, 0xA7DA, 0xA7DB), (0xA7DC, 0xA7DC, 0x19B),
    (0x10D50, 0x10D65, 0x10D70), (0x16EA0, 0x16EB8, 0x16EBB),
]
BLOCK = 128
HANGUL = range(0xAC00, 0xD7A4)


def digits(number, count):
    assert 0 <= number < 64 ** count
    return "".join(chr(48 + (number >> 6 * place & 63)) for place in reversed(range(count)))


def literal(name, comment, text):
    lines = [f"    /// {line}" for line in comment] + [f"    static let {name}: StaticString = #\"\"\""]
    parts = [text[at:at + 108] for at in range(0, len(text), 108)]
    return lines + [f"        {part}\\#" for part in parts[:-1]] + [f"        {parts[-1]}", "        \"\"\"#", ""]


def swift_file(name, purpose, body):
    head = [
        f"// {purpose}", "//",
        f"// Made by Tests/Scripts/unicode.py from the data of Unicode {VERSION}: change the script, not this file.",
        "",
    ]
    return FOLDER / f"{name}.swift", "\n".join(head + body[:-1] + ["}", ""])


def normalisation():
    scalars = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c not in HANGUL]
    combining = {c: unicode.combining(chr(c)) for c in scalars if unicode.combining(chr(c))}
    mapped = {c: unicode.normalize("NFD", chr(c)) for c in scalars}
    mapped = {c: text for c, text in mapped.items() if text != chr(c)}
    composed = {c for c in mapped if unicode.normalize("NFC", chr(c)) == chr(c)}
    pairs = {}
    for c in composed:
        first, second = (int(part, 16) for part in unicode.decomposition(chr(c)).split())
        pairs[second, first] = c
    seconds = {second for second, _ in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    classes = sorted(set(combining.values()))
    assert len(classes) <= 60

    def kind(c):
        if c in combining:
            return 4 + classes.index(combining[c])
        return 1 if c in composed else 2 if c in mapped else 3 if c in seconds else 0

    blocks, numbers = [[0] * BLOCK], []
    for start in range(0, 0x30000, BLOCK):
        block = [kind(c) for c in range(start, start + BLOCK)]
        if block not in blocks:
            blocks.append(block)
        numbers.append(blocks.index(block))
    assert all(kind(c) == 0 for c in scalars if c >= 0x30000) and all(kind(c) < 2 for c in range(0x300))
    entries, letters = "", ""
    for c in sorted(mapped):
        entries += digits(c, 3) + digits(len(letters) // 3, 2) + digits(len(mapped[c]), 1)
        letters += "".join(digits(ord(letter), 3) for letter in mapped[c])
    composition = "".join(
        digits(second, 3) + digits(first, 3) + digits(pairs[second, first], 3) for second, first in sorted(pairs))
    body = ["/// Data for bringing text into its normal form NFC, as numbers in literals: six bits a character.",
            "enum UnicodeTables {", f"    /// The number of decompositions.",
            f"    static let decompositions = {len(mapped)}", "    /// Scalars from here on are in no table.",
            f"    static let end: UInt32 = 0x{0x30000:X}", ""]
    body += literal("combiningClasses", ["All combining classes, ascending: two characters each."],
                    "".join(digits(number, 2) for number in classes))
    body += literal("blockNumbers", [f"For each {BLOCK} scalars the number of their block: two characters."],
                    "".join(digits(number, 2) for number in numbers))
    body += literal("blocks", [
        "For each scalar of a block one character: 0 nothing happens to it, 1 it is composed and stays, 2 it is "
        "replaced,",
        "3 it may join the scalar before it, from 4 on the place of its combining class."],
        "".join(digits(number, 1) for block in blocks for number in block))
    body += literal("decompositionEntries", [
        "Six characters for each scalar that is decomposed, ascending: three for the scalar, two for the place of its",
        "decomposition among all letters, one for their number."], entries)
    body += literal("decompositionLetters", ["Three characters for each scalar of a decomposition."], letters)
    pair_body = ["/// The pairs of scalars that compose, as numbers in a literal: six bits a character.",
                 "enum CompositionTables {", "    /// The number of pairs that compose.",
                 f"    static let compositions = {len(pairs)}", ""]
    pair_body += literal("compositionPairs", [
        "Nine characters for each pair that composes, ascending: the second scalar, the first, and their composition."],
        composition)
    return [swift_file("UnicodeTables", "The scalars that decompose and combine.", body),
            swift_file("CompositionTables", "The pairs of scalars that compose.", pair_body)]


def folding(path):
    folded = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        fields = [field.strip() for field in line.partition("#")[0].split(";")]
        if len(fields) > 2 and fields[1] in "CF":
            folded[int(fields[0], 16)] = [int(part, 16) for part in fields[2].split()]
    for first, last, target in FOLDED_SINCE_16:
        for c in range(first, last + 1):
            assert folded.setdefault(c, [target + c - first]) == [target + c - first]
    entries, letters = "", ""
    for c in sorted(folded):
        entries += digits(c, 3) + digits(len(letters) // 3, 2) + digits(len(folded[c]), 1)
        letters += "".join(digits(letter, 3) for letter in folded[c])
    body = ["/// Unicode's full case folding, as numbers in literals: six bits a character.",
            "enum CaseTables {",
            "    /// The number of folded scalars.", f"    static let foldings = {len(folded)}", ""]
    body += literal("foldingEntries", [
        "Six characters for each scalar that is folded, ascending: three for the scalar, two for the place of its",
        "folding among all letters, one for their number."], entries)
    body += literal("foldingLetters", ["Three characters for each scalar of a folding."], letters)
    return swift_file("CaseTables", "The case folding of scalars.", body)


def main():
    if len(sys.argv) < 2 or unicode.unidata_version != VERSION:
        sys.exit(__doc__)
    status = 0
    for path, text in [*normalisation(), folding(sys.argv[1])]:
        if "--check" in sys.argv:
            if path.read_text(encoding="utf-8") != text:
                status = 1
                print(f"{path} is not what the script makes", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    sys.exit(status)


if __name__ == "__main__":
    main()
