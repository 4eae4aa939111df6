"""Measures what a fingerprint costs beside tokenizing alone, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Final

import numpy as np

from simstream.evaluate.results import FingerprintCost
from simstream.kernels.text.fingerprint import make_work
from simstream.kernels.text.tokenize_batch import count_tokens
from simstream.text import dictionary
from simstream.text import unicode_tables as tables
from simstream.text.fingerprinter import Fingerprinter

PAGES: Final = 500
ROUNDS: Final = 5


def cost(fingerprinter: Fingerprinter, texts: Sequence[str], cache: Path) -> FingerprintCost | None:
    """Measure CPU time over every n-th text, at most 500; None without a text. Takes about a second."""
    texts = [text for text in texts if text]
    texts = texts[:: max(1, len(texts) // PAGES)][:PAGES]
    if not texts:
        return None
    tokenize = _tokenizer(texts, cache)
    rivals: tuple[Callable[[], object], ...] = (lambda: fingerprinter.texts(texts), tokenize)
    rows = [[_seconds(rival) for rival in rivals] for _ in range(ROUNDS + 1)][1:]  # the first one warms up
    ours, alone = (median(row[at] for row in rows) / len(texts) * 1e6 for at in (0, 1))
    return FingerprintCost(len(texts), ours, alone, median(row[0] / row[1] for row in rows))


def _tokenizer(texts: Sequence[str], cache: Path) -> Callable[[], object]:
    found, fold = dictionary.load(cache), tables.unicode_table().fold

    def tokenize() -> object:
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        utf8 = np.frombuffer(b"".join(parts), np.uint8)
        offsets = np.cumsum([0, *map(len, parts)])
        work = make_work(max(map(len, parts)), 0)
        return count_tokens(
            utf8, offsets, fold, found.trie, found.hmm, work.points, work.scratch, work.ends, work.slots
        )

    return tokenize


def _seconds(work: Callable[[], object]) -> float:
    start = thread_time()
    work()
    return thread_time() - start
