"""Cuts titles and questions into the words that a search compares.

Chinese is cut as jieba cuts it: a title in search mode, so that 长江大桥 is also found by 大桥, and a question in
accurate mode. So 市长 does not find 南京市长江大桥. Case, width of letters and traditional characters do not count.
A letter and its mark count as one character. Scripts without spaces, such as kana, give pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.text import dictionary
from simstream.text import unicode_tables as tables
from simstream.text.dictionary import Dictionary, Mode

MAX_PARTS: Final = 8
"""The most parts of a question. Each costs a search of its own."""
_RUN: Final = re.compile(
    b"(?P<han>[%(han)c]+)|(?P<pairs>[%(pairs)c]+)|[%(letter)c%(digit)c%(mark)c]+"
    % {
        b"han": tables.HAN,
        b"pairs": tables.BIGRAM,
        b"letter": tables.LETTER,
        b"digit": tables.DIGIT,
        b"mark": tables.MARK,
    }
)
"""Finds runs of characters of one kind in a string of their classes."""


class TitleWords:
    """Cuts texts. `cache` is the folder of the dictionary, which is loaded at the first Chinese text (0.1 s)."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def of_title(self, text: str) -> set[str]:
        """Return the words by which a title can be found. Cost: linear, some 20 us for a title."""
        return set(self._cut(text, "search"))

    def of_question(self, text: str) -> list[set[str]]:
        """Return the words of each part of a question between spaces. A part without words, or that comes again,
        does not count. The last of MAX_PARTS has the words of all that follow."""
        parts: list[set[str]] = []
        for part in text.split():
            words = set(self._cut(part, "accurate"))
            if not words or words in parts:
                continue
            if len(parts) < MAX_PARTS:
                parts.append(words)
            else:
                parts[-1] |= words
        return parts

    def _cut(self, text: str, mode: Mode) -> Iterator[str]:
        text = unicodedata.normalize("NFC", text)
        points = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
        lower, classes = _tables()
        lowered = lower[points].tobytes().decode("utf-32-le")
        for run in _RUN.finditer(classes[points].tobytes()):
            found = lowered[run.start() : run.end()]
            if run["han"]:
                yield from dictionary.tokens(found, self._dictionary, mode=mode)
            elif run["pairs"] and len(found) > 1:
                yield from map("".join, pairwise(found))
            else:
                yield found

    @cached_property
    def _dictionary(self) -> Dictionary:
        return dictionary.load(self._cache)


@cache
def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return for each code point its lower case, folded to simplified characters, and its class. About 6 MB."""
    traits = tables.unicode_table().traits[tables.fold_table("simplified")]
    return (traits & 0x1FFFFF).astype(np.uint32), ((traits >> 24) & 7).astype(np.uint8)
