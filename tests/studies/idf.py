"""Where a table of weights trained on one's own pages beats the dictionary's frequencies and jieba's own IDF table.

Tables are trained on half of a corpus's groups and measured on the pages of the other half; each seed has a split,
and a seed of the words' hashes, of its own. Each table is measured on the other corpora, too. The news has no
labelled versions: its pairs are items of different days that are alike. Each n is the sum over the seeds, each
interval that of the seeds' mean (Student's t).
"""

from __future__ import annotations

import json
import lzma
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.intervals import student
from simstream.evaluate.near_pairs import within
from simstream.evaluate.truth import ShingleSets, jaccard, shingle_sets
from simstream.judge.policy import Policy, make_policy
from simstream.model import Record
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe
from simstream.tools.train_idf.state import TrainingFolder
from simstream.tools.train_idf.training import TrainingOptions, TrainingRun
from simstream.tools.train_idf.weights import lines
from simstream.wire.page import NO_TIME, PageLimits
from tests import corpora
from tests.studies.context import LCTT, MSDOCS, NEWS, StudyContext, TextFingerprints, gap, rows
from tests.studies.measure import BIN_NAMES, StudyTable, bin_of, cell

CORPORA = {"lctt": LCTT, "msdocs": MSDOCS, "news": NEWS}
DICTIONARY, JIEBA = "dictionary", "jieba's IDF"
SEEDS = 8
FARTHEST = 12
"""Distances are counted up to this, so that tables can be compared at equal recall."""
ALIKE = 0.7
"""The recall of pairs with this J or more is held equal there."""
MIN_PAGES = 2
CORES = os.cpu_count() or 1
Integers = NDArray[np.int64]


class HeldOutPages(NamedTuple):
    """Pages that nothing was trained on, their groups as numbers, and pairs of them that are alike."""

    texts: list[str]
    group: Integers  # (n,)
    pairs: Integers  # (pairs, 2) places
    alike: NDArray[np.float64]  # (pairs,) J
    shingles: ShingleSets


class IdfResult(NamedTuple):
    """What one table does on one half under one seed."""

    hits: Integers  # (bins,) pairs that match
    pairs: Integers  # (bins,) pairs
    near: Integers  # (FARTHEST + 1,) pairs of J >= ALIKE, by distance
    candidates: Integers  # (FARTHEST + 1,) pairs of different groups, by distance
    false: int  # matches of different groups with J < .5
    others: int  # pairs of different groups

    def recall(self, distance: int) -> float:
        """Share of the pairs that are alike within a distance, without the sketch's confirmation."""
        return float(self.near[: distance + 1].sum() / max(1, self.pairs[: bin_of(ALIKE) + 1].sum()))

    def load(self, distance: float) -> float:
        """Candidates per million pairs of different groups, at least a thousandth; logarithms between distances."""
        per = np.maximum(np.cumsum(self.candidates) / self.others * 1e6, 1e-3)
        return exp(float(np.interp(distance, np.arange(FARTHEST + 1), np.log(per))))

    def distance_for(self, recall: float) -> float:
        """The distance, between whole ones where need be, at which recall is this; at most FARTHEST."""
        return float(np.interp(recall, [self.recall(k) for k in range(FARTHEST + 1)], np.arange(FARTHEST + 1)))


def run(context: StudyContext) -> dict[str, Any]:
    """For each corpus and table recall by J, candidates, false matches; and own tables against the others."""
    found: dict[str, dict[str, list[IdfResult]]] = {corpus: {} for corpus in CORPORA}
    for seed in range(SEEDS if context.limit is None else 2):
        with tempfile.TemporaryDirectory(prefix="simstream-idf-") as folder:
            for corpus, table, result in _measure(context, seed, Path(folder)):
                found[corpus].setdefault(table, []).append(result)
    k = context.recipe.distance
    return {corpus: _corpus(corpus, tables, k) for corpus, tables in found.items()}


def _measure(context: StudyContext, seed: int, folder: Path) -> Iterator[tuple[str, str, IdfResult]]:
    """All tables over all corpora under one seed."""
    base = replace(context.recipe, seed=context.recipe.seed + seed, idf_file=None, weights="dictionary")
    halves, recipes = {}, {DICTIONARY: base, JIEBA: replace(base, weights="jieba-idf")}
    with Fingerprinter(base, folder) as words:
        for corpus in CORPORA:
            learn, halves[corpus] = _split(context, corpus, seed)
            path = folder / f"{corpus}.idf"
            _train(words, learn, path)
            recipes[corpus] = replace(base, weights="file", idf_file=str(path))
    for table, recipe in recipes.items():
        with Fingerprinter(recipe, folder) as fingerprinter:
            policy = make_policy(recipe, fingerprinter.recipe_id)
            for corpus, half in halves.items():
                yield corpus, table, _found(half, _prints(fingerprinter, half.texts), recipe, policy)


def _split(context: StudyContext, corpus: str, seed: int) -> tuple[list[str], HeldOutPages]:
    """The texts to learn from, and the other half of the groups."""
    docs = context.docs(CORPORA[corpus])
    groups = sorted({doc.group for doc in docs})
    context.random(f"idf {corpus} {seed}").shuffle(groups)
    number = {group: place for place, group in enumerate(groups[len(groups) // 2 :])}
    kept = [doc for doc in docs if doc.group in number]
    places = {doc.id: place for place, doc in enumerate(kept)}
    pairs = [(places[a], places[b]) for a, b in _alike(corpus) if a in places and b in places]
    at = np.array(pairs, np.int64).reshape(-1, 2)
    texts = [doc.text for doc in kept]
    sets = shingle_sets(texts, CORES)
    group = np.array([number[doc.group] for doc in kept], np.int64)
    half = HeldOutPages(texts, group, at, jaccard(sets, at[:, 0], at[:, 1], CORES), sets)
    return [doc.text for doc in docs if doc.group not in number], half


def _alike(corpus: str) -> Iterator[tuple[str, str]]:
    """Pairs of ids: versions of one page; of the news, items that are alike."""
    name = "cross_group_similar" if corpus == "news" else "pairs"
    path = (corpora.folder() or Path()) / CORPORA[corpus] / f"{name}.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as opened:
        for line in opened:
            pair = json.loads(line)
            yield pair["a"], pair["b"]


def _train(words: Fingerprinter, texts: Sequence[str], path: Path) -> None:
    """The table that `train-idf` makes of these texts."""
    values = (msgspec.json.encode({"text": text}) for text in texts)
    records = (Record("pages", 0, number, None, value, (), NO_TIME) for number, value in enumerate(values))
    with TrainingFolder(path, resume=False) as folder:
        training = TrainingRun(words, folder, PageLimits(), TrainingOptions(threads=CORES))
        training.run(records)
        path.write_bytes(b"".join(lines(training.rows(), training.pages, MIN_PAGES)))


def _prints(fingerprinter: Fingerprinter, texts: Sequence[str]) -> TextFingerprints:
    """Fingerprints of all texts, by all cores."""
    with ThreadPoolExecutor(CORES) as pool:
        parts = list(pool.map(fingerprinter.texts, [texts[at : at + 500] for at in range(0, len(texts), 500)]))
    return TextFingerprints(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _found(half: HeldOutPages, prints: TextFingerprints, recipe: Recipe, policy: Policy) -> IdfResult:
    apart = gap(rows(prints, half.pairs[:, 0]), rows(prints, half.pairs[:, 1]), policy)
    bins = np.array([bin_of(similarity) for similarity in half.alike], np.int64)
    hits = np.bincount(bins[apart.within(policy, recipe)], minlength=len(BIN_NAMES))
    readable = apart.words >= recipe.min_words
    chosen = (half.alike >= ALIKE) & readable & (apart.distance <= FARTHEST)
    near = np.bincount(apart.distance[chosen], minlength=FARTHEST + 1)
    candidates, false = _others(half, prints, recipe, policy)
    n, sizes = len(half.texts), np.bincount(half.group)
    others = (n * (n - 1) - int((sizes * (sizes - 1)).sum())) // 2
    return IdfResult(hits, np.bincount(bins, minlength=len(BIN_NAMES)), near, candidates, false, max(1, others))


def _others(half: HeldOutPages, prints: TextFingerprints, recipe: Recipe, policy: Policy) -> tuple[Integers, int]:
    """Pairs of different groups by distance, and how many of them match though J < .5."""
    at = np.flatnonzero(prints.words >= recipe.min_words)
    candidates, matches = np.zeros(FARTHEST + 1, np.int64), [np.zeros((0, 2), np.int64)]
    for part in within(prints.lookup_values(policy)[at], None, FARTHEST, CORES):
        a, b = at[part.a], at[part.b]
        other = half.group[a] != half.group[b]
        candidates += np.bincount(part.distance[other], minlength=FARTHEST + 1)
        close = other & (part.distance <= policy.distance)
        a, b = a[close], b[close]
        match = gap(rows(prints, a), rows(prints, b), policy).within(policy, recipe)
        matches.append(np.stack([a[match], b[match]], axis=1))
    pairs = np.concatenate(matches)
    alike = jaccard(half.shingles, pairs[:, 0], pairs[:, 1], CORES)
    return candidates, int((alike < 0.5).sum())


def _corpus(corpus: str, tables: dict[str, list[IdfResult]], k: int) -> dict[str, Any]:
    return {
        "tables": {_name(table, corpus): _summary(found, k) for table, found in tables.items()},
        "own_against": {
            _name(table, corpus): _against(tables[corpus], found, k)
            for table, found in tables.items()
            if table != corpus
        },
    }


def _name(table: str, corpus: str) -> str:
    return "own IDF" if table == corpus else f"IDF of {table}" if table in CORPORA else table


def _summary(found: Sequence[IdfResult], k: int) -> dict[str, Any]:
    """Shares over all seeds, with the interval of the seeds' means."""
    bins = {name: _share([(one.hits[at], one.pairs[at]) for one in found]) for at, name in enumerate(BIN_NAMES[:4])}
    loads = _share([(one.candidates[: k + 1].sum(), one.others) for one in found])
    return {"recall": bins, "candidates": loads, "false": _share([(one.false, one.others) for one in found])}


def _share(counts: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    each = [(int(count), int(n)) for count, n in counts if n]
    count, n = sum(row[0] for row in each), sum(row[1] for row in each)
    if not n:
        return {"count": 0, "n": 0, "share": None, "low": None, "high": None}
    low, high = student([one / of for one, of in each]) or (0.0, 1.0)
    share = count / n
    return {
        "count": count,
        "n": n,
        "share": share,
        "low": min(share, max(0.0, low)),
        "high": max(share, min(1.0, high)),
    }


def _against(own: Sequence[IdfResult], other: Sequence[IdfResult], k: int) -> dict[str, Any]:
    """Own against another table, seed by seed: recall at k, candidates at k, candidates at the other's recall."""
    pairs = list(zip(own, other, strict=True))
    equal = [log(a.load(a.distance_for(b.recall(k))) / b.load(k)) for a, b in pairs]
    return {
        "recall": _mean([a.recall(k) - b.recall(k) for a, b in pairs]),
        "candidates": _ratio([log(a.load(k) / b.load(k)) for a, b in pairs]),
        "candidates_at_equal_recall": _ratio(equal),
    }


def _mean(values: Sequence[float]) -> dict[str, float]:
    low, high = student(values) or (values[0], values[0])
    return {"mean": fmean(values), "low": low, "high": high, "seeds": len(values)}


def _ratio(logarithms: Sequence[float]) -> dict[str, float]:
    found = _mean(logarithms)
    return {name: value if name == "seeds" else exp(value) for name, value in found.items()}


def tables(result: dict[str, Any]) -> list[StudyTable]:
    columns = ("weights", *(f"J {name}" for name in BIN_NAMES[:4]), "candidates", "false matches")
    made = []
    for corpus, found in result.items():
        body = [(name, *_cells(row)) for name, row in found["tables"].items()]
        made.append(
            StudyTable(f"{corpus}: recall %; candidates and matches with J < .5 per million pairs", columns, body)
        )
    head = ("own IDF against", "recall J >= .7, points", "candidates, times", "at equal recall, times", "reading")
    body = [
        (f"{corpus}: {other}", *_comparison(row))
        for corpus, found in result.items()
        for other, row in found["own_against"].items()
    ]
    return [*made, StudyTable("An own table against each other one, by seeds", head, body)]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        *(cell(part) for part in row["recall"].values()),
        cell(row["candidates"], 10**6),
        cell(row["false"], 10**6),
    )


def _comparison(row: dict[str, Any]) -> tuple[str, ...]:
    recall, load, equal = row["recall"], row["candidates"], row["candidates_at_equal_recall"]
    points = f"{100 * recall['mean']:+.1f} ({100 * recall['low']:+.1f} to {100 * recall['high']:+.1f})"
    reading = "better" if equal["high"] < 1 else "worse" if equal["low"] > 1 else "no clear difference"
    return (
        points,
        *(f"{part['mean']:.2f} ({part['low']:.2f}-{part['high']:.2f})" for part in (load, equal)),
        reading,
    )
