"""Bench: tokens against jieba, page to fingerprint and sketch against rjieba with mmh3 and numpy, on one core."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import jieba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from simstream.kernels.jit import LEAN
from simstream.kernels.text.fingerprint import make_work
from simstream.kernels.text.fold import fold_utf8
from simstream.kernels.text.tokenize import cut
from simstream.settings import default_cache
from simstream.text import dictionary
from simstream.text import unicode_tables as tables
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset
from simstream.text.recipe_file import load_recipe
from tests.bench.measure import against, line, rounds, title
from tests.bench.peer_text import PeerFingerprinter
from tests.naive_text import NaiveRecipe

PAGES = 1_000
FOR_JIEBA = 200
"""jieba takes some 5 ms a page."""
CHECKED = 100
PLAIN = Path(__file__).parents[1] / "studies" / "recipes" / "first.toml"
"""A recipe as others have it, which the peer follows: words, weights, pairs of words."""


def run(pages: Sequence[Mapping[str, str]], most_rounds: int) -> None:
    """Tokens first, then fingerprints, then what the latter cost beyond the former."""
    step = max(1, len(pages) // PAGES)
    texts = [page["text"] for page in islice(pages, 0, None, step)][:PAGES]
    plain = replace(load_recipe(str(PLAIN)), seed=0)
    with tempfile.TemporaryDirectory() as folder, Fingerprinter(plain, default_cache()) as ours:
        jieba.setLogLevel(logging.WARNING)
        tokenizer = jieba.Tokenizer()
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
        batch = TextBatch(texts[:FOR_JIEBA]), TextBatch(texts)
        _tokens(texts[:FOR_JIEBA], batch[0], tokenizer, min(5, most_rounds))
        _fingerprints(texts, ours, NaiveRecipe(ours.recipe, tokenizer), min(5, most_rounds))
    with Fingerprinter(preset("default"), default_cache()) as ours:
        _beyond(texts, batch[1], ours, most_rounds)


class TextBatch:
    """Texts as the kernels take them: UTF-8 in one array, offsets, and working memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        parts = [text.encode() for text in texts]
        self.utf8 = np.frombuffer(b"".join(parts), np.uint8)
        self.offsets = np.cumsum([0, *map(len, parts)])
        self.work = make_work(max(map(len, parts)), 0)
        self.found = dictionary.load(default_cache())
        self.ends = np.empty(len(self.utf8), np.int32)
        self.counts = np.empty(len(texts), np.int64)

    def cut(self) -> int:
        """Fold and cut every page; the ends of all tokens, by page, are in `ends`. Returns their number."""
        fold = tables.unicode_table().fold
        trie, hmm, work = self.found.trie, self.found.hmm, self.work
        count: int = cut_batch(self.utf8, self.offsets, fold, trie, hmm, work, self.ends, self.counts)
        return count


@njit(nogil=True, **LEAN)
def cut_batch(
    utf8: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    fold: NDArray[np.uint32],
    trie: dictionary.Trie,
    hmm: dictionary.HiddenMarkovModel,
    work: object,
    ends: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> int:
    """The part of the fingerprint's kernel that ends with tokens, over a batch."""
    total = 0
    for page in range(len(offsets) - 1):
        n = fold_utf8(utf8, offsets[page], offsets[page + 1], fold, work.points)
        count = cut(work.points, n, trie, hmm, True, work.scratch, work.ends, work.slots)
        for token in range(count):
            ends[total + token] = work.ends[token]
        counts[page] = count
        total += count
    return total


def _tokens(texts: Sequence[str], batch: TextBatch, tokenizer: jieba.Tokenizer, turns: int) -> None:
    title("text: tokens", f"jieba's accurate mode over {len(texts)} pages, one core")
    folded = [_folded(text) for text in texts]
    expected = [tokenizer.lcut(text) for text in folded]
    batch.cut()
    starts = np.cumsum([0, *batch.counts])
    for page, text in enumerate(folded):
        ends = [0, *batch.ends[starts[page] : starts[page + 1]].tolist()]
        if [text[a:b] for a, b in pairwise(ends)] != expected[page]:
            raise AssertionError(f"page {page} is not cut as jieba does")
    if [dictionary.tokens(text, batch.found) for text in folded] != expected:
        raise AssertionError("dictionary.tokens differs from jieba")
    line(f"checked: all {sum(map(len, expected)):,} tokens are jieba's, from both ways")
    rivals: dict[str, Callable[[], object]] = {
        "jieba": lambda: [tokenizer.lcut(text) for text in folded],
        "kernel": batch.cut,
        "strings": lambda: [dictionary.tokens(text, batch.found) for text in folded],
    }
    if (rjieba := _rjieba()) is not None:
        rivals["rjieba"] = lambda: [rjieba(text) for text in folded]
    seconds = rounds(rivals, turns)
    _rates(seconds, texts)
    against(
        "kernel `cut` (with decoding and folding) against jieba.lcut", seconds["jieba"] / seconds["kernel"], "30"
    )
    against("`dictionary.tokens` (Python strings) against jieba.lcut", seconds["jieba"] / seconds["strings"], "30")
    if "rjieba" in seconds:
        against("kernel `cut` against rjieba.cut", seconds["rjieba"] / seconds["kernel"], "1")


def _folded(text: str) -> str:
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return str(tables.unicode_table().fold[points].astype(np.uint32).tobytes().decode("utf-32-le"))


def _fingerprints(texts: Sequence[str], ours: Fingerprinter, naive: NaiveRecipe, turns: int) -> None:
    title("text: fingerprint and sketch", f"{len(texts):,} pages, one core")
    peer = PeerFingerprinter(ours.recipe, naive.table, naive.median)
    _same_bits(texts, naive, ours)
    rjieba = _rjieba()
    if rjieba is None:
        return
    theirs = np.array([peer.page(rjieba(text))[0] for text in texts], np.uint64)
    near = np.bitwise_count(ours.texts(texts)[0] ^ theirs) <= ours.recipe.distance
    line(f"with rjieba's tokens {near.mean():.0%} of the peer's fingerprints are within k = {ours.recipe.distance}")
    seconds = rounds(
        {
            "simstream": lambda: ours.texts(texts),
            "rjieba + mmh3 + numpy": lambda: [peer.page(rjieba(text)) for text in texts],
        },
        turns,
    )
    _rates(seconds, texts)
    ratio = seconds["rjieba + mmh3 + numpy"] / seconds["simstream"]
    against("fingerprint and sketch against rjieba + mmh3 + numpy", ratio, "more than 1")


def _same_bits(texts: Sequence[str], naive: NaiveRecipe, ours: Fingerprinter) -> None:
    """Given the same words and the weights of all of them, the peer has the same bits."""
    chosen = texts[:CHECKED]
    words = [naive.words(text.encode()) for text in chosen]
    peer = PeerFingerprinter(
        naive.recipe, {word: naive.weight(word) for page in words for word in page}, naive.median
    )
    found = ours.texts(chosen)
    for page, (fingerprint, sketch, distinct) in enumerate(zip(*found, strict=True)):
        if distinct < naive.recipe.min_words:
            continue
        theirs = peer.page(words[page])
        if theirs[0] != fingerprint or (theirs[1] != sketch).any():
            raise AssertionError(f"the peer does another job: page {page}")
    line(f"checked: from the same words the peer makes the same bits, over {len(chosen)} pages")


def _beyond(texts: Sequence[str], batch: TextBatch, ours: Fingerprinter, turns: int) -> None:
    title("text: beyond tokens", "fingerprint and sketch against decoding, folding and cutting alone")
    utf8, offsets = batch.utf8, batch.offsets
    whole = lambda: ours._run(utf8, offsets, ours._rules)  # noqa: E731  # the kernel without making its input
    rivals = {"tokens": batch.cut, "fingerprint": whole, "texts": lambda: ours.texts(texts)}
    seconds = rounds(rivals, turns)
    _rates(seconds, texts)
    against(
        "fingerprint and sketch cost, in tokens' cost", seconds["fingerprint"] / seconds["tokens"], "at most 1.35"
    )


def _rates(seconds: Mapping[str, float], texts: Sequence[str]) -> None:
    pages, size = len(texts), sum(len(text.encode()) for text in texts)
    for name, found in seconds.items():
        line(f"{name:22} {found / pages * 1e6:9.1f} us a page, {size / found / 1e6:7.2f} MB/s")


def _rjieba() -> Callable[[str], Sequence[str]] | None:
    try:
        import rjieba
    except ImportError:
        line("rjieba is missing: pip install rjieba to compare")
        return None
    found: Callable[[str], Sequence[str]] = rjieba.cut
    return found
