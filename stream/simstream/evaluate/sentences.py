"""Says the results in plain sentences: what is good, what is bad, and compared with what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from simstream.evaluate.intervals import ShareInterval
from simstream.evaluate.results import Contender, ContenderOnCorpus, EvaluationResults, JudgedCorpus

Tone = Literal["good", "fair", "bad", "plain"]
RECALL: Final = (0.99, 0.97, 0.90)
"""Recall is good from these shares on, of the pairs with J >= .9, .8-.9 and .7-.8."""
_MAX_FAIR_LOSS: Final = 0.03
"""Recall that is lower by less than this is fair."""
BELOW_5: Final = (0.04, 0.1)
"""The share of verdicts that name a page with J < .5 is good up to the first value, fair up to the second."""
BELOW_3: Final = 0.002
_OUT_OF_PROPORTION: Final = (0.01, 0.05)
"""The share of all pages in the largest cluster is good and fair up to these values."""
_MIN_RATED_PAGES: Final = 1_000
"""The largest cluster is not rated among fewer: of few pages any cluster is a large share."""
_MIN_BIT_SHARE: Final = 0.01
"""A bit that fewer pages have, or lack, is not judged."""
_MIN_BIT, _MAX_BIT = 0.3, 0.7


class ReportSentence(NamedTuple):
    """One thing to know."""

    tone: Tone
    text: str


class ReportPart(NamedTuple):
    """The sentences about one corpus, or about all."""

    title: str
    sentences: list[ReportSentence]


def read(results: EvaluationResults) -> list[ReportPart]:
    """Return sentences about the first recipe, and how the others compare with it."""
    first = results.contenders[0]
    parts = [
        ReportPart(one.corpus, [*_recall(one), *_verdicts(one), *_clusters(one), *_bits(one)])
        for one in first.corpora
    ]
    whole = [
        *_apart(first),
        *_cost(first),
        *_others(results),
        *(ReportSentence("plain", text) for text in results.left_out),
    ]
    return [*parts, ReportPart("All together", whole)]


def _per_million(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def percent(value: float | None) -> str:
    """Return a share as a person writes it, with enough digits to tell it from 0 and 1."""
    if value is None:
        return "–"
    if value in (0, 1):
        return "100 %" if value else "0 %"
    scaled = 100 * value
    return f"{scaled:.{1 if 1 <= scaled <= 99 else 2}f} %"


def _recall(one: ContenderOnCorpus) -> Iterator[ReportSentence]:
    bins = [(share, goal) for share, goal in zip(one.rule.recall, RECALL, strict=False) if share.value is not None]
    if not bins:
        yield ReportSentence("plain", "There are no labelled pairs with J ≥ .7, so its recall is not known.")
        return
    names = ("J ≥ .9", ".8–.9", ".7–.8")
    found = ", ".join(
        f"{percent(share.value)} of those with {name}" if at == 0 else f"{percent(share.value)} at {name}"
        for at, (share, name) in enumerate(zip(one.rule.recall, names, strict=False))
        if share.value is not None
    )
    short = max(goal - (share.value or 0.0) for share, goal in bins)
    tone: Tone = "good" if short <= 0 else "fair" if short <= _MAX_FAIR_LOSS else "bad"
    yield ReportSentence(tone, f"Of the labelled pairs it finds {found}.")


def _verdicts(one: ContenderOnCorpus) -> Iterator[ReportSentence]:
    judged = _any(one)
    if judged is None or judged.below_5.value is None:
        return
    low, worst = judged.below_5.value, judged.below_3.value or 0.0
    tone: Tone = "good" if low <= BELOW_5[0] and worst <= BELOW_3 else "fair" if low <= BELOW_5[1] else "bad"
    yield ReportSentence(
        tone,
        f"Of {_number(judged.near_duplicates.value)} verdicts near_duplicate {percent(low)} name a page with "
        f"J < .5, {percent(worst)} one with J < .3{_spread(judged.below_5)}.",
    )


def _clusters(one: ContenderOnCorpus) -> Iterator[ReportSentence]:
    judged = _any(one)
    if judged is None or not judged.largest or not one.readable.value:
        return
    share = judged.largest[0] / one.readable.value
    other = next((row.largest[0] for row in one.judged if row.link == "canonical" and row.largest), None)
    beside = f" ({other:,} under the link rule canonical)" if other is not None else ""
    tone: Tone = "good" if share <= _OUT_OF_PROPORTION[0] else "fair" if share <= _OUT_OF_PROPORTION[1] else "bad"
    yield ReportSentence(
        tone if one.readable.value >= _MIN_RATED_PAGES else "plain",
        f"The largest cluster has {judged.largest[0]:,} of {_number(one.readable.value)} pages{beside}.",
    )


def _apart(first: Contender) -> Iterator[ReportSentence]:
    rule = first.apart_rule
    if rule is None or rule.matched.value is None:
        return
    many = f"{_number(rule.matched.of)} pairs of pages of different corpora"
    if rule.matched.hits == 0:
        yield ReportSentence("good", f"None of {many} match.")
    else:
        tone: Tone = "fair" if rule.matched.value * 1e6 <= 0.01 else "bad"
        yield ReportSentence(tone, f"{rule.matched.hits:.3g} of {many} match.")


def _spread(share: ShareInterval) -> str:
    """Return how far the seeds differ, if they differ much."""
    least, most = min(share.by_seed, default=0.0), max(share.by_seed, default=0.0)
    return f"; by seed J < .5 from {percent(least)} to {percent(most)}" if most > 1.2 * least else ""


def _bits(one: ContenderOnCorpus) -> Iterator[ReportSentence]:
    ones = [share.by_seed[0] for share in one.bits if share.by_seed]  # the mean over seeds would level them
    worst = max(ones, key=lambda value: abs(value - 0.5), default=0.5)
    if not _MIN_BIT_SHARE <= worst <= 1 - _MIN_BIT_SHARE:
        yield ReportSentence(
            "bad",
            f"Bit {ones.index(worst)} of the fingerprint is 1 in {percent(worst)} of the pages: it "
            "tells none apart; take another seed.",
        )
    elif not _MIN_BIT <= worst <= _MAX_BIT:
        yield ReportSentence(
            "fair",
            f"Bit {ones.index(worst)} of the fingerprint is 1 in {percent(worst)} of the pages: they share heavy "
            "words, and the index has more candidates for it.",
        )


def _cost(first: Contender) -> Iterator[ReportSentence]:
    ratios = [one.cost.ratio for one in first.corpora if one.cost is not None]
    if ratios:
        low, high = min(ratios), max(ratios)
        span = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
        yield ReportSentence(
            "plain", f"Fingerprint and sketch together cost {span} times what tokenizing alone costs."
        )


def _others(results: EvaluationResults) -> Iterator[ReportSentence]:
    """Return one sentence about all contenders: the bin .8-.9 and false matches of all labelled corpora."""
    rows = [(contender, _together(contender)) for contender in results.contenders]
    if len(rows) < 2 or rows[0][1][0] is None:
        return
    parts = [
        f"{contender.name} finds {percent(recall)} and confuses {_per_million(false)} of a million"
        for contender, (recall, false) in rows
    ]
    yield ReportSentence(
        "plain",
        "Side by side, of labelled pairs with J from .8 to .9 and of pairs of different groups: "
        f"{'; '.join(parts)}.",
    )


def _together(contender: Contender) -> tuple[float | None, float]:
    recall = _pooled([one.rule.recall[1] for one in contender.corpora])
    false = [_pooled([getattr(one.rule, name) for one in contender.corpora]) or 0.0 for name in ("wrong", "loose")]
    return recall, sum(false) * 1e6


def _pooled(shares: list[ShareInterval]) -> float | None:
    of = sum(share.of for share in shares)
    return sum(share.hits for share in shares) / of if of else None


def _any(one: ContenderOnCorpus) -> JudgedCorpus | None:
    return next((row for row in one.judged if row.link == "any"), None)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value / 1e6:,.0f} million" if value >= 1e7 else f"{value:,.0f}"
