"""Explains judged pages of files or of a log. Changes nothing."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import msgspec

from simstream.judge.candidates import RejectionRule
from simstream.judge.policy import Policy
from simstream.model import PageKind, Record, VerdictKind, fingerprint_hex
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe
from simstream.tools.explain import difference as diffs
from simstream.tools.explain.explanation import AppliedRules, Explanation, TextDifference, TextOverlap, WordView
from simstream.tools.explain.reasons import sentences
from simstream.tools.explain.rejudge import Rejudge, VerdictCase
from simstream.tools.explain.request import ExplainAnswer, ExplainRequest, PageHistory, WantedIds
from simstream.tools.text_shares import text_shares
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits, decode


def rules_of(recipe: Recipe, policy: Policy) -> AppliedRules:
    """Return the rules that apply to every explained page."""
    bits, short = policy.sketch_bits, policy.short_limits
    return AppliedRules(
        recipe=recipe.name,
        recipe_id=policy.recipe_id,
        min_words=recipe.min_words,
        top=recipe.top,
        sketch_bits=bits,
        fingerprints=policy.fingerprints,
        sketch_lookups=policy.sketch_lookups,
        policy=policy.id,
        distance=policy.distance,
        agreement=policy.agreement if bits else None,
        similarity=wire.similarity(policy.agreement, bits),
        short_words=policy.short_words,
        short_distance=short.distance if short else None,
        short_agreement=short.agreement if short and bits else None,
        window_ms=policy.window_ms,
        link=policy.link,
    )


class PageText(NamedTuple):
    """The text of a page's record. `text` is None if the record has none, or if `missing` says why it is not known.

    `detail` says why a page was not compared. `cut`: only its beginning was fingerprinted.
    """

    text: str | None
    missing: str | None = None
    detail: str | None = None
    cut: bool = False


def read_text(
    fingerprinter: Fingerprinter,
    limits: PageLimits,
    original: Record | str,
    page_id: str,
    fingerprint: int | None = None,
) -> PageText:
    """Return the text of the page with this id and, if given, this fingerprint (0: it has none).

    `original` is the page's record, or why it is gone. It is read as `fingerprinter` reads it.
    """
    if isinstance(original, str):
        return PageText(None, original)
    page = decode(original, limits)
    columns = fingerprinter.columns([page])
    if page.id != page_id:
        return PageText(None, f"another page, {page.id}, is there now")
    now = int(columns.fingerprint[0])
    if fingerprint is not None and now != fingerprint:
        sketch = int.from_bytes(columns.sketch[0].tobytes(), "little")
        shown = fingerprint_hex(now, sketch, fingerprinter.recipe.fingerprints)
        what = f"the page there now has the fingerprint {shown}: its text changed, or was read differently"
        return PageText(None, what, page.detail or None)
    return PageText(page.text, None, page.detail or None, page.cut)


class Counterpart(NamedTuple):
    """The page that an explained page is compared with."""

    id: str
    ordinal: int


def counterpart(case: VerdictCase) -> Counterpart | None:
    """Return the page asked for, else the one of the verdict, else the nearest, else the earlier version."""
    if case.beside is not None:
        return Counterpart(case.beside.id, case.beside.ordinal)
    earlier = case.before.earlier
    own = Counterpart(case.verdict.id, earlier.ordinal) if earlier and case.kind == PageKind.READABLE else None
    if case.verdict.verdict == VerdictKind.UNCHANGED:
        return own
    others = [one for one in case.candidates if one.rejected_by != RejectionRule.OWN]
    return Counterpart(others[0].id, others[0].ordinal) if others else own


def measure_overlap(other: Counterpart, theirs: PageText, text: PageText) -> TextOverlap | None:
    """Return how much of each text is in the other one, or None if one is missing. Cost: some 60 ns a character."""
    if not theirs.text or not text.text:
        return None
    return TextOverlap(other.id, other.ordinal, *text_shares(text.text, theirs.text))


class Explainer:
    """Makes explanations under one policy. `limits` are those of the pages' records."""

    def __init__(self, fingerprinter: Fingerprinter, policy: Policy, limits: PageLimits) -> None:
        self._fingerprinter = fingerprinter
        self._policy = policy
        self._read = partial(read_text, fingerprinter, limits)
        self._rules = rules_of(fingerprinter.recipe, policy)

    def explain(self, history: PageHistory, request: ExplainRequest) -> ExplainAnswer:
        """Explain the pages of a request: judge the history again up to the last of them.

        Raises what the history raises.
        """
        names = WantedIds(request.ids)
        pages = history.find(request, names)
        ordinals = [page.ordinal for page in pages]
        rejudge = Rejudge(self._policy, ordinals, request.beside)
        judged = rejudge.cases(history.batches(max(ordinals, default=0) + 1))
        found = {case.verdict.ordinal: case for case in judged}
        cases = [found[ordinal] for ordinal in ordinals]
        # A page that was asked for and was not live then is not replaced by the nearest one.
        others = [counterpart(case) if case.beside or not request.beside else None for case in cases]
        wanted = [case.origin for case in cases] + [rejudge.origins[other.ordinal] for other in others if other]
        originals = history.originals(dict.fromkeys(wanted))
        made = []
        for page, case, other in zip(pages, cases, others, strict=True):
            text = self._read(originals[case.origin], case.verdict.id, case.fingerprint)
            made.append(self._explanation(case, text, page.published, request))
            if other:
                theirs = self._read(originals[rejudge.origins[other.ordinal]], other.id)
                made[-1] = msgspec.structs.replace(
                    made[-1],
                    difference=self._difference(other, theirs, text) if request.diff else None,
                    overlap=measure_overlap(other, theirs, text),
                )
        known = {page.id for page in pages}
        return ExplainAnswer(made, [history.unknown(name, names) for name in request.ids if name not in known])

    def _explanation(
        self, case: VerdictCase, text: PageText, published: bytes | None, request: ExplainRequest
    ) -> Explanation:
        value = wire.encode(case.verdict)
        words = self._fingerprinter.weighted(text.text) if text.text else []
        return Explanation(
            id=case.verdict.id,
            sentence=sentences(case, self._rules, request.beside),
            verdict=msgspec.Raw(value),
            published=None if published is None else msgspec.Raw(published),
            agrees=None if published is None else published == value,
            detail=text.detail,
            rules=self._rules,
            before=case.before,
            distinct_words=case.words,
            words=tuple(WordView(word, times, round(weight, 4)) for word, times, weight in words[: request.words]),
            text_missing=text.missing,
            text_cut=text.cut,
            matches=sum(one.accepted for one in case.candidates),
            candidate_count=len(case.candidates),
            candidates=tuple(case.candidates[: request.candidates]),
            beside=case.beside,
        )

    def _difference(self, other: Counterpart, theirs: PageText, text: PageText) -> TextDifference:
        missing = theirs.missing or text.missing
        if theirs.text is None or text.text is None:
            return TextDifference(other.id, other.ordinal, missing=missing or "one of the two pages has no text")
        # A lone surrogate can be judged, but not written.
        texts = (shown.encode("utf-8", "replace").decode() for shown in (theirs.text, text.text))
        left, right = (diffs.units(shown, self._fingerprinter.tokens(shown)) for shown in texts)
        runs = diffs.runs(left, right)
        same, only_other, only_page = diffs.counts(left, right, runs)
        return TextDifference(
            other.id,
            other.ordinal,
            tuple(diffs.passages(left, right, diffs.readable(runs))),
            same,
            only_other,
            only_page,
        )
