"""Loads the shipped tables: folding, casefolding, character classes (Unicode 14.0.0), simplified characters.

`tables/generate.py` made them once. The Unicode version of the running Python decides nothing.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.interrupts import interrupts_held
from simstream.text.recipe import Script

POINTS: Final = 0x110000
OTHER, HAN, LETTER, DIGIT, MARK, BIGRAM = range(6)
LETTER_OR_NUMBER: Final = 8
_PATH = Path(__file__).parent / "tables" / "unicode.npy"
_SIMPLIFIED = Path(__file__).parent / "tables" / "simplified.txt"


class UnicodeTables(NamedTuple):
    """The properties of every code point: arrays of 0x110000.

    `fold` has its code point in a folded text. `traits` has in bits 0-20 its casefold, in bits 24-26 its class, and
    in bit 27 whether it is a letter or a number (categories L and N).
    """

    fold: NDArray[np.uint32]
    traits: NDArray[np.uint32]


@cache
def unicode_table() -> UnicodeTables:
    """Return the table, expanded at the first call (about 10 ms and 9 MB). Do not write into it."""
    with interrupts_held():  # numpy would put an error of its own in the place of one
        rows = np.load(_PATH)
    points = np.arange(POINTS, dtype=np.int32)
    lengths = np.diff(rows[:, 0], append=POINTS)
    fold = (points + np.repeat(rows[:, 1], lengths)).astype(np.uint32)
    lower = (points + np.repeat(rows[:, 2], lengths)).astype(np.uint32)
    traits = lower | (np.repeat(rows[:, 3], lengths).astype(np.uint32) << 24)
    return UnicodeTables(fold, traits)


@cache
def fold_table(script: Script) -> NDArray[np.uint32]:
    """Return each code point's replacement in a folded text; with `simplified` it also replaces traditional
    characters."""
    fold = unicode_table().fold
    if script == "as-is":
        return fold
    lines = _SIMPLIFIED.read_text(encoding="utf-8").splitlines()
    pairs = np.array([[ord(char) for char in line] for line in lines if not line.startswith("#")], np.uint32)
    simplified = np.arange(POINTS, dtype=np.uint32)
    simplified[pairs[:, 0]] = fold[pairs[:, 1]]
    return simplified[fold]


@cache
def digest(script: Script = "as-is") -> str:
    """Return 16 hex digits over the shipped files that folding to this script reads."""
    content = _PATH.read_bytes() + (_SIMPLIFIED.read_bytes() if script == "simplified" else b"")
    return blake2b(content, digest_size=8).hexdigest()
