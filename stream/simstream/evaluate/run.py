"""Runs `simstream evaluate`: reads inputs, measures, writes results. Keeps long steps in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from simstream import __version__
from simstream.errors import InputMissing, UsageError
from simstream.evaluate.contenders import PeerRun, RecipeRun, RunWatcher
from simstream.evaluate.corpus import GROUP, NO_GROUP, Corpus, InputReader, components, corpus_names, read_corpus
from simstream.evaluate.measure import BIN_NAMES, BINS, LENGTH_NAMES, CorpusTruth, bin_of
from simstream.evaluate.pairs import (
    DIFFERENT,
    CompletedPairs,
    LabelledPair,
    assign,
    complete,
    of_groups,
    placed,
    read_pairs,
)
from simstream.evaluate.results import VERSION, Contender, CorpusInfo, EvaluationResults
from simstream.evaluate.store import ResultStore
from simstream.model import Record
from simstream.settings import Settings
from simstream.sources.fields import KNOWN, FieldNames
from simstream.sources.input_files import shown_path
from simstream.sources.read import read_pages
from simstream.text.recipe import MAX_DISTANCE, Recipe
from simstream.wire.page import PageLimits

CACHE: Final = ".cache"
"""The folder of the store, within the output's folder."""
FIRST_SEED: Final = 16
"""In MurmurHash3 a word of as many bytes as the seed loses its lowest bit, if both are below 9."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The options of a run. `seeds` None: each recipe's own seed."""

    inputs: Sequence[str]
    pairs: Sequence[str]
    recipes: Sequence[Recipe]
    seeds: int | None
    distances: Sequence[int]
    folder: Path
    minhash: bool
    strip_front_matter: bool
    settings: Settings
    fields: FieldNames = field(default_factory=FieldNames)


def evaluate(request: EvaluationRequest, watcher: RunWatcher) -> EvaluationResults:
    """Measure everything. Raises UsageError and InputError; finished measurements are kept."""
    store = ResultStore(request.folder / CACHE)
    truths = [CorpusTruth(corpus, request.settings.threads) for corpus in _read(request, watcher)]
    infos = _label(request, truths, store, watcher)
    contenders = []
    left_out: list[str] = []
    for recipe in request.recipes:
        run = RecipeRun(recipe, request.distances, request.settings, store)
        contenders.append(run.measure(truths, _seeds(request, recipe), watcher))
    if request.minhash:
        contenders += _minhash(request, truths, store, watcher, contenders, left_out)
    return EvaluationResults(VERSION, __version__, list(BIN_NAMES), list(LENGTH_NAMES), infos, contenders, left_out)


def _seeds(request: EvaluationRequest, recipe: Recipe) -> list[int]:
    return [recipe.seed] if request.seeds is None else list(range(FIRST_SEED, FIRST_SEED + request.seeds))


def _read(request: EvaluationRequest, watcher: RunWatcher) -> list[Corpus]:
    settings = request.settings
    limit = settings.max_record_bytes
    reading = InputReader(
        PageLimits(max_record_bytes=limit),
        request.strip_front_matter,
        settings.extract.workers,
        settings.extract.timeout_s,
        settings.extract.memory_bytes,
        any(recipe.extract == "fast" for recipe in request.recipes),
    )
    fields = replace(request.fields, known=(*KNOWN, GROUP))
    corpora = []
    for name, path in zip(corpus_names(request.inputs), request.inputs, strict=True):
        done = watcher.task(f"reading {name}", None)
        pages = read_pages([path], limit, fields, watcher.say, forgiving=True)
        corpora.append(corpus := read_corpus(name, _counted(pages, done), reading))
        corpus.unread.report(watcher.say)
    return corpora


def _counted(records: Iterable[Record], done: Callable[[int], None]) -> Iterator[Record]:
    for record in records:
        yield record
        done(1)


def _label(
    request: EvaluationRequest, truths: list[CorpusTruth], store: ResultStore, watcher: RunWatcher
) -> list[CorpusInfo]:
    """Give each corpus its pairs and groups."""
    corpora = [truth.corpus for truth in truths]
    given = assign(read_pairs(request.pairs), corpora)
    if given.unknown:
        example = given.example[:60] + "…" * (len(given.example) > 60)
        watcher.say(
            f"pairs left out, since no input has one of their pages: {given.unknown:,}, such as {example!r}"
        )
    if given.across:
        watcher.say(f"pairs left out, since their pages are in different inputs: {given.across:,}")
    if request.pairs and not any(given.pairs):
        raise InputMissing(
            "no labelled pair has both its pages in one input", "check that pairs and pages have the same ids"
        )
    infos = []
    for truth, named, path in zip(truths, given.pairs, request.inputs, strict=True):
        pairs = named or of_groups(truth.corpus)
        infos.append(_label_one(truth, pairs, path, store))
        if infos[-1].wrong_jaccard > _MAX_UNSUSPICIOUS_SHARE:
            watcher.say(
                f"{infos[-1].wrong_jaccard:.0%} of the given J of {truth.corpus.name} differ from those of its "
                "texts: add --strip-front-matter if these begin with a YAML front matter"
            )
    return infos


_MINHASH_SEEDS: Final = 3
"""MinHash differs little from seed to seed, and takes long."""
_MAX_UNSUSPICIOUS_SHARE: Final = 0.02


def _label_one(truth: CorpusTruth, pairs: list[LabelledPair], path: str, store: ResultStore) -> CorpusInfo:
    corpus, grouped_by = truth.corpus, "group"
    if pairs:
        depends = [corpus.digest, [(pair.a, pair.b, pair.jaccard5) for pair in pairs]]
        jaccard = store.kept(
            "jaccard", depends, CompletedPairs, lambda: complete(pairs, corpus, truth.sets, truth.threads)
        )
        truth.pairs = placed(pairs, corpus, jaccard)
    if (corpus.group == NO_GROUP).all():
        same = truth.pairs.label != DIFFERENT
        group = components(len(corpus.pages), truth.pairs.a[same], truth.pairs.b[same])
        truth.corpus, grouped_by = replace(corpus, group=group), "pairs"
    groups = len(np.unique(truth.corpus.group[truth.corpus.group != NO_GROUP]))
    bins = bin_of(truth.pairs.jaccard[truth.pairs.label != DIFFERENT])
    return CorpusInfo(
        name=corpus.name,
        input=shown_path(path),
        digest=corpus.digest,
        pages=len(corpus.pages),
        groups=groups,
        grouped_by=grouped_by if groups else None,
        pairs=len(pairs),
        pairs_by_bin=np.bincount(bins, minlength=len(BINS)).tolist(),
        wrong_jaccard=truth.pairs.off,
    )


def _minhash(
    request: EvaluationRequest,
    truths: list[CorpusTruth],
    store: ResultStore,
    watcher: RunWatcher,
    recipes: list[Contender],
    left_out: list[str],
) -> list[Contender]:
    """Return MinHash at the J of the first recipe with a sketch."""
    similarity = next(
        (max(0.0, 2 * one.agreement / one.bits - 1) for one in recipes if one.bits and one.agreement), 0.5
    )
    run = PeerRun(similarity, store)
    if run.missing is not None:
        left_out.append(run.missing)
        watcher.say(run.missing)
        return []
    return [run.measure(truths, list(range(min(request.seeds or 1, _MINHASH_SEEDS))), watcher)]


def encode(results: EvaluationResults) -> bytes:
    """Return the content of `results.json`."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def distances_of(text: str) -> list[int]:
    """Return the distances of `1-10`, `3` or `1,3,8`. Raises UsageError."""
    try:  # a range of billions would fill the memory before it is refused
        found = {
            distance
            for part in text.split(",")
            for distance in _range(*(min(int(end), MAX_DISTANCE + 1) for end in part.split("-")))
        }
    except (ValueError, TypeError) as error:
        raise UsageError(f"--distance is {text!r}", "give distances such as 1-10, 8 or 3,8") from error
    if not found or min(found) < 0 or max(found) > MAX_DISTANCE:
        raise UsageError(f"--distance is {text!r}", f"give distances from 0 to {MAX_DISTANCE}")
    return sorted(found)


def _range(first: int, last: int | None = None) -> range:
    return range(first, (first if last is None else last) + 1)
