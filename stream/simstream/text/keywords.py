"""Picks the most telling words of a text, as jieba's `analyse.extract_tags` does."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from simstream.errors import InputMissing
from simstream.text import word_lists
from simstream.text.weights import idf_path

MIN_CHARS: Final = 2


class TagTables(NamedTuple):
    """jieba's inverse document frequencies, their median (for unknown words), and jieba's stop words."""

    idf: dict[str, float]
    median: float
    stopped: frozenset[str]


def heaviest_tags(tokens: Sequence[str], top: int) -> list[str]:
    """Return the `top` tokens with the greatest term frequency times inverse document frequency; equal ones in
    order.

    Skips tokens of one character and jieba's stop words. Raises InputMissing without jieba's tables.
    """
    idf, median, stopped = _tables()
    times: dict[str, float] = {}
    for token in tokens:
        if len(token.strip()) >= MIN_CHARS and token.lower() not in stopped:
            times[token] = times.get(token, 0.0) + 1.0
    total = sum(times.values())
    # Multiplies and divides in jieba's order: another order may decide a tie differently.
    weight = {token: count * (idf.get(token, median) / total) for token, count in times.items()}
    return sorted(weight, key=weight.__getitem__, reverse=True)[:top]


@cache
def _tables() -> TagTables:
    path = idf_path()
    idf = dict(word_lists.idf_rows(path.name, path.read_bytes()))
    module = ast.parse((path.parent / "tfidf.py").read_text(encoding="utf-8"))
    for node in ast.walk(module):  # jieba keeps the list in its source code, and an import would run all of jieba
        if isinstance(node, ast.Assign) and "STOP_WORDS" in {getattr(to, "id", "") for to in node.targets}:
            words = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            return TagTables(idf, sorted(idf.values())[len(idf) // 2], frozenset(map(str, words)))
    raise InputMissing("jieba's list of stop words is missing in its source", "run `pip install jieba==0.42.1`")
