#!/usr/bin/env python3
"""Makes the library's tables of Unicode 17.0.0.

Usage: Tests/run unicode CASEFOLDING [--check]

The files are UnicodeTables.swift, CompositionTables.swift, CaseTables.swift and, for the full-text search,
SearchTables.swift. CASEFOLDING is Unicode's CaseFolding.txt of version 15.0 or later, such as
/usr/share/unicode/CaseFolding.txt of Debian's package unicode-data. What later versions added is below. All else comes
from the Python package unicodedata2, version 17.0.0. With --check nothing is written; exit status 1 if a file differs.

Numbers stand in string literals, six bits a character: the character of 0 is "0", that of 63 is "o". So the tables are
static data in every build, and nothing is made when the program begins.
"""

import pathlib
import sys

import unicodedata2 as unicode

VERSION = "17.0.0"
SOURCES = pathlib.Path(__file__).resolve().parent.parent.parent / "Sources/Annals"
FOLDER = next(SOURCES.rglob("UnicodeTables.swift")).parent
SEARCH_FOLDER = SOURCES / "Search"
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


def swift_file(name, purpose, body, folder=FOLDER):
    head = [
        f"// {purpose}", "//",
        f"// Made by Tests/Scripts/unicode.py from the data of Unicode {VERSION}: change the script, not this file.",
        "",
    ]
    return folder / f"{name}.swift", "\n".join(head + body[:-1] + ["}", ""])


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


def case_foldings(path):
    folded = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        fields = [field.strip() for field in line.partition("#")[0].split(";")]
        if len(fields) > 2 and fields[1] in "CF":
            folded[int(fields[0], 16)] = [int(part, 16) for part in fields[2].split()]
    for first, last, target in FOLDED_SINCE_16:
        for c in range(first, last + 1):
            assert folded.setdefault(c, [target + c - first]) == [target + c - first]
    return folded


def folding(folded):
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


# For the full-text search: everything below, up to main().

# Letters that keep their stroke in Unicode's decompositions, and that people type without it; then Arabic letters that
# are written one for the other.
LIKE_OTHERS = dict(zip("ꞓȼđðɖɗɇǥɠħıɨɉƙłɫŋøɵƥɍŧʈʉƴɏƶƀɓⱥ", "ccddddegghiijkllnooprttuyyzbba"), æ="ae", œ="oe", þ="th")
LIKE_OTHERS |= {"\u0649": "\u064a", "\u06cc": "\u064a", "\u06a9": "\u0643", "\u0671": "\u0627", "\u0629": "\u0647"}
# Marks that do not distinguish words for those who search: diacritics, Hebrew points, Arabic and Syriac vowels, the
# colours of emoji.
DROPPED_MARKS = [
    (0x300, 0x36F), (0x483, 0x489), (0x591, 0x5C7), (0x610, 0x61A), (0x64B, 0x65F), (0x670, 0x670), (0x6D6, 0x6ED),
    (0x711, 0x711), (0x730, 0x74A), (0x897, 0x89F), (0x8CA, 0x8FF), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF), (0x2DE0, 0x2DFF), (0xA66F, 0xA67D), (0xFE20, 0xFE2F), (0x10EFA, 0x10EFF), (0x1F3FB, 0x1F3FF),
]
# Characters without a width or without a meaning of their own: soft hyphens, joiners, directions, variations, the
# Arabic tatweel, and signs of transliteration that are left out as often as not.
IGNORED = [
    (0xAD, 0xAD), (0x2B9, 0x2BA), (0x2BE, 0x2BF), (0x34F, 0x34F), (0x61C, 0x61C), (0x640, 0x640), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]
# Apostrophes that Unicode calls letters, and signs of trade that it takes for letters.
SEPARATORS = {0x2BB, 0x2BC, 0x2BD, 0x2120, 0x2122}
# The blocks of emoji and other pictures. What is not assigned there yet will be emoji.
PICTURES = [(0x2300, 0x23FF), (0x2600, 0x27BF), (0x2B00, 0x2BFF), (0x1F000, 0x1FAFF)]
# The scripts whose words have no spaces between them, by the names of their characters.
WITHOUT_SPACES = (
    "CJK ", "IDEOGRAPHIC ", "HANGZHOU ", "KANGXI ", "HIRAGANA ", "KATAKANA ", "KATAKANA-HIRAGANA ", "HENTAIGANA ",
    "VERTICAL KANA ", "MASU MARK", "BOPOMOFO ", "HANGUL ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "TAI ", "NEW TAI ",
    "JAVANESE ", "BALINESE ", "YI ", "TANGUT ", "NUSHU ", "KHITAN ",
)
SEPARATOR, LETTER, WITHOUT_SPACE, PICTURE, DROPPED, FREE_MARK, ORDERED_MARK, JOINING_MARK, KINDS = range(9)


def is_in(c, ranges):
    return any(first <= c <= last for first, last in ranges)


class SearchFolding:
    """What the search makes of each scalar."""

    def __init__(self, cases):
        self.cases = cases
        self.seconds = set(range(0x1161, 0x1200)) | set(range(0xD7B0, 0xD800))
        for c in range(0x30000):
            parts = unicode.normalize("NFD", chr(c)) if c not in HANGUL else ""
            if len(parts) > 1:
                self.seconds.update(map(ord, parts[1:]))

    def is_dropped(self, c):
        is_mark = unicode.category(chr(c))[0] == "M" or 0x1F3FB <= c <= 0x1F3FF
        return is_in(c, IGNORED) or is_mark and is_in(c, DROPPED_MARKS)

    def kind(self, c):
        category = unicode.category(chr(c))
        if c in SEPARATORS:
            return SEPARATOR
        if self.is_dropped(c):
            return DROPPED
        parts = unicode.normalize("NFD", chr(c))
        if category[0] == "M" or ord(parts[0]) in self.seconds:
            return self.mark(parts)
        if category[0] in "LN" or category == "So" and "RADICAL" in unicode.name(chr(c)):
            return WITHOUT_SPACE if unicode.name(chr(c), "").startswith(WITHOUT_SPACES) else LETTER
        return PICTURE if category in ("So", "Cn") and is_in(c, PICTURES) else SEPARATOR

    def mark(self, parts):
        joins = ord(parts[0]) in self.seconds or len(parts) > 1 and any(map(unicode.combining, parts))
        return JOINING_MARK if joins else ORDERED_MARK if unicode.combining(parts[0]) else FREE_MARK

    def step(self, letter):
        """A scalar folded once."""
        c = ord(letter)
        if self.is_dropped(c):
            return ""
        if unicode.category(letter) == "Nd":
            return str(unicode.decimal(letter))
        letter = LIKE_OTHERS.get(letter, letter)
        return "".join(chr(part) for part in self.cases[c]) if c in self.cases else letter

    def compatible(self, letter):
        """A scalar without its width, font and form. Letters of Hangul that stand alone do not become syllables."""
        c = ord(letter)
        if c in SEPARATORS or 0x3131 <= c <= 0x318E:
            return letter
        if 0xFFA1 <= c <= 0xFFDC and unicode.decomposition(letter):
            return chr(int(unicode.decomposition(letter).split()[1], 16))
        parts = unicode.normalize("NFKD", letter)
        # One half after a number is not part of the number.
        return " " + parts if "\u2044" in parts and len(parts) > 1 else parts

    def folded(self, text):
        while True:
            parts = [self.compatible(letter) for letter in unicode.normalize("NFD", text)]
            result = unicode.normalize("NFD", "".join(self.step(letter) for part in parts for letter in part))
            if result == text:
                return unicode.normalize("NFC", result)
            text = result


def search(cases):
    folding = SearchFolding(cases)
    mapped, kinds = {}, {}
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        result = folding.folded(chr(c)) if c not in HANGUL else chr(c)
        kind = folding.kind(c)
        if kind == DROPPED:
            result = chr(c)
        elif all(folding.kind(ord(letter)) in (SEPARATOR, DROPPED) for letter in result):
            kind, result = DROPPED if not result and unicode.category(chr(c))[0] == "M" else SEPARATOR, chr(c)
        kinds[c] = kind
        if result != chr(c):
            mapped[c] = (folding.mark(unicode.normalize("NFD", result)) != JOINING_MARK, result)
    checked_search(folding, mapped, kinds)
    results = sorted(set(mapped.values()))
    values = {c: KINDS + results.index(mapped[c]) if c in mapped else kinds[c] for c in kinds}
    end = (max(c for c in values if values[c] != SEPARATOR and c < 0xE0000) // BLOCK + 1) * BLOCK
    numbers, blocks = [], {}
    for start in range(0, end, BLOCK):
        block = tuple(values.get(c, SEPARATOR) for c in range(start, start + BLOCK))
        numbers.append(blocks.setdefault(block, len(blocks)))
    entries, letters = "", ""
    for _, result in results:
        entries += digits(len(letters) // 3, 3) + digits(len(result), 1)
        letters += "".join(digits(ord(letter), 3) for letter in result)
    ascii_words = "".join(chr(c).lower() if c < 128 and chr(c).isalnum() else " " for c in range(256))
    body = ["/// The folding of the full-text search, as numbers in literals: six bits a character.",
            "enum SearchTables {",
            "    /// Scalars from here on separate words, but for the ignored ones of plane 14.",
            f"    static let end: UInt32 = 0x{end:X}",
            "    /// The number of foldings.", f"    static let foldings = {len(results)}",
            "    /// The number of foldings that join the scalar before them: the first ones.",
            f"    static let joiningFoldings = {sum(not free for free, _ in results)}", ""]
    body += literal("wordBytes", ["For each byte its folding if it is an ASCII letter or digit, otherwise a space."],
                    ascii_words)
    body += literal("blockNumbers", [f"For each {BLOCK} scalars the number of their block: two characters."],
                    "".join(digits(number, 2) for number in numbers))
    body += literal("blocks", [
        "For each scalar of a block two characters: 0 separates words, 1 a letter or digit, 2 a character of a script",
        "without spaces, 3 a picture, 4 left out, 5 a mark that stays, 6 one that has a combining class, 7 one that",
        f"may compose with the scalar before it, from {KINDS} on the number of its folding."],
        "".join(digits(value, 2) for block in blocks for value in block))
    body += literal("foldingEntries", [
        "Four characters for each folding: three for its place among all letters, one for their number."], entries)
    body += literal("foldingLetters", ["Three characters for each scalar of a folding, which is in the form NFC."],
                    letters)
    purpose = "The words of the full-text search: what each scalar is, and what it is folded to."
    return swift_file("SearchTables", purpose, body, SEARCH_FOLDER)


def checked_search(folding, mapped, kinds):
    """What the tokenizer relies on."""
    for c, kind in kinds.items():
        parts = unicode.normalize("NFD", chr(c))
        extends = kind >= DROPPED if c not in mapped else not mapped[c][0]
        assert extends or unicode.combining(parts[0]) == 0 and ord(parts[0]) not in folding.seconds, hex(c)
        assert kind >= FREE_MARK or kind == DROPPED or unicode.normalize("NFC", chr(c)) == chr(c) or c in mapped \
            or kind in (SEPARATOR, PICTURE), hex(c)
        if c in mapped:
            for letter in mapped[c][1]:
                assert ord(letter) not in mapped and kinds[ord(letter)] != DROPPED, hex(c)
        elif kind in (FREE_MARK, ORDERED_MARK):
            assert unicode.normalize("NFC", chr(c)) == chr(c), hex(c)
    assert all(kinds[c] == (DROPPED if c < 0xE1000 else SEPARATOR) for c in range(0xE0000, 0x110000))
    for c in kinds:
        parts = unicode.normalize("NFD", chr(c))
        assert len(parts) < 2 or ord(parts[0]) >= 0x80 or kinds[ord(parts[1])] == DROPPED, hex(c)


def main():
    if len(sys.argv) < 2 or unicode.unidata_version != VERSION:
        sys.exit(__doc__)
    status = 0
    cases = case_foldings(sys.argv[1])
    for path, text in [*normalisation(), folding(cases), search(cases)]:
        if "--check" in sys.argv:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                status = 1
                print(f"{path} is not what the script makes", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    sys.exit(status)


if __name__ == "__main__":
    main()
