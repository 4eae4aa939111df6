"""Defines the types of `results.json`. Their JSON Schema is written beside it.

Shares of pairs are shares; times a million they are the "per million pairs" of the page.
"""

from __future__ import annotations

from typing import Final

import msgspec

from simstream.evaluate.intervals import MeanInterval, ShareInterval

VERSION: Final = 1


class CorpusInfo(msgspec.Struct, frozen=True):
    """One input."""

    name: str
    input: str
    digest: str
    """16 hex digits over ids and texts."""
    pages: int
    groups: int
    grouped_by: str | None
    """`group` (a field of the pages), `pairs` (components of pairs, without those of label 0), or null."""
    pairs: int
    pairs_by_bin: list[int]
    """Pairs by J, as in `bins`, without pairs of label 0."""
    wrong_jaccard: float
    """Share of the given `jaccard5` that differ by more than .02 from those of the texts."""


class DistanceCurve(msgspec.Struct, frozen=True):
    """One distance, with or without the sketch."""

    distance: int
    sketch: bool
    recall: list[ShareInterval]
    """By bin: labelled pairs within the distance (and confirmed)."""
    precision: ShareInterval
    """Share of all matched pairs with J >= .5."""
    wrong: ShareInterval
    """Matches with J < .3 of all pairs of different groups."""
    loose: ShareInterval
    """Matches with J from .3 to .5."""
    matched: ShareInterval
    """All matches of different groups; without the sketch they are the index's candidates."""


class JudgedCorpus(msgspec.Struct, frozen=True):
    """The judge's verdicts over a corpus in input order, under one link rule."""

    link: str
    near_duplicates: MeanInterval
    below_5: ShareInterval
    """Share of the verdicts `near_duplicate` that name a page with J < .5."""
    below_3: ShareInterval
    clusters: MeanInterval
    largest: list[int]
    """Number of pages of each of the largest clusters, under the first seed."""
    rand: MeanInterval
    """Adjusted Rand index of clusters against groups."""
    b_cubed_precision: MeanInterval
    b_cubed_recall: MeanInterval
    b_cubed_f: MeanInterval


class FingerprintCost(msgspec.Struct, frozen=True):
    """CPU time of fingerprinting on a sample of the corpus, one thread."""

    pages: int
    us_per_page: float
    tokenizing_us_per_page: float
    ratio: float
    """Median over the rounds in which both ran."""


class ContenderOnCorpus(msgspec.Struct, frozen=True):
    """One contender on one corpus. `rule` has the result at its own distance and with its sketch."""

    corpus: str
    readable: MeanInterval
    """Pages that are not too short, unreadable or withdrawn."""
    rule: DistanceCurve
    curves: list[DistanceCurve]
    lengths: list[list[ShareInterval]]
    """Recall under the rule by distinct words of the shorter page (`length_names`), then by bin."""
    distances: list[ShareInterval]
    """Share of random pairs of different groups at each distance from 0 to 64."""
    bits: list[ShareInterval]
    """Share of the fingerprints with a 1 at each bit."""
    judged: list[JudgedCorpus]
    cost: FingerprintCost | None


class CrossCorpusMatches(msgspec.Struct, frozen=True):
    """Matches among pairs of pages of different corpora, by distance; without and with the sketch."""

    distance: int
    candidates: ShareInterval
    matched: ShareInterval


class Contender(msgspec.Struct, frozen=True):
    """A recipe under its seeds, or MinHash."""

    name: str
    ids: list[str]
    """Recipe ids, one a seed; empty for MinHash."""
    seeds: list[int]
    distance: int | None
    agreement: int
    """Bits of the sketch (or minima of the signature) that must agree."""
    bits: int
    """Bits of the sketch, or minima of the signature."""
    bytes_per_page: int
    """Of fingerprint and sketch, or of the signature."""
    corpora: list[ContenderOnCorpus]
    apart: list[CrossCorpusMatches]
    """Results between corpora by distance; empty for one corpus."""
    apart_rule: CrossCorpusMatches | None
    """Results between corpora at its own distance."""


class EvaluationResults(msgspec.Struct, frozen=True):
    """All measurements. Intervals are 95 % intervals."""

    version: int
    simstream: str
    bins: list[str]
    length_names: list[str]
    corpora: list[CorpusInfo]
    contenders: list[Contender]
    left_out: list[str]
    """Requests that could not be measured, with the reason."""


def schema() -> bytes:
    """Return the JSON Schema of `EvaluationResults`."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(EvaluationResults)), indent=2)
