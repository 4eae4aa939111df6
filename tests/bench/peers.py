"""Bench: labelled pages, this project beside its peers: `python -m tests.bench.peers --pages FILE --pairs FILE`.

Every method sees the same pages in the same order, and says which pairs are alike. The packages of the peers come
from the folder `--peers` (`pip install --target FOLDER datasketch rensa text-dedup`); a missing one is left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from time import process_time
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.corpus import InputReader, corpus_names, read_corpus
from simstream.evaluate.measure import BIN_NAMES, CorpusTruth, bin_of
from simstream.evaluate.pairs import DIFFERENT, LabelledPair, LabelledPairs, assign, complete, placed, read_pairs
from simstream.evaluate.truth import jaccard
from simstream.sources.read import read_pages
from simstream.wire.page import PageLimits
from tests.bench.measure import line, title
from tests.bench.peer_methods import METHODS, Method, PlacePairs, runs

SHOWN_BINS = 4
UNLIKE_J = 0.5
UNRELATED_J = 0.1
MAX_RECORD_BYTES = 64 << 20


class Quality(NamedTuple):
    """What the pairs of one method are worth."""

    recall: NDArray[np.float64]
    """The share of labelled pairs that it found, by bin of J; NaN for a bin without pairs."""
    pairs: int
    wrong_pairs: float
    """The share of its pairs with J < .5."""
    wrong_pages: float
    """The share of pages with a match that have no match of J >= .5."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pages", multiple=True, required=True, help="Pages with id and text: JSONL, .xz, .gz, .zst.")
@click.option("--pairs", multiple=True, required=True, help="Labelled pairs of ids: JSONL, .xz, .gz, .zst.")
@click.option("--peers", help="A folder with packages to compare with.")
@click.option("--only", multiple=True, type=click.Choice(list(METHODS)), help="Leave out the other methods.")
def main(pages: tuple[str, ...], pairs: tuple[str, ...], peers: str | None, only: tuple[str, ...]) -> None:
    """Compare the methods over each input, on one core: pages/s are pages by a second of its CPU time."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if peers:
        sys.path.append(peers)
    methods = installed(only or tuple(METHODS))
    truths = read(pages, pairs)
    for truth in truths:
        compare(truth, methods)


def installed(names: Sequence[str]) -> list[Method]:
    """Return the methods whose packages are there; name the others."""
    methods = []
    for name in names:
        try:
            methods.append(METHODS[name]())
        except ImportError as error:
            line(f"{name} is left out ({error}): pip install --target FOLDER {name}, and give --peers FOLDER")
    return methods


def read(pages: Sequence[str], pairs: Sequence[str]) -> list[CorpusTruth]:
    """Return each input with its labelled pairs."""
    reading = InputReader(PageLimits(max_record_bytes=MAX_RECORD_BYTES), strip_front_matter=True)
    truths = [
        CorpusTruth(read_corpus(name, read_pages([path], MAX_RECORD_BYTES), reading), 1)
        for name, path in zip(corpus_names(pages), pages, strict=True)
    ]
    given = assign(read_pairs(pairs), [truth.corpus for truth in truths]).pairs
    for truth, labelled in zip(truths, given, strict=True):
        truth.pairs = _placed(labelled, truth)
    return truths


def compare(truth: CorpusTruth, methods: Sequence[Method]) -> None:
    """Print the row or rows of each method over one input."""
    texts, labelled = truth.corpus.texts(), truth.pairs
    chosen = labelled.label != DIFFERENT
    counts = np.bincount(bin_of(labelled.jaccard[chosen]), minlength=len(BIN_NAMES))[:SHOWN_BINS]
    title(truth.corpus.name, f"{len(texts):,} pages, {sum(map(len, texts)) / len(texts):,.0f} characters each")
    line("labelled pairs by J: " + ", ".join(f"{n:,} {name}" for n, name in zip(counts, BIN_NAMES, strict=False)))
    alike, other = trial(truth)
    for method in methods:
        check(method, alike, other)
    line(f"checked: {len(methods)} methods find a copy of a page, and nothing unrelated")
    heads = "".join(f"{name:>8}" for name in BIN_NAMES[:SHOWN_BINS])
    line(f"{'':30}{heads}{'pairs':>12}{'wrong':>9}{'wrong pages':>13}{'bytes':>7}{'pages/s':>9}")
    for method in methods:
        began = process_time()
        found = method.find(texts)
        rate = len(texts) / (process_time() - began)
        for name, pairs in found.items():
            line(row(name, quality(truth, pairs), method.bytes_per_page, rate))
    began = process_time()
    for text in texts:
        runs(text)
    line(f"to cut runs of five for a MinHash, in Python: {len(texts) / (process_time() - began):,.0f} pages/s")


def trial(truth: CorpusTruth) -> tuple[str, str]:
    """Return the longest text, and the longest that has next to nothing of it."""
    texts, sizes = truth.corpus.texts(), truth.sets.sizes()
    order = np.argsort(-sizes, kind="stable")
    similarity = jaccard(truth.sets, np.full(len(order), order[0]), order)
    return texts[order[0]], texts[order[int(np.argmax(similarity < UNRELATED_J))]]


def check(method: Method, alike: str, other: str) -> None:
    """Raise AssertionError if a method misses a copy or takes unrelated pages for alike."""
    for name, pairs in method.find([alike, other, alike]).items():
        if [pairs.a.tolist(), pairs.b.tolist()] != [[0], [2]]:
            raise AssertionError(f"{name} says of a page, another and the first again: {pairs}")


def quality(truth: CorpusTruth, pairs: PlacePairs) -> Quality:
    """Compare the pairs of a method with the labels, and with the J of each pair."""
    labelled, size = truth.pairs, len(truth.corpus.pages)
    wanted = np.minimum(labelled.a, labelled.b) * size + np.maximum(labelled.a, labelled.b)
    chosen, bins = labelled.label != DIFFERENT, bin_of(labelled.jaccard)
    hit = np.isin(wanted, pairs.a * size + pairs.b)
    all_of, found = (np.bincount(bins[some], minlength=len(BIN_NAMES)) for some in (chosen, chosen & hit))
    good = jaccard(truth.sets, pairs.a, pairs.b) >= UNLIKE_J
    pages, right = np.unique(pairs.b), np.unique(pairs.b[good])
    return Quality(
        np.where(all_of > 0, found / np.maximum(all_of, 1), np.nan)[:SHOWN_BINS],
        len(good),
        1 - good.mean() if len(good) else 0.0,
        1 - len(right) / len(pages) if len(pages) else 0.0,
    )


def row(name: str, found: Quality, size: int, rate: float) -> str:
    """Return one line of the table."""
    recall = "".join(f"{'-':>8}" if np.isnan(share) else f"{share:8.1%}" for share in found.recall)
    return (
        f"{name:30}{recall}{found.pairs:12,}{found.wrong_pairs:9.2%}{found.wrong_pages:13.2%}{size:7}{rate:9,.0f}"
    )


def _placed(labelled: Sequence[LabelledPair], truth: CorpusTruth) -> LabelledPairs:
    return placed(labelled, truth.corpus, complete(labelled, truth.corpus, truth.sets, 1))


if __name__ == "__main__":
    main()
