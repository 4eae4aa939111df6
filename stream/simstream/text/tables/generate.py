"""Generates the shipped Unicode tables, and the table from traditional to simplified.

    python stream/simstream/text/tables/generate.py unicode
    python stream/simstream/text/tables/generate.py composition
    python stream/simstream/text/tables/generate.py simplified      # needs `pip install OpenCC==1.4.2`

Run once, with the Unicode version named in `text/unicode_tables.py`. A run with another version changes
fingerprints, and therefore every recipe id; another version of OpenCC changes the ids of recipes with
`script = "simplified"`.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import numpy as np

OTHER, HAN, LETTER, DIGIT, MARK, BIGRAM = range(6)
LETTER_OR_NUMBER = 8  # added to the class of characters in the Unicode categories L and N
REPLACEMENT = 0xFFFD
KEPT_SPACES = "\r\n\t"
HAN_MARKS = "\u3005\u3006\u3007\u303b"  # repetition, closing mark, zero: written among ideographs
HAN_PLANES = range(0x20000, 0x40000)  # reserved for ideographs, also those not yet assigned
BIGRAM_SCRIPTS = (
    "HIRAGANA",
    "KATAKANA",
    "HENTAIGANA",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TIBETAN",
    "BALINESE",
    "JAVANESE",
    "TAI LE",
    "NEW TAI LUE",
    "TAI THAM",
    "TAI VIET",
)
KANA_MARKS = "\u30fc\u3099\u309a"  # prolonged sound, voiced, semi-voiced


def fold(char: str) -> str:
    """Fold one character to one: to its NFKC if that is one character, spaces to the space, surrogates to
    U+FFFD."""
    if 0xD800 <= ord(char) <= 0xDFFF:
        return chr(REPLACEMENT)
    if char in KEPT_SPACES:
        return char
    normal = unicodedata.normalize("NFKC", char)
    one = normal if len(normal) == 1 else char
    return " " if one.isspace() else one


def classify(char: str) -> int:
    """Return the class of a character, with LETTER_OR_NUMBER."""
    category, name = unicodedata.category(char), unicodedata.name(char, "")
    if name.startswith(("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH")):
        return HAN | LETTER_OR_NUMBER
    if char in HAN_MARKS or ord(char) in HAN_PLANES:
        return HAN | LETTER_OR_NUMBER
    counts = LETTER_OR_NUMBER if category[0] in "LN" else 0
    if char in KANA_MARKS or (category[0] in "LM" and name.startswith(BIGRAM_SCRIPTS)):
        return BIGRAM | counts
    return {"L": LETTER, "N": DIGIT, "M": MARK}.get(category[0], OTHER) | counts


def casefold(char: str) -> str:
    """Casefold one character to one of the same class, so that a word stays the same kind of word."""
    for folded in (char.casefold(), char.lower()):
        if len(folded) == 1 and classify(folded) == classify(char):
            return folded
    return char


def rows() -> list[tuple[int, int, int, int]]:
    """Yield runs of code points: the first one, distance to its fold, distance to its casefold, class."""
    out: list[tuple[int, int, int, int]] = []
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        row = (ord(fold(char)) - point, ord(casefold(char)) - point, classify(char))
        if not out or out[-1][1:] != row:
            out.append((point, *row))
    return out


def composition() -> list[tuple[int, int, int, int, bool]]:
    """Return the folded characters that have a part in composing, in rows: code point, canonical combining class,
    its two parts (0 for none), and whether form C keeps it."""
    out = []
    for char in map(chr, range(sys.maxunicode + 1)):
        parts = unicodedata.decomposition(char)
        parts = "" if parts.startswith("<") else parts
        if fold(char) == char and (parts or unicodedata.combining(char)):
            first, second = (*(int(part, 16) for part in parts.split()), 0, 0)[:2]
            is_composed = unicodedata.normalize("NFC", char) == char
            out.append((ord(char), unicodedata.combining(char), first, second, is_composed))
    return out


SIMPLIFIED_HEADER = """\
# Traditional characters and the simplified one that stands for each, the first where there are several.
# Made by generate.py from the dictionary TSCharacters of OpenCC 1.4.2 (https://github.com/BYVoid/OpenCC),
# by Carbo Kuo and contributors, under the Apache License, Version 2.0.
"""


def simplified() -> str:
    """Yield a line for each character that OpenCC alone turns into another one."""
    from opencc import OpenCC

    convert = OpenCC("t2s").convert
    pairs = ((chr(point), convert(chr(point))) for point in range(0x2E80, 0x40000) if not 0xD800 <= point < 0xE000)
    return SIMPLIFIED_HEADER + "".join(f"{a}{b}\n" for a, b in pairs if a != b and len(b) == 1)


def main(table: str) -> None:
    """Write one of the tables beside this file."""
    folder = Path(__file__).parent
    if table == "simplified":
        (folder / "simplified.txt").write_text(simplified(), encoding="utf-8")
        return
    path = folder / f"{table}.npy"
    np.save(path, np.array(rows() if table == "unicode" else composition(), np.int32))
    print(f"{path.name}: Unicode {unicodedata.unidata_version}, {path.stat().st_size} bytes")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
