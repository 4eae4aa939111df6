"""Adds a user's words to jieba's dictionary, and removes words from it.

A word without a frequency gets one that keeps it whole, computed as in jieba's `suggest_freq`. The computation uses
the state at that moment. So the order of the words counts, and so does every word added before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from simstream.errors import InputError, InputMissing, SettingsError

_ENTRY: Final = re.compile(r"(.+?)( [0-9]+)?( [a-z]+)?")
_MAX_CHARACTERS: Final = 1_000
"""All beginnings of a word are kept: memory grows with the square of its length."""
_MAX_DIGITS: Final = 18
"""No corpus has more, and the sum of all frequencies must fit into a float."""
_BLOCK: Final = re.compile("[\u4e00-\u9fd5a-zA-Z0-9+#&._%-]+|.")
_ALNUM: Final = re.compile("[a-zA-Z0-9]")


class WordChange(NamedTuple):
    """One word to add. With `frequency` None it gets the frequency that keeps it whole; with 0 it is removed."""

    word: str
    frequency: int | None


class WordFrequencies(NamedTuple):
    """The words of a dictionary, their beginnings (with frequency 0), and the sum of all frequencies ever added.

    `split` has the words that were removed at some time: the HMM must not find them either.
    """

    words: dict[str, int]
    total: int
    split: set[str]


def read_changes(
    user_dictionaries: Sequence[str], add_words: Sequence[str], remove_words: Sequence[str]
) -> tuple[WordChange, ...]:
    """Return the changes in their order: files, then added words, then removed ones.

    A file has a word a line, optionally with a frequency and a tag. Raises InputMissing if a file cannot be read,
    InputError if one is not UTF-8, and SettingsError if an added word is not a word.
    """
    changes = [change for name in user_dictionaries for change in _read_file(name)]
    changes += [_setting("add_words", entry) for entry in add_words]
    changes += [WordChange(_setting("remove_words", word).word, 0) for word in remove_words]
    return tuple(changes)


def _read_file(name: str) -> list[WordChange]:
    try:
        lines = Path(name).read_bytes().split(b"\n")
        entries = [line.strip().decode().lstrip("\ufeff") for line in lines]
    except OSError as error:
        raise InputMissing(f"{name} cannot be read ({error.strerror})", "correct its path in the recipe") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8", "write it in UTF-8") from error
    found = [_entry(entry) for entry in entries if entry]
    if None in found:
        number = 1 + next(i for i, entry in enumerate(entries) if entry and _entry(entry) is None)
        raise InputError(
            f"line {number} of {name} is no word",
            "write a word of at most 1,000 characters, optionally with a frequency below 10^18 and a tag",
        )
    return [change for change in found if change is not None]


def _setting(setting: str, entry: str) -> WordChange:
    change = _entry(entry.strip())
    if change is None:
        raise SettingsError(
            f"{setting} has {entry[:100]!r}, which is not a word",
            "give a word of at most 1,000 characters, optionally with a frequency below 10^18",
        )
    return change


def _entry(text: str) -> WordChange | None:
    found = _ENTRY.fullmatch(text)
    if found is None or len(found[1]) > _MAX_CHARACTERS or len(found[2] or "") > 1 + _MAX_DIGITS:
        return None
    return WordChange(found[1], None if found[2] is None else int(found[2]))


def apply(words: dict[str, int], total: int, changes: Sequence[WordChange]) -> WordFrequencies:
    """Return the frequencies after all changes. Cost: about 0.5 s for jieba's dictionary, if there is any
    change."""
    found = dict(words)
    if any(change.frequency is None for change in changes):
        for word in words:
            _add_beginnings(word, found)
    split = set()
    for word, given in changes:
        frequency = _suggested(word, found, total) if given is None else given
        found[word] = frequency
        total += frequency
        _add_beginnings(word, found)
        if frequency == 0:
            split.add(word)
    return WordFrequencies(found, total, split)


def _add_beginnings(word: str, found: dict[str, int]) -> None:
    for end in range(1, len(word)):
        found.setdefault(word[:end], 0)


def _suggested(word: str, words: dict[str, int], total: int) -> int:
    """Return the least frequency at which the word stays whole, at least its present one."""
    share = 1.0
    for piece in _pieces(word, words, total):
        share *= words.get(piece, 1) / float(total)
    return max(int(share * total) + 1, words.get(word, 1))


def _pieces(text: str, words: dict[str, int], total: int) -> list[str]:
    """Return the text cut without HMM, as jieba cuts it."""
    pieces: list[str] = []
    for block in _BLOCK.findall(text):
        run = ""
        for piece in _route(block, words, math.log(total)):
            if len(piece) == 1 and _ALNUM.match(piece):
                run += piece
                continue
            pieces += [run, piece] if run else [piece]
            run = ""
        pieces += [run] if run else []
    return pieces


def _route(block: str, words: dict[str, int], log_total: float) -> list[str]:
    """Return the most probable way through the words of a block; on a tie the longer word."""
    n = len(block)
    best: list[tuple[float, int]] = [(0.0, 0)] * (n + 1)
    for start in range(n - 1, -1, -1):
        ends, end = [], start + 1
        while end <= n and block[start:end] in words:
            if words[block[start:end]]:
                ends.append(end)
            end += 1
        best[start] = max(
            (math.log(words.get(block[start:end]) or 1) - log_total + best[end][0], end)
            for end in ends or [start + 1]
        )
    pieces, at = [], 0
    while at < n:
        pieces.append(block[at : best[at][1]])
        at = best[at][1]
    return pieces
